//! One task at a time, from the call to its AsyncDone: a SQL task against two single-row commits,
//! one gRPC round trip and the round trip of its statement; a no-op beside it, against the same
//! without the statement.

use crate::{
    environment::{Environment, Server},
    load, null_server, raw_append,
    report::{Report, median},
};
use anyhow::{Context, Result};
use rallypoint_client::{
    Client, DoneStream, Scheduler,
    api::{SchedulerSettings, SqlTask, Task, task::Kind, until},
};
use sqlx::{Executor, PgConnection};
use std::time::Instant;

/// Tasks, commits and calls alternate in turns of this many, so that other load on the machine
/// affects all of them.
const TURN: u64 = 100;
const STATEMENT: &str = "select 1";

/// What is measured, in microseconds: medians, one of each run.
#[derive(Default)]
struct Medians {
    sql: Vec<f64>,
    sql_p99: Vec<f64>,
    noop: Vec<f64>,
    commit: Vec<f64>,
    call: Vec<f64>,
    statement: Vec<f64>,
}

pub(crate) async fn run(count: u64, runs: usize) -> Result<Report> {
    let environment = Environment::new().await?;
    let database = environment.database("bench").await?;
    let server = environment.server(&database).await?;
    let null_server = Server::null().await?;
    let mut sql = Tasks::open(&server.address, sql_task).await?;
    let mut noops = Tasks::open(&server.address, load::task).await?;
    let mut commits = Commits::open(&environment, &database).await?;
    let mut calls = null_server::Caller::connect(&null_server.address).await?;
    let mut target = environment.connect(&environment.target()).await?;
    sql.run(count / 4).await?;
    noops.run(count / 4).await?;
    let mut medians = Medians::default();
    for _ in 0..runs {
        let (mut sql_us, mut noop_us, mut commit_us, mut call_us, mut statement_us) =
            <(Vec<_>, Vec<_>, Vec<_>, Vec<_>, Vec<_>)>::default();
        while (sql_us.len() as u64) < count {
            sql_us.extend(sql.run(TURN).await?);
            noop_us.extend(noops.run(TURN).await?);
            commit_us.extend(commits.make(TURN).await?);
            call_us.extend(calls.make(TURN).await?);
            statement_us.extend(statements(&mut target, TURN).await?);
        }
        medians.sql.push(at(&sql_us, 0.50));
        medians.sql_p99.push(at(&sql_us, 0.99));
        medians.noop.push(at(&noop_us, 0.50));
        medians.commit.push(at(&commit_us, 0.50));
        medians.call.push(at(&call_us, 0.50));
        medians.statement.push(at(&statement_us, 0.50));
    }
    let raw = environment.database("bench_raw").await?;
    let append = 1e6 / raw_append::append(&environment, &raw, count, 1, 1).await?;
    Ok(medians.report(count, append))
}

impl Medians {
    fn report(self, count: u64, append: f64) -> Report {
        let (commit, call) = (median(&self.commit), median(&self.call));
        let (figure, noop) = (median(&self.sql), median(&self.noop));
        let (statement, least) = (median(&self.statement), 2.0 * commit + call);
        let baseline = least + statement;
        Report {
            name: "latency",
            figure,
            unit: "us (p50)",
            runs: self.sql,
            baseline: (
                "two single-row commits, one gRPC round trip and the statement's own",
                baseline,
            ),
            ratio: figure / baseline,
            also: vec![
                ("p99_us", median(&self.sql_p99)),
                ("noop_us", noop),
                ("noop_ratio", noop / least),
                ("single_row_commit_us", commit),
                ("grpc_round_trip_us", call),
                ("statement_us", statement),
                ("one_task_batch_us", append),
            ],
            ran: format!(
                "{count} tasks of `{STATEMENT}`, one at a time, from the call to its AsyncDone on an \
                 open stream, durable; tasks, no-ops of 200 bytes, commits and round trips by turns \
                 of {TURN}"
            ),
        }
    }
}

fn sql_task(_: u64) -> Task {
    Task {
        kind: Some(Kind::Sql(SqlTask {
            statement: STATEMENT.to_owned(),
            ..SqlTask::default()
        })),
        ..Task::default()
    }
}

/// Round trips of the statement alone.
async fn statements(target: &mut PgConnection, count: u64) -> Result<Vec<f64>> {
    let mut latencies = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let start = Instant::now();
        sqlx::raw_sql(STATEMENT).execute(&mut *target).await?;
        latencies.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(latencies)
}

/// Runs `count` no-ops one at a time on a new scheduler: microseconds of each from call to
/// AsyncDone.
pub(crate) async fn tasks(address: &str, count: u64) -> Result<Vec<f64>> {
    Tasks::open(address, load::task).await?.run(count).await
}

/// Runs tasks one at a time on one scheduler, whose stream stays open.
pub(crate) struct Tasks {
    scheduler: Scheduler,
    stream: DoneStream,
    task: fn(u64) -> Task,
}

impl Tasks {
    pub(crate) async fn open(address: &str, task: fn(u64) -> Task) -> Result<Self> {
        Tasks::by(&Client::connect(address).await?, task).await
    }

    /// As [`Tasks::open`], by a client that may have to say who it is.
    pub(crate) async fn by(client: &Client, task: fn(u64) -> Task) -> Result<Self> {
        let scheduler = client.open(SchedulerSettings::default()).await?;
        let stream = scheduler
            .synchronize(0, Some(until::Kind::Forever(())))
            .await?;
        Ok(Tasks {
            scheduler,
            stream,
            task,
        })
    }

    /// Microseconds of each of `count` tasks, from the call to AsyncDone.
    pub(crate) async fn run(&mut self, count: u64) -> Result<Vec<f64>> {
        let mut latencies = Vec::with_capacity(count as usize);
        for number in 0..count {
            let task = (self.task)(number);
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
pub(crate) struct Commits {
    connection: PgConnection,
}

impl Commits {
    pub(crate) async fn open(environment: &Environment, database: &str) -> Result<Self> {
        let mut connection = environment.connect(database).await?;
        connection
            .execute(
                "create table if not exists bench_row (
                    id bigint primary key generated always as identity,
                    body bytea
                )",
            )
            .await?;
        Ok(Commits { connection })
    }

    /// Microseconds of each of `count` commits.
    pub(crate) async fn make(&mut self, count: u64) -> Result<Vec<f64>> {
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
