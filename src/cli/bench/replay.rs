//! A reader who returns after a million events: everything from the journal, in order, against reading and taking apart the
//! same rows without a service around it. And the first pages of tasks of that scheduler.

use super::{
    load,
    place::Place,
    report::{Report, median},
};
use crate::{
    api::{ListTasksRequest, TaskState, until::Kind},
    client::{Client, Scheduler},
    core::{DoneNo, Handle},
    journal::Reader,
};
use anyhow::{Result, ensure};
use std::time::Instant;
use uuid::Uuid;

const PER_CALL: u64 = 100;
const CALLERS: u64 = 64;
/// Bytes of one raw read.
const READ_BYTES: usize = 1 << 20;

pub async fn run(total: u64, runs: usize) -> Result<Report> {
    let place = Place::new().await?;
    let database = place.database("bench").await?;
    let server = place.server(&database).await?;
    let (handle, _) = load::drive_named(&server.address, total, PER_CALL, CALLERS).await?;
    place.checkpoint().await?;
    let scheduler = Client::connect(&server.address).await?.scheduler(handle.clone());
    let reader = place.journal(&database).await?.reader();
    let (mut rates, mut raw) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        rates.push(replay(&scheduler, total).await?);
        raw.push(read(&reader, Handle::from_uuid(Uuid::parse_str(&handle)?), total).await?);
    }
    let mut also = vec![];
    also.extend(first_pages(&scheduler, total).await?);
    let (figure, yardstick) = (median(&rates), median(&raw));
    Ok(Report {
        name: "replay",
        figure,
        unit: "events/s",
        runs: rates,
        yardstick: ("reading the same rows on one connection and taking them apart, no service", yardstick),
        ratio: figure / yardstick,
        also,
        ran: format!(
            "{total} events of one scheduler from the journal over gRPC, from the first one on, each checked to be in order"
        ),
    })
}

/// Events per second of a stream from the first event on.
async fn replay(scheduler: &Scheduler, total: u64) -> Result<f64> {
    let start = Instant::now();
    let mut stream = scheduler.synchronize(0, Some(Kind::Count(total as i64))).await?;
    let mut next = 1;
    while let Some(events) = stream.next().await? {
        for event in &events {
            ensure!(event.done_no == next, "event {} where {next} was due", event.done_no);
            next += 1;
        }
    }
    ensure!(next == total as i64 + 1, "{} of {total} events came", next - 1);
    Ok(total as f64 / start.elapsed().as_secs_f64())
}

async fn read(reader: &Reader, handle: Handle, total: u64) -> Result<f64> {
    let start = Instant::now();
    let mut after = DoneNo(0);
    while after.0 < total as i64 {
        let read = reader.events(handle, after, READ_BYTES).await?;
        ensure!(!read.is_empty(), "event {} is missing", after.0 + 1);
        let from = after;
        for event in read.iter().flat_map(|events| events.after(from)) {
            after = event?.0;
        }
    }
    Ok(total as f64 / start.elapsed().as_secs_f64())
}

/// Milliseconds of the first page of each list, the median of 20, and of single tasks from all over.
async fn first_pages(scheduler: &Scheduler, total: u64) -> Result<Vec<(&'static str, f64)>> {
    let mut figures = Vec::new();
    for (name, state, order) in [
        ("list_newest_ms", TaskState::Unspecified, None),
        ("list_done_ms", TaskState::Done, None),
        ("list_running_ms", TaskState::Running, None),
        ("list_order_ms", TaskState::Unspecified, Some(7)),
        ("list_done_order_ms", TaskState::Done, Some(7)),
    ] {
        let mut took = Vec::new();
        for _ in 0..20 {
            let start = Instant::now();
            let handle = scheduler.handle().to_owned();
            scheduler.tasks(ListTasksRequest { handle, state: state.into(), order, ..Default::default() }).await?;
            took.push(start.elapsed().as_secs_f64() * 1e3);
        }
        figures.push((name, median(&took)));
    }
    let mut took = Vec::new();
    for part in 0..20 {
        let start = Instant::now();
        scheduler.task((1 + part * total / 20) as i64).await?;
        took.push(start.elapsed().as_secs_f64() * 1e3);
    }
    figures.push(("get_task_ms", median(&took)));
    Ok(figures)
}
