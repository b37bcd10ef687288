//! What orders cost: tasks behind barriers against tasks that merely run one at a time, and many
//! tasks of one order against as many without an order.

use crate::{
    environment::{Environment, Server},
    load,
    report::{Report, median},
};
use anyhow::{Context, Result};
use rallypoint_client::{
    Client, Scheduler,
    api::{self, ReleaseMode, SchedulerSettings, Task, until},
};
use std::time::Instant;
use tokio::task::JoinSet;

const PER_CALL: u64 = 1_000;
/// How many of the serial tasks are waited for: enough for more than one checkpoint.
const WAITED: u64 = 25_000;

/// Microseconds per task: elapsed, and of the server's processor time.
#[derive(Clone, Copy)]
struct Cost {
    wall: f64,
    processor: f64,
    /// Of submitting it; 0 when that is part of the elapsed time.
    submit: f64,
}

pub(crate) async fn run(total: u64, runs: usize) -> Result<Report> {
    let environment = Environment::new().await?;
    let server = environment
        .server(&environment.database("bench").await?)
        .await?;
    load::drive(&server.address, total, 100, 64).await?;
    let (mut flat, mut one, mut serial, mut many) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..2 * runs - 1 {
        flat.push(side_by_side(&server, total, |_| None).await?);
        one.push(side_by_side(&server, total, |_| Some(100)).await?);
        // Like the barriers, this limit lets one task run at a time.
        serial.push(one_by_one(&server, total, Some(1), |_| None).await?);
        many.push(one_by_one(&server, total, None, |number| Some(number as i64)).await?);
    }
    let wall = |costs: &[Cost]| median(&costs.iter().map(|cost| cost.wall).collect::<Vec<_>>());
    let processor =
        |costs: &[Cost]| median(&costs.iter().map(|cost| cost.processor).collect::<Vec<_>>());
    let submit = |costs: &[Cost]| median(&costs.iter().map(|cost| cost.submit).collect::<Vec<_>>());
    Ok(Report {
        name: "orders",
        figure: wall(&many),
        unit: "us/task",
        runs: many.iter().map(|cost| cost.wall).collect(),
        baseline: (
            "as many tasks without order, one at a time by max_parallelism",
            wall(&serial),
        ),
        ratio: wall(&many) / wall(&serial),
        also: vec![
            ("processor_us_per_task", processor(&many)),
            ("flat_processor_us_per_task", processor(&serial)),
            ("processor_ratio", processor(&many) / processor(&serial)),
            ("submit_us_per_task", submit(&many)),
            ("flat_submit_us_per_task", submit(&serial)),
            ("submit_ratio", submit(&many) / submit(&serial)),
            ("one_order_us_per_task", wall(&one)),
            ("no_order_us_per_task", wall(&flat)),
            ("one_order_ratio", wall(&one) / wall(&flat)),
        ],
        ran: format!(
            "a scheduler with {total} no-op tasks in {total} orders, the first {WAITED} waited \
             for; then one with {total} tasks in one order, all waited for"
        ),
    })
}

/// Tasks that may all run at once: from the first call to the last AsyncDone.
async fn side_by_side(server: &Server, total: u64, order: fn(u64) -> Option<i64>) -> Result<Cost> {
    let scheduler = Client::connect(&server.address)
        .await?
        .open(SchedulerSettings::default())
        .await?;
    let before = server.usage()?.processor;
    let start = Instant::now();
    submit(&scheduler, total, 8, order).await?;
    wait(&scheduler, total).await?;
    Cost::since(start, before, server, total)
}

/// Tasks that run one after the other. Submitting them is measured separately.
async fn one_by_one(
    server: &Server,
    total: u64,
    limit: Option<i32>,
    order: fn(u64) -> Option<i64>,
) -> Result<Cost> {
    let settings = SchedulerSettings {
        max_parallelism: limit,
        ..Default::default()
    };
    let scheduler = Client::connect(&server.address)
        .await?
        .open(settings)
        .await?;
    scheduler.pause().await?;
    // By one caller, in ascending order, so that no task is late for its order.
    let start = Instant::now();
    submit(&scheduler, total, 1, order).await?;
    let submitting = start.elapsed().as_secs_f64() * 1e6 / total as f64;
    let waited = WAITED.min(total);
    let before = server.usage()?.processor;
    let start = Instant::now();
    scheduler.resume(false).await?;
    wait(&scheduler, waited).await?;
    let cost = Cost::since(start, before, server, waited)?;
    scheduler.release(ReleaseMode::Cancel, true).await?;
    Ok(Cost {
        submit: submitting,
        ..cost
    })
}

/// Submits `total` tasks from `callers` callers.
async fn submit(
    scheduler: &Scheduler,
    total: u64,
    callers: u64,
    order: fn(u64) -> Option<i64>,
) -> Result<()> {
    let mut calling = JoinSet::new();
    for caller in 0..callers {
        let scheduler = scheduler.clone();
        calling.spawn(async move {
            for first in (caller * PER_CALL..total).step_by((callers * PER_CALL) as usize) {
                let tasks = (first..(first + PER_CALL).min(total)).map(|n| Task {
                    order: order(n),
                    ..load::task(n)
                });
                scheduler.exec(tasks.collect()).await?;
            }
            Ok::<_, rallypoint_client::Error>(())
        });
    }
    while let Some(ended) = calling.join_next().await {
        ended??;
    }
    Ok(())
}

/// Waits until `count` tasks have ended.
async fn wait(scheduler: &Scheduler, count: u64) -> Result<()> {
    let mut stream = scheduler
        .synchronize(0, Some(until::Kind::Count(count as i64)))
        .await?;
    while stream.next().await?.is_some() {}
    let end = stream.end().context("the stream has an end")?;
    anyhow::ensure!(
        end.reason() == api::end::Reason::Goal,
        "the stream ended early"
    );
    Ok(())
}

impl Cost {
    fn since(start: Instant, processor: f64, server: &Server, tasks: u64) -> Result<Cost> {
        let per_task = 1e6 / tasks as f64;
        let wall = start.elapsed().as_secs_f64() * per_task;
        Ok(Cost {
            wall,
            processor: (server.usage()?.processor - processor) * per_task,
            submit: 0.0,
        })
    }
}
