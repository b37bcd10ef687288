//! No-op tasks end to end over gRPC, durable, one task a call, against bare unary gRPC calls in the same run.

use super::{
    bare,
    place::Place,
    report::{Report, median},
};
use crate::{
    api::{SchedulerSettings, Unit, until},
    client::Client,
};
use anyhow::{Result, ensure};
use std::time::Instant;

const CALLERS: u64 = 64;

pub async fn run(total: u64, runs: usize) -> Result<Report> {
    let place = Place::new().await?;
    let (mut rates, mut bare_rates) = (Vec::new(), Vec::new());
    let database = place.database("bench").await?;
    let server = place.server(&database).await?;
    calls(&server.address, total / 20).await?;
    for _ in 0..runs {
        rates.push(calls(&server.address, total).await?);
        bare_rates.push(bare::rate(total, CALLERS).await?);
    }
    let (figure, yardstick) = (median(&rates), median(&bare_rates));
    Ok(Report {
        name: "unary",
        figure,
        unit: "calls/s",
        runs: rates,
        yardstick: ("the same calls answered at once by a process that does nothing with them", yardstick),
        ratio: figure / yardstick,
        also: Vec::new(),
        ran: format!("{total} calls with one no-op task of 200 bytes each, {CALLERS} callers, one scheduler, durable"),
    })
}

/// Calls per second until the last AsyncDone has come. The calls are those of the yardstick.
async fn calls(address: &str, total: u64) -> Result<f64> {
    let scheduler = Client::connect(address).await?.open(SchedulerSettings::default()).await?;
    let mut stream = scheduler.synchronize(0, Some(until::Kind::Forever(Unit {}))).await?;
    let requests = bare::requests(scheduler.handle(), total);
    let channel = bare::channel(address).await?;
    let start = Instant::now();
    let calling = tokio::spawn(bare::call_all(channel, requests, CALLERS));
    while stream.cursor() < total as i64 && stream.next().await?.is_some() {}
    let took = start.elapsed();
    calling.await??;
    ensure!(stream.cursor() == total as i64, "{} of {total} tasks are done", stream.cursor());
    Ok(total as f64 / took.as_secs_f64())
}
