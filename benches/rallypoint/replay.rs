//! A reader who returns after a million events: everything from the journal, in order, against
//! reading and taking apart the same rows without a service around it. And the first pages of tasks
//! of a scheduler with ten million finished ones.

use crate::{
    environment::Environment,
    fill, load,
    report::{Report, median},
};
use anyhow::{Result, ensure};
use rallypoint::{
    core::{DoneNo, Handle},
    journal::Reader,
};
use rallypoint_client::{
    Client, Scheduler,
    api::{ListTasksRequest, SchedulerSettings, Task, TaskState, until::Kind},
};
use std::time::{Duration, Instant};
use uuid::Uuid;

const PER_CALL: u64 = 100;
const CALLERS: u64 = 64;
/// Events of one replay.
const MILLION: u64 = 1_000_000;
/// Bytes of one raw read.
const READ_BYTES: usize = 1 << 20;
/// Tasks of one order, where a call has tasks of one order.
const ONE_ORDER: u64 = 100_000;
/// The lowest order where a call has tasks of many.
const MANY: i64 = 1_000_000;
/// An order among those that only the oldest of these calls have, though it lies between the orders
/// of all of them.
const RARE: i64 = MANY + 5;
/// Times a page is asked for.
const PAGES: usize = 20;
const TICK: Duration = Duration::from_millis(100);

pub(crate) async fn run(total: u64, runs: usize) -> Result<Report> {
    let environment = Environment::new().await?;
    let database = environment.database("bench").await?;
    let server = environment.server(&database).await?;
    let scheduler = Client::connect(&server.address)
        .await?
        .open(SchedulerSettings::default())
        .await?;
    finish(&scheduler, total).await?;
    environment.checkpoint().await?;
    let reader = environment.journal(&database).await?.reader();
    let handle = Handle::from_uuid(Uuid::parse_str(scheduler.handle())?);
    let count = total.min(MILLION);
    let (mut rates, mut raw, mut mixed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        rates.push(replay(&scheduler, 0, count).await?);
        raw.push(read(&reader, handle, count).await?);
        mixed.push(replay(&scheduler, total - count, count).await?);
    }
    let mut also = vec![("last_events_per_s", median(&mixed))];
    also.extend(first_pages(&scheduler, total).await?);
    let (figure, yardstick) = (median(&rates), median(&raw));
    Ok(Report {
        name: "replay",
        figure,
        unit: "events/s",
        runs: rates,
        yardstick: (
            "reading the same rows on one connection and taking them apart, no service",
            yardstick,
        ),
        ratio: figure / yardstick,
        also,
        ran: format!(
            "the first {count} events of a scheduler from the journal over gRPC, each checked to be in order, and the last ones; and \
             lists and tasks of its {total} finished ones: half without order, a quarter in calls of one order, a quarter in calls of \
             many"
        ),
    })
}

/// Has the scheduler finish `total` tasks.
async fn finish(scheduler: &Scheduler, total: u64) -> Result<()> {
    let (half, most) = (total / 2, total / 4 * 3);
    fill::fill_with(scheduler, 0, half, PER_CALL, CALLERS, load::task).await?;
    done(scheduler, half).await?;
    // An order that has begun takes no more tasks of lower ones.
    scheduler.pause().await?;
    fill::fill_with(scheduler, half, most, PER_CALL, CALLERS, of_one_order).await?;
    let oldest = most + (total - most) / 100;
    fill::fill_with(
        scheduler,
        most,
        oldest,
        PER_CALL,
        CALLERS,
        of_many_orders_and_the_rare_one,
    )
    .await?;
    fill::fill_with(scheduler, oldest, total, PER_CALL, CALLERS, of_many_orders).await?;
    scheduler.resume(false).await?;
    done(scheduler, total).await
}

/// Waits until so many tasks are done.
async fn done(scheduler: &Scheduler, count: u64) -> Result<()> {
    while scheduler.describe().await?.done < count as i64 {
        tokio::time::sleep(TICK).await;
    }
    Ok(())
}

fn of_one_order(number: u64) -> Task {
    Task {
        order: Some(one_order(number)),
        ..load::task(number)
    }
}

fn one_order(number: u64) -> i64 {
    (1 + number / ONE_ORDER) as i64
}

/// Ten tasks of an order, ten of the next one, and so on: all but the rare one.
fn of_many_orders(number: u64) -> Task {
    let order = MANY + (number / 10 % 10) as i64;
    Task {
        order: Some(if order == RARE { MANY } else { order }),
        ..load::task(number)
    }
}

fn of_many_orders_and_the_rare_one(number: u64) -> Task {
    Task {
        order: Some(MANY + (number / 10 % 10) as i64),
        ..load::task(number)
    }
}

/// Events per second of a stream of `count` events from the one after `after` on.
async fn replay(scheduler: &Scheduler, after: u64, count: u64) -> Result<f64> {
    let start = Instant::now();
    let mut stream = scheduler
        .synchronize(after as i64, Some(Kind::Count(count as i64)))
        .await?;
    let mut next = after as i64 + 1;
    while let Some(events) = stream.next().await? {
        for event in &events {
            ensure!(
                event.done_no == next,
                "event {} where {next} was due",
                event.done_no
            );
            next += 1;
        }
    }
    ensure!(
        next == (after + count) as i64 + 1,
        "{} of {count} events came",
        next - 1 - after as i64
    );
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

async fn read(reader: &Reader, handle: Handle, count: u64) -> Result<f64> {
    let start = Instant::now();
    let (mut after, mut read) = (DoneNo(0), 0);
    while after.0 < count as i64 {
        let stretch = reader.events(handle, after, READ_BYTES).await?;
        ensure!(!stretch.is_empty(), "event {} is missing", after.0 + 1);
        let from = after;
        for event in stretch.iter().flat_map(|events| events.after(from)) {
            after = event?.0;
            read += 1;
        }
    }
    Ok(f64::from(read) / start.elapsed().as_secs_f64())
}

/// Milliseconds of the first page of each list, and of single tasks from all over: the median, and
/// the slowest of all.
async fn first_pages(scheduler: &Scheduler, total: u64) -> Result<Vec<(&'static str, f64)>> {
    let (mut figures, mut slowest) = (Vec::new(), 0f64);
    let (one, nobodys) = (one_order(total / 8 * 5), MANY / 2);
    for (name, state, order) in [
        ("list_newest_ms", TaskState::Unspecified, None),
        ("list_done_ms", TaskState::Done, None),
        ("list_running_ms", TaskState::Running, None),
        ("list_order_ms", TaskState::Unspecified, Some(one)),
        ("list_done_order_ms", TaskState::Done, Some(one)),
        ("list_queued_order_ms", TaskState::Queued, Some(one)),
        (
            "list_common_of_many_orders_ms",
            TaskState::Unspecified,
            Some(MANY),
        ),
        (
            "list_rare_of_many_orders_ms",
            TaskState::Unspecified,
            Some(RARE),
        ),
        (
            "list_done_rare_of_many_orders_ms",
            TaskState::Done,
            Some(RARE),
        ),
        (
            "list_order_of_nobody_ms",
            TaskState::Unspecified,
            Some(nobodys),
        ),
    ] {
        let mut took = Vec::new();
        for _ in 0..PAGES {
            let start = Instant::now();
            let handle = scheduler.handle().to_owned();
            let page = scheduler
                .tasks(ListTasksRequest {
                    handle,
                    state: state.into(),
                    order,
                    ..Default::default()
                })
                .await?;
            took.push(start.elapsed().as_secs_f64() * 1e3);
            let wanted = |order| {
                matches!(state, TaskState::Unspecified | TaskState::Done)
                    && order != Some(RARE)
                    && order != Some(nobodys)
            };
            ensure!(
                !page.tasks.is_empty() || !wanted(order),
                "{name}: the page is empty"
            );
        }
        slowest = took.iter().copied().fold(slowest, f64::max);
        figures.push((name, median(&took)));
    }
    let mut took = Vec::new();
    for part in 0..PAGES as u64 {
        let start = Instant::now();
        scheduler
            .task((1 + part * total / PAGES as u64) as i64)
            .await?;
        took.push(start.elapsed().as_secs_f64() * 1e3);
    }
    slowest = took.iter().copied().fold(slowest, f64::max);
    figures.extend([("get_task_ms", median(&took)), ("slowest_ms", slowest)]);
    Ok(figures)
}
