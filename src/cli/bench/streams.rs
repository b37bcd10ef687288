//! Readers that never read: what they cost the others, and the server's memory.

use super::{
    duel::ratio,
    load,
    place::{Place, Server},
    report::{Report, median},
};
use crate::{
    api::{
        self, SchedulerSettings, SynchronizationRequest, SynchronizationResponse, Until,
        scheduler_service_client::SchedulerServiceClient, until::Kind,
    },
    client::{Client, Scheduler},
};
use anyhow::Result;
use std::time::Instant;
use tokio::task::JoinSet;
use tonic::{Streaming, transport::Endpoint};

/// Streams of one connection.
const PER_CONNECTION: u64 = 20;
/// One in so many never reads.
const STALLED: u64 = 10;
const PER_CALL: u64 = 100;

pub async fn run(streams: u64, tasks: u64, runs: usize) -> Result<Report> {
    let place = Place::new().await?;
    let server = place.server(&place.database("bench").await?).await?;
    let readers = streams - streams / STALLED;
    let (mut free, mut beside) = (Vec::new(), Vec::new());
    // The first turns bring what every turn needs: connections, plans, memory of the streams that read.
    turn(&server, readers, 0, tasks).await?;
    turn(&server, readers, streams / STALLED, tasks).await?;
    let before = server.usage()?.mib();
    for _ in 0..2 * runs - 1 {
        free.push(turn(&server, readers, 0, tasks).await?);
        beside.push(turn(&server, readers, streams / STALLED, tasks).await?);
    }
    let usage = server.usage()?;
    let (figure, yardstick) = (median(&beside), median(&free));
    Ok(Report {
        name: "streams",
        figure,
        unit: "events/s",
        ratio: ratio(&beside, &free),
        runs: beside,
        yardstick: ("the reading streams alone, turn by turn", yardstick),
        also: vec![("resident_mib", usage.mib()), ("peak_mib", usage.peak_mib()), ("growth_mib", usage.mib() - before)],
        ran: format!("{streams} streams of one scheduler, every tenth of which never reads, told of {tasks} no-op tasks a turn"),
    })
}

/// Events per second that the reading streams get in all.
async fn turn(server: &Server, reading: u64, stalled: u64, tasks: u64) -> Result<f64> {
    let scheduler = Client::connect(&server.address).await?.open(SchedulerSettings::default()).await?;
    // What waits is submitted first: a stream that counts ends early when nothing more can come.
    scheduler.pause().await?;
    for first in (0..tasks).step_by(PER_CALL as usize) {
        scheduler.exec((first..(first + PER_CALL).min(tasks)).map(load::task).collect()).await?;
    }
    let asleep = stall(server, &scheduler, stalled).await?;
    let mut streams = Vec::new();
    for _ in 0..reading.div_ceil(PER_CONNECTION) {
        let own = Client::connect(&server.address).await?.scheduler(scheduler.handle());
        for _ in 0..PER_CONNECTION.min(reading - streams.len() as u64) {
            streams.push(own.synchronize(0, Some(Kind::Count(tasks as i64))).await?);
        }
    }
    let start = Instant::now();
    let mut reading_on = JoinSet::new();
    for mut stream in streams {
        reading_on.spawn(async move {
            while stream.next().await?.is_some() {}
            anyhow::ensure!(stream.cursor() == tasks as i64, "{} of {tasks} events came", stream.cursor());
            Ok(())
        });
    }
    scheduler.resume(false).await?;
    while let Some(ended) = reading_on.join_next().await {
        ended??;
    }
    let rate = (reading * tasks) as f64 / start.elapsed().as_secs_f64();
    drop(asleep);
    Ok(rate)
}

/// Opens streams that nobody reads, with the windows of a client that sets none.
async fn stall(server: &Server, scheduler: &Scheduler, count: u64) -> Result<Vec<Streaming<SynchronizationResponse>>> {
    let mut asleep = Vec::new();
    for _ in 0..count.div_ceil(PER_CONNECTION) {
        let mut calls = SchedulerServiceClient::new(Endpoint::from_shared(server.address.clone())?.connect().await?);
        for _ in 0..PER_CONNECTION.min(count - asleep.len() as u64) {
            let until = Some(Until { kind: Some(Kind::Forever(api::Unit {})) });
            let request = SynchronizationRequest { handle: scheduler.handle().to_owned(), until, ..Default::default() };
            asleep.push(calls.synchronization(request).await?.into_inner());
        }
    }
    Ok(asleep)
}
