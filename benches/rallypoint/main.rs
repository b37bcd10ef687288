//! `bench`: one figure, and in the same run the yardstick it is to be read against. Machines
//! differ; ratios travel.
//!
//! Every bench starts a durable private Postgres of its own and a server process on it, so that
//! client, server and database are what a user has. It measures and prints; it passes no judgement.

mod aging;
mod all;
mod backlog;
mod cancel;
mod chart;
mod environment;
mod fill;
mod latency;
mod load;
mod machine;
mod null_server;
mod orders;
mod overload;
mod paired;
mod raw_append;
mod replay;
mod report;
mod restart;
mod results;
mod schedulers;
mod series;
mod snapshot;
mod streams;
mod takeover;
mod throughput;
mod unary;
mod usage;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use series::Measured;
use std::{path::PathBuf, process::ExitCode};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure one figure and its yardstick, on a private Postgres.
#[derive(Parser, Debug)]
#[command(name = "cargo bench --bench rallypoint --", max_term_width = 100)]
struct Bench {
    /// What to measure
    name: Name,
    /// Tasks or calls per run [default: depends on the bench]
    #[arg(short, long, value_name = "COUNT")]
    count: Option<u64>,
    /// Runs; the median counts
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// The largest size, for a shorter run of the benches that grow [default: depends on the bench]
    #[arg(short, long, value_name = "SIZE")]
    most: Option<u64>,
    /// `all`: only these
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<Name>,
    /// `all`: the folder for RESULTS.md and the pictures
    #[arg(long, value_name = "FOLDER", default_value = "benches")]
    into: PathBuf,
    /// What cargo adds
    #[arg(long, hide = true)]
    bench: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Every bench below, into RESULTS.md
    All,
    /// No-op tasks end to end, 100 a call, against the raw append of the same rows on one
    /// connection
    Throughput,
    /// No-op tasks end to end, 1 a call, 64 callers, against bare unary gRPC calls
    Unary,
    /// One task at a time, against two single-row commits and one gRPC round trip
    Latency,
    /// New tasks while up to 10 million wait in another scheduler, against an empty server; and the
    /// memory they take
    Backlog,
    /// New tasks while 100 000 schedulers are open and idle, against an empty server; statements
    /// and memory they take
    Schedulers,
    /// 100 000 orders in one scheduler, and 100 000 tasks in one order, against as many without
    Orders,
    /// Three times the load that can be sustained: throughput against the best, other callers,
    /// memory
    Overload,
    /// 1000 streams, every tenth of which never reads while a million events pass it by, against
    /// the reading ones alone
    Streams,
    /// 10 million queued tasks cancelled: when it is acknowledged, and what other callers notice
    Cancel,
    /// A million events read again from the journal, against taking its rows apart without a
    /// service; and lists of 10 million tasks
    Replay,
    /// Kill and start with 10 million queued, one old task open, or 100 000 schedulers, against an
    /// empty start
    Restart,
    /// The owner of three replicas killed, and each told to go: how long no event comes, against
    /// the lease
    Takeover,
    /// 10 million tasks with autovacuum off: the last million against the first, dead rows, bytes
    /// on disk
    Aging,
    /// A transaction that stays open, and days that come and go, against the same load without
    Snapshot,
    /// The process behind the yardstick of unary calls
    #[value(hide = true)]
    NullServer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

impl Name {
    /// It is a bench of its own.
    fn is_measured(self) -> bool {
        !matches!(self, Name::All | Name::NullServer)
    }
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    Bench::parse().run().await
}

impl Bench {
    /// Measures and prints.
    async fn run(self) -> Result<ExitCode> {
        let runs = self.runs as usize;
        let report: Measured = match self.name {
            Name::All => {
                let failed = all::run(&self.into, &self.only, self.runs, self.most).await?;
                return Ok(if failed.is_empty() {
                    ExitCode::SUCCESS
                } else {
                    ExitCode::FAILURE
                });
            }
            Name::NullServer => {
                null_server::serve().await?;
                return Ok(ExitCode::SUCCESS);
            }
            Name::Throughput => throughput::run(self.count.unwrap_or(600_000), runs)
                .await?
                .into(),
            Name::Unary => unary::run(self.count.unwrap_or(100_000), runs)
                .await?
                .into(),
            Name::Latency => latency::run(self.count.unwrap_or(3_000), runs)
                .await?
                .into(),
            Name::Schedulers => {
                schedulers::run(
                    self.count.unwrap_or(200_000),
                    self.most.unwrap_or(100_000),
                    runs,
                )
                .await?
            }
            Name::Orders => orders::run(self.count.unwrap_or(100_000), runs)
                .await?
                .into(),
            Name::Overload => overload::run(runs).await?.into(),
            Name::Streams => streams::run(
                self.most.unwrap_or(1_000).min(1_000),
                self.count.unwrap_or(1_000_000),
            )
            .await?
            .into(),
            Name::Cancel => cancel::run(self.most.unwrap_or(10_000_000), runs)
                .await?
                .into(),
            Name::Replay => replay::run(self.most.unwrap_or(10_000_000), runs)
                .await?
                .into(),
            Name::Takeover => takeover::run(self.count.unwrap_or(20)).await?.into(),
            Name::Restart => restart::run(self.most.unwrap_or(10_000_000), runs)
                .await?
                .into(),
            Name::Aging => aging::run(self.most.unwrap_or(10_000_000), runs).await?,
            Name::Snapshot => snapshot::run(self.most.unwrap_or(100_000).min(100_000))
                .await?
                .into(),
            Name::Backlog => {
                backlog::run(
                    self.count.unwrap_or(200_000),
                    self.most.unwrap_or(10_000_000),
                    runs,
                )
                .await?
            }
        };
        match self.output {
            Format::Text => print!("{report}"),
            Format::Json => println!("{}", report.json()),
        }
        Ok(ExitCode::SUCCESS)
    }
}
