//! One task at a time, from the call to its AsyncDone, against two single-row commits and one gRPC
//! round trip.

use crate::{
    environment::{Environment, Server},
    load, null_server, raw_append,
    report::{Report, median},
};
use anyhow::{Context, Result};
use rallypoint_client::{
    Client, DoneStream, Scheduler,
    api::{SchedulerSettings, until},
};
use sqlx::{Executor, PgConnection};
use std::time::Instant;

/// Tasks, commits and calls alternate in turns of this many, so that other load on the machine
/// affects all of them.
const TURN: u64 = 100;

pub(crate) async fn run(count: u64, runs: usize) -> Result<Report> {
    let environment = Environment::new().await?;
    let database = environment.database("bench").await?;
    let server = environment.server(&database).await?;
    let null_server = Server::null().await?;
    let mut tasks = Tasks::open(&server.address).await?;
    let mut commits = Commits::open(&environment, &database).await?;
    let mut calls = null_server::Caller::connect(&null_server.address).await?;
    tasks.run(count / 4).await?;
    let (mut p50s, mut p99s, mut commit_p50s, mut call_p50s) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        let (mut task_us, mut commit_us, mut call_us) = (Vec::new(), Vec::new(), Vec::new());
        while (task_us.len() as u64) < count {
            task_us.extend(tasks.run(TURN).await?);
            commit_us.extend(commits.make(TURN).await?);
            call_us.extend(calls.make(TURN).await?);
        }
        p50s.push(at(&task_us, 0.50));
        p99s.push(at(&task_us, 0.99));
        commit_p50s.push(at(&commit_us, 0.50));
        call_p50s.push(at(&call_us, 0.50));
    }
    let raw = environment.database("bench_raw").await?;
    let append = 1e6 / raw_append::append(&environment, &raw, count, 1, 1).await?;
    let (figure, commit, call) = (median(&p50s), median(&commit_p50s), median(&call_p50s));
    let baseline = 2.0 * commit + call;
    Ok(Report {
        name: "latency",
        figure,
        unit: "us (p50)",
        runs: p50s,
        baseline: ("two single-row commits and one gRPC round trip", baseline),
        ratio: figure / baseline,
        also: vec![
            ("p99_us", median(&p99s)),
            ("single_row_commit_us", commit),
            ("grpc_round_trip_us", call),
            ("one_task_batch_us", append),
        ],
        ran: format!(
            "{count} no-op tasks of 200 bytes, one at a time, from the call to its AsyncDone on an \
             open stream, durable; tasks, commits and round trips by turns of {TURN}"
        ),
    })
}

/// Runs `count` tasks one at a time on a new scheduler: microseconds of each from call to
/// AsyncDone.
pub(crate) async fn tasks(address: &str, count: u64) -> Result<Vec<f64>> {
    Tasks::open(address).await?.run(count).await
}

/// Runs tasks one at a time.
struct Tasks {
    scheduler: Scheduler,
    stream: DoneStream,
}

impl Tasks {
    async fn open(address: &str) -> Result<Self> {
        let scheduler = Client::connect(address)
            .await?
            .open(SchedulerSettings::default())
            .await?;
        let stream = scheduler
            .synchronize(0, Some(until::Kind::Forever(Default::default())))
            .await?;
        Ok(Tasks { scheduler, stream })
    }

    async fn run(&mut self, count: u64) -> Result<Vec<f64>> {
        let mut latencies = Vec::with_capacity(count as usize);
        for number in 0..count {
            let task = load::task(number);
            let start = Instant::now();
            let (submitted, done) =
                tokio::join!(self.scheduler.exec(vec![task]), next(&mut self.stream));
            latencies.push(start.elapsed().as_secs_f64() * 1e6);
            submitted?;
            done?;
        }
        Ok(latencies)
    }
}

async fn next(stream: &mut DoneStream) -> Result<()> {
    while stream
        .next()
        .await?
        .context("the stream has ended")?
        .is_empty()
    {}
    Ok(())
}

/// Commits of one row each on one connection.
struct Commits {
    connection: PgConnection,
}

impl Commits {
    async fn open(environment: &Environment, database: &str) -> Result<Self> {
        let mut connection = environment.connect(database).await?;
        connection
            .execute(
                "create table bench_row (
                    id bigint primary key generated always as identity,
                    body bytea
                )",
            )
            .await?;
        Ok(Commits { connection })
    }

    async fn make(&mut self, count: u64) -> Result<Vec<f64>> {
        let mut latencies = Vec::with_capacity(count as usize);
        for number in 0..count {
            let body = load::body(number).to_vec();
            let start = Instant::now();
            sqlx::query("insert into bench_row (body) values ($1)")
                .bind(body)
                .execute(&mut self.connection)
                .await?;
            latencies.push(start.elapsed().as_secs_f64() * 1e6);
        }
        Ok(latencies)
    }
}

/// The latency at this quantile (0.99: the 99th percentile).
pub(crate) fn at(latencies: &[f64], quantile: f64) -> f64 {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
        .get((sorted.len() as f64 * quantile) as usize)
        .copied()
        .unwrap_or_default()
}
