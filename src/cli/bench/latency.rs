//! One task at a time, from the call to its AsyncDone, against two single-row commits and one gRPC round trip.

use super::{
    bare, load,
    place::Place,
    raw,
    report::{Report, median},
};
use crate::{
    api::{SchedulerSettings, until},
    client::Client,
};
use anyhow::{Context, Result};
use sqlx::{Connection, Executor};
use std::time::Instant;

pub async fn run(count: u64, runs: usize) -> Result<Report> {
    let place = Place::new().await?;
    let database = place.database("bench").await?;
    let server = place.server(&database).await?;
    tasks(&server.address, count / 4).await?;
    let (mut p50s, mut p99s, mut commits, mut calls) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for run in 0..runs {
        let latencies = tasks(&server.address, count).await?;
        p50s.push(at(&latencies, 0.50));
        p99s.push(at(&latencies, 0.99));
        commits.push(at(&single_commits(&place, &database, run, count).await?, 0.50));
        calls.push(at(&bare::round_trips(count).await?, 0.50));
    }
    let raw = place.database("bench_raw").await?;
    let append = 1e6 / raw::append(&place, &raw, count, 1, 1).await?;
    let (figure, commit, call) = (median(&p50s), median(&commits), median(&calls));
    let yardstick = 2.0 * commit + call;
    Ok(Report {
        name: "latency",
        figure,
        unit: "us (p50)",
        runs: p50s,
        yardstick: ("two single-row commits and one gRPC round trip", yardstick),
        ratio: figure / yardstick,
        also: vec![
            ("p99_us", median(&p99s)),
            ("single_row_commit_us", commit),
            ("grpc_round_trip_us", call),
            ("one_task_batch_us", append),
        ],
        ran: format!(
            "{count} no-op tasks of 200 bytes, one at a time, from the call to its AsyncDone on an open stream, durable"
        ),
    })
}

/// Microseconds from the call to the AsyncDone of each of `count` tasks, one at a time, on a scheduler of their own.
pub async fn tasks(address: &str, count: u64) -> Result<Vec<f64>> {
    let scheduler = Client::connect(address).await?.open(SchedulerSettings::default()).await?;
    let mut stream = scheduler.synchronize(0, Some(until::Kind::Forever(Default::default()))).await?;
    let mut latencies = Vec::with_capacity(count as usize);
    for number in 0..count {
        let task = load::task(number);
        let start = Instant::now();
        let (submitted, done) = tokio::join!(scheduler.exec(vec![task]), next(&mut stream));
        latencies.push(start.elapsed().as_secs_f64() * 1e6);
        submitted?;
        done?;
    }
    Ok(latencies)
}

async fn next(stream: &mut crate::client::DoneStream) -> Result<()> {
    while stream.next().await?.context("the stream has ended")?.is_empty() {}
    Ok(())
}

/// Commits of one row each on one connection.
async fn single_commits(place: &Place, database: &str, run: usize, count: u64) -> Result<Vec<f64>> {
    let mut connection = place.connect(database).await?;
    if run == 0 {
        connection.execute("create table bench_row (id bigint primary key generated always as identity, body bytea)").await?;
    }
    let mut latencies = Vec::with_capacity(count as usize);
    for number in 0..count {
        let body = load::body(number).to_vec();
        let start = Instant::now();
        sqlx::query("insert into bench_row (body) values ($1)").bind(body).execute(&mut connection).await?;
        latencies.push(start.elapsed().as_secs_f64() * 1e6);
    }
    connection.close().await?;
    Ok(latencies)
}

/// The latency that `share` of them stay below.
pub fn at(latencies: &[f64], share: f64) -> f64 {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get((sorted.len() as f64 * share) as usize).copied().unwrap_or_default()
}
