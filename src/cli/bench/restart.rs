//! A server killed and started again: from the start of the process to the first outcome, with a backlog of millions, and
//! with one old task left open; against a start on an empty journal.

use super::{
    fill, load,
    place::{Place, Server},
    report::{Report, median},
};
use crate::{
    api::{SchedulerSettings, Task, TaskOptions, until::Kind},
    client::{Client, Scheduler},
};
use anyhow::{Context, Result};
use std::time::{Duration, Instant, SystemTime};

const PER_CALL: u64 = 1_000;
const CALLERS: u64 = 8;

pub async fn run(total: u64, runs: usize) -> Result<Report> {
    let place = Place::new().await?;
    let empty = place.database("bench_empty").await?;
    drop(place.server(&empty).await?);
    let (mut starts, mut with_backlog, mut with_old) = (Vec::new(), Vec::new(), Vec::new());
    let queued = place.database("bench_queued").await?;
    let server = place.server(&queued).await?;
    let backlog = fill::paused(&server.address).await?.handle().to_owned();
    let scheduler = Client::connect(&server.address).await?.scheduler(backlog.clone());
    fill::fill_with(&scheduler, 0, total, PER_CALL, CALLERS, load::task).await?;
    drop(server);
    let old = place.database("bench_old").await?;
    let server = place.server(&old).await?;
    one_open(&server, total).await?;
    drop(server);
    place.checkpoint().await?;
    for _ in 0..runs {
        starts.push(start(&place, &empty, None).await?);
        with_backlog.push(start(&place, &queued, Some(&backlog)).await?);
        with_old.push(start(&place, &old, None).await?);
    }
    let (figure, yardstick) = (median(&with_backlog), median(&starts));
    Ok(Report {
        name: "restart",
        figure,
        unit: "s",
        runs: with_backlog,
        yardstick: ("a start on an empty journal", yardstick),
        ratio: figure / yardstick,
        also: vec![("one_open_task_s", median(&with_old))],
        ran: format!(
            "from the start of the process to the first AsyncDone, with {total} no-op tasks queued ({PER_CALL} a call); and with \
             one task open and {total} finished after it"
        ),
    })
}

/// A scheduler whose first task waits for a day, and `total` tasks after it that end.
async fn one_open(server: &Server, total: u64) -> Result<()> {
    let scheduler = Client::connect(&server.address).await?.open(SchedulerSettings::default()).await?;
    let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
    let options = TaskOptions { not_before: Some(tomorrow.into()), ..Default::default() };
    scheduler.exec(vec![Task { options: Some(options), ..load::task(0) }]).await?;
    fill::fill_with(&scheduler, 0, total, PER_CALL, CALLERS, load::task).await?;
    while scheduler.describe().await?.done < total as i64 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Seconds until the first event of `backlog`, which is resumed, or of a new task of a new scheduler.
async fn start(place: &Place, database: &str, backlog: Option<&str>) -> Result<f64> {
    let start = Instant::now();
    let server = place.server(database).await?;
    let client = Client::connect(&server.address).await?;
    let (scheduler, after): (Scheduler, i64) = match backlog {
        Some(handle) => {
            let scheduler = client.scheduler(handle);
            let done = scheduler.resume(false).await?.done;
            (scheduler, done)
        }
        None => {
            let scheduler = client.open(SchedulerSettings::default()).await?;
            scheduler.exec(vec![load::task(0)]).await?;
            (scheduler, 0)
        }
    };
    let mut stream = scheduler.synchronize(after, Some(Kind::Count(1))).await?;
    stream.next().await?.context("the stream ended before the first event")?;
    let took = start.elapsed().as_secs_f64();
    if backlog.is_some() {
        scheduler.pause().await?;
    }
    Ok(took)
}
