//! `bench`: one figure, and in the same run the yardstick it is to be read against. Machines differ; ratios travel.
//!
//! Every bench starts a durable private Postgres of its own and a server process on it, so that client, server and
//! database are what a user has. It measures and prints; it passes no judgement.

mod bare;
mod latency;
mod load;
mod place;
mod raw;
mod report;
mod throughput;
mod unary;

use super::Failure;
use clap::{Args, ValueEnum};
use report::Report;
use std::process::ExitCode;

/// Arguments of `bench`.
#[derive(Args, Debug)]
pub struct Bench {
    /// What to measure
    name: Name,
    /// Tasks or calls per run [default: depends on the bench]
    #[arg(short, long, value_name = "COUNT")]
    count: Option<u64>,
    /// Runs; the median counts
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    /// No-op tasks end to end, 100 a call, against the raw append of the same rows on one connection
    Throughput,
    /// No-op tasks end to end, 1 a call, 64 callers, against bare unary gRPC calls
    Unary,
    /// One task at a time, against two single-row commits and one gRPC round trip
    Latency,
    /// The process behind the yardstick of unary calls
    #[value(hide = true)]
    Bare,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

impl Bench {
    /// Measures and prints.
    pub async fn run(self) -> Result<ExitCode, Failure> {
        let runs = self.runs as usize;
        let report: Report = match self.name {
            Name::Bare => {
                bare::serve().await?;
                return Ok(ExitCode::SUCCESS);
            }
            Name::Throughput => throughput::run(self.count.unwrap_or(600_000), runs).await?,
            Name::Unary => unary::run(self.count.unwrap_or(100_000), runs).await?,
            Name::Latency => latency::run(self.count.unwrap_or(3_000), runs).await?,
        };
        match self.output {
            Format::Text => print!("{report}"),
            Format::Json => println!("{}", report.json()),
        }
        Ok(ExitCode::SUCCESS)
    }
}
