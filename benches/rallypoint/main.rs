//! `cargo bench --bench rallypoint -- NAME`: one figure, and in the same run the baseline to read
//! it against. Machines differ; ratios travel.
//!
//! Every bench starts a durable private Postgres of its own and a server process on it, so that
//! client, server and database are what a user has. It measures and prints; it passes no judgement.

mod aging;
mod all;
mod backlog;
mod cancel;
mod cancel_tasks;
mod chart;
mod churn;
mod environment;
mod fairness;
mod fill;
mod forecast;
mod http2_abuse;
mod idle_jobs;
mod jobs;
mod latency;
mod lists;
mod load;
mod locks;
mod machine;
mod null_server;
mod orders;
mod overload;
mod page;
mod paired;
mod raw_append;
mod replay;
mod report;
mod restart;
mod results;
mod schedulers;
mod secured;
mod series;
mod snapshot;
mod sql;
mod stall;
mod streams;
mod takeover;
mod task_resources;
mod throughput;
mod turnaround;
mod unary;
mod usage;

#[path = "../../tests/support/http2_abuse.rs"]
mod abusers;

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use series::Measured;
use std::{path::PathBuf, process::ExitCode};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure one figure and its baseline, on a private Postgres.
#[derive(Parser, Debug)]
#[command(name = "cargo bench --bench rallypoint --", max_term_width = 100)]
struct Bench {
    /// What to measure
    name: Name,
    /// Tasks or calls per run [default: depends on the bench]
    #[arg(short, long, value_name = "COUNT")]
    count: Option<u64>,
    /// Number of runs; the median counts
    #[arg(
        long,
        default_value_t = 3,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    runs: u64,
    /// The largest size, to shorten the benches that measure growing sizes [default: depends on the
    /// bench]
    #[arg(short, long, value_name = "SIZE")]
    most: Option<u64>,
    /// `all`: only these
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<Name>,
    /// `all`: the folder for RESULTS.md and the charts
    #[arg(long, value_name = "FOLDER", default_value = "benches")]
    into: PathBuf,
    /// Passed by cargo
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
    /// No-op tasks end to end, 1 a call, 64 callers, against the same calls to a null server
    Unary,
    /// One task at a time, against two single-row commits and one gRPC round trip
    Latency,
    /// Throughput, latency and unary calls with TLS, tokens, metrics that are scraped and sampled
    /// traces, against a server without
    Secured,
    /// The slowest calls of somebody else while HTTP/2 is abused, by resets, headers, windows, half
    /// messages and ten thousand silent sockets, against the same calls before; and memory
    Http2Abuse,
    /// SQL tasks end to end, 100 a call, against the bytes that the executor sends for them on as
    /// many connections without a service
    Sql,
    /// Locks taken and given back, and hand-overs, against etcd's own lock and `select … for
    /// update`
    Locks,
    /// How long a place under a limit of 1, 3 and 8 stands empty between two tasks of 20 ms,
    /// against the same texts on 8 connections without a service
    Turnaround,
    /// SQL tasks of 5 ms that hold one of 100 keys and one of 20 permits, against the same tasks
    /// without
    TaskResources,
    /// New tasks while up to 10 million wait in another scheduler, against an empty server; and the
    /// memory they take
    Backlog,
    /// New tasks while 100 000 schedulers are open and idle, against an empty server; statements
    /// and memory they take
    Schedulers,
    /// 100 000 orders in one scheduler, and 100 000 tasks in one order, against as many without
    Orders,
    /// How long somebody who runs nothing waits for a slot after random histories and in a flood,
    /// against the length of a running task
    Fairness,
    /// Three times the load that can be sustained: throughput against the best, other callers,
    /// memory
    Overload,
    /// 1000 streams, every tenth of which never reads while a million events pass it by, against
    /// the reading ones alone
    Streams,
    /// 360 000 schedulers opened and released at full speed: memory at the end, against some rounds
    /// before
    Churn,
    /// 10 million queued tasks cancelled: when it is acknowledged, and what other callers notice
    Cancel,
    /// A million queued tasks cancelled by a filter: the rate, and what other callers notice
    CancelTasks,
    /// Backlogs that come due at once, and a takeover with many tasks in doubt: the longest wait of
    /// another caller, against its longest while nothing is due
    Stall,
    /// A million events read from the journal, against decoding its rows without a service; and
    /// lists of 10 million tasks
    Replay,
    /// Kill and start with 10 million queued, one old task open, or 100 000 schedulers, against an
    /// empty start
    Restart,
    /// The owner of three replicas killed, and each restarted: the time without events, against the
    /// lease
    Takeover,
    /// 10 000 jobs due in one second on three replicas, the owner killed meanwhile: how late the
    /// last run begins after the due time or the takeover, against what is allowed; and due times
    /// with two runs
    Jobs,
    /// 10 000 jobs with a million due times a year ahead, and 10 000 that fire once a day, while
    /// nobody does anything: transactions, rows and processor time against a server without jobs
    IdleJobs,
    /// 10 million tasks with autovacuum off: the last million against the first, dead rows, bytes
    /// on disk
    Aging,
    /// A transaction left open, and days created and dropped, against the same load without
    Snapshot,
    /// The longest wait of another caller while forecasts are made of a large backlog, against the
    /// longest while none is made
    Forecast,
    /// Every view of the page in a browser at 100 000 schedulers and 10 million tasks, against a
    /// server with few
    Page,
    /// The process behind the baseline of unary calls
    #[value(hide = true)]
    NullServer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

impl Name {
    /// It measures something itself.
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
        match self.name {
            Name::All => {
                let failed = all::run(&self.into, &self.only, self.runs, self.most).await?;
                return Ok(match failed.is_empty() {
                    true => ExitCode::SUCCESS,
                    false => ExitCode::FAILURE,
                });
            }
            Name::NullServer => null_server::serve().await?,
            _ => {
                let measured = self.measure().await?;
                match self.output {
                    Format::Text => print!("{measured}"),
                    Format::Json => println!("{}", measured.json()),
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Runs one bench, with its default sizes where none are given.
    async fn measure(&self) -> Result<Measured> {
        let runs = self.runs as usize;
        let count = |default| self.count.unwrap_or(default);
        let most = |default| self.most.unwrap_or(default);
        Ok(match self.name {
            Name::Throughput => throughput::run(count(600_000), runs).await?.into(),
            Name::Unary => unary::run(count(100_000), runs).await?.into(),
            Name::Latency => latency::run(count(3_000), runs).await?.into(),
            Name::Secured => secured::run(count(100_000), runs).await?.into(),
            Name::Http2Abuse => http2_abuse::run(count(4), runs).await?.into(),
            Name::Sql => sql::run(count(40_000), runs).await?.into(),
            Name::Locks => locks::run(most(1_000_000), runs).await?.into(),
            Name::Turnaround => turnaround::run(count(1_000), runs).await?.into(),
            Name::TaskResources => task_resources::run(count(10_000), runs).await?.into(),
            Name::Backlog => backlog::run(count(200_000), most(10_000_000), runs).await?,
            Name::Schedulers => schedulers::run(count(200_000), most(100_000), runs).await?,
            Name::Orders => orders::run(count(100_000), runs).await?.into(),
            Name::Fairness => fairness::run(count(20)).await?.into(),
            Name::Overload => overload::run(runs).await?.into(),
            Name::Streams => {
                let streams = most(1_000).min(1_000);
                streams::run(streams, count(1_000_000)).await?.into()
            }
            Name::Churn => churn::run(count(360_000)).await?.into(),
            Name::Cancel => cancel::run(most(10_000_000), runs).await?.into(),
            Name::CancelTasks => cancel_tasks::run(most(1_000_000), runs).await?.into(),
            Name::Stall => stall::run(most(200_000), runs).await?.into(),
            Name::Replay => replay::run(most(10_000_000), runs).await?.into(),
            Name::Restart => restart::run(most(10_000_000), runs).await?.into(),
            Name::Takeover => takeover::run(count(20)).await?.into(),
            Name::Jobs => jobs::run(count(10_000), runs).await?.into(),
            Name::IdleJobs => {
                let seconds = if self.runs > 1 { 60 } else { 30 };
                let jobs = most(10_000).min(10_000);
                idle_jobs::run(jobs, count(seconds), runs).await?.into()
            }
            Name::Aging => aging::run(most(10_000_000), runs).await?,
            Name::Snapshot => snapshot::run(most(100_000).min(100_000)).await?.into(),
            Name::Forecast => forecast::run(most(10_000_000), runs).await?.into(),
            Name::Page => {
                let schedulers = most(100_000).min(100_000);
                let tasks = count(100 * schedulers);
                page::run(tasks, schedulers, runs).await?.into()
            }
            Name::All | Name::NullServer => bail!("{:?} measures nothing", self.name),
        })
    }
}
