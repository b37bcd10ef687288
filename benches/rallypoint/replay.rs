//! A reader who returns after a million events reads all of them from the journal, in order,
//! against reading and decoding the same rows without a service. Also the first pages of the lists
//! of a scheduler with ten million finished tasks.

use crate::{
    environment::Environment,
    fill, lists, load,
    report::{Report, median},
};
use anyhow::{Context, Result, ensure};
use rallypoint::{
    core::{DoneNo, Handle},
    journal::Reader,
};
use rallypoint_client::{
    Client, Scheduler,
    api::{ListTasksRequest, SchedulerSettings, Task, TaskFilter, TaskState, until::Kind},
};
use std::time::{Duration, Instant, SystemTime};
use uuid::Uuid;

const PER_CALL: u64 = 100;
const CALLERS: u64 = 64;
/// Events of one replay.
const MILLION: u64 = 1_000_000;
/// Bytes of one raw read.
const READ_BYTES: usize = 1 << 20;
/// Tasks per order, in calls with tasks of one order.
const ONE_ORDER: u64 = 100_000;
/// The lowest order of the calls with tasks of many orders.
const MANY: i64 = 1_000_000;
/// An order that only the oldest of these calls have, although it lies within the range of orders
/// of all of them.
const RARE: i64 = MANY + 5;
/// Schedulers among which schedulers are listed: one for so many tasks.
const TASKS_PER_SCHEDULER: u64 = 100;
/// Repetitions of each read.
const PAGES: usize = 20;
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) async fn run(total: u64, runs: usize) -> Result<Report> {
    let environment = Environment::new().await?;
    let database = environment.database("bench").await?;
    let server = environment.server(&database).await?;
    let client = Client::connect(&server.address).await?;
    let scheduler = client.open(SchedulerSettings::default()).await?;
    let half = finish(&scheduler, total).await?;
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
    also.extend(lists::of_tasks(&scheduler, half, one_order(total / 8 * 5)).await?);
    let schedulers = (total / TASKS_PER_SCHEDULER) as usize;
    also.extend(lists::of_schedulers(&client, schedulers).await?);
    let (figure, baseline) = (median(&rates), median(&raw));
    Ok(Report {
        name: "replay",
        figure,
        unit: "events/s",
        runs: rates,
        baseline: (
            "reading the same rows on one connection and decoding them, no service",
            baseline,
        ),
        ratio: figure / baseline,
        also,
        ran: format!(
            "the first {count} events of a scheduler from the journal over gRPC, each checked to \
             be in order, and the last ones; and lists and tasks of its {total} finished ones: \
             half without order, a quarter in calls of one order, a quarter in calls of many, with a \
             label, and a few that were cancelled; and lists of {schedulers} schedulers"
        ),
    })
}

/// Runs `total` tasks, and a few rare ones, to their end. Returns when half of them had ended.
async fn finish(scheduler: &Scheduler, total: u64) -> Result<SystemTime> {
    let (half, most) = (total / 2, total / 4 * 3);
    fill::fill_with(scheduler, 0, half, PER_CALL, CALLERS, load::task).await?;
    done(scheduler, half).await?;
    let half_ended = SystemTime::now();
    // Paused, so that no order begins: then tasks of lower orders would be late.
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
    lists::submit_rare(scheduler).await?;
    fill::fill_with(scheduler, oldest, total, PER_CALL, CALLERS, of_many_orders).await?;
    scheduler.resume(false).await?;
    done(scheduler, total).await?;
    Ok(half_ended)
}

/// Waits until so many tasks are done.
async fn done(scheduler: &Scheduler, count: u64) -> Result<()> {
    while scheduler.describe().await?.done < count as i64 {
        tokio::time::sleep(POLL_INTERVAL).await;
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

/// Ten tasks of an order, ten of the next one, and so on, without the rare order.
fn of_many_orders(number: u64) -> Task {
    let order = MANY + (number / 10 % 10) as i64;
    Task {
        order: Some(if order == RARE { MANY } else { order }),
        ..lists::common(load::task(number))
    }
}

fn of_many_orders_and_the_rare_one(number: u64) -> Task {
    Task {
        order: Some(MANY + (number / 10 % 10) as i64),
        ..load::task(number)
    }
}

/// Events per second of a stream of `count` events that starts after the event `after`.
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
        let batch = reader.events(handle, after, READ_BYTES).await?;
        ensure!(!batch.is_empty(), "event {} is missing", after.0 + 1);
        let from = after;
        for event in batch.iter().flat_map(|events| events.after(from)) {
            after = event?.0;
            read += 1;
        }
    }
    Ok(f64::from(read) / start.elapsed().as_secs_f64())
}

/// Milliseconds of the first page of each list and of single tasks: the medians, and the slowest of
/// all.
async fn first_pages(scheduler: &Scheduler, total: u64) -> Result<Vec<(&'static str, f64)>> {
    const ALL: TaskState = TaskState::Unspecified;
    let mut reads = Vec::new();
    let (one, nobodys) = (one_order(total / 8 * 5), MANY / 2);
    for (name, state, order) in [
        ("list_newest_ms", ALL, None),
        ("list_done_ms", TaskState::Done, None),
        ("list_running_ms", TaskState::Running, None),
        ("list_order_ms", ALL, Some(one)),
        ("list_done_order_ms", TaskState::Done, Some(one)),
        ("list_queued_order_ms", TaskState::Queued, Some(one)),
        ("list_common_of_many_orders_ms", ALL, Some(MANY)),
        ("list_rare_of_many_orders_ms", ALL, Some(RARE)),
        (
            "list_done_rare_of_many_orders_ms",
            TaskState::Done,
            Some(RARE),
        ),
        ("list_order_of_nobody_ms", ALL, Some(nobodys)),
    ] {
        let has_tasks =
            matches!(state, ALL | TaskState::Done) && order != Some(RARE) && order != Some(nobodys);
        let times = page_times(scheduler, state, order, has_tasks);
        reads.push((name, times.await.context(name)?));
    }
    let mut times = Vec::new();
    for part in 0..PAGES as u64 {
        let start = Instant::now();
        scheduler
            .task((1 + part * total / PAGES as u64) as i64)
            .await?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    reads.push(("get_task_ms", times));
    let slowest = reads.iter().flat_map(|(_, times)| times).copied();
    let slowest = slowest.fold(0.0, f64::max);
    let medians = reads.iter().map(|(name, times)| (*name, median(times)));
    Ok(medians.chain([("slowest_ms", slowest)]).collect())
}

/// Milliseconds of each repetition of a list's first page; `has_tasks`: it must not be empty.
async fn page_times(
    scheduler: &Scheduler,
    state: TaskState,
    order: Option<i64>,
    has_tasks: bool,
) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    for _ in 0..PAGES {
        let states = [state]
            .into_iter()
            .filter(|state| *state != TaskState::Unspecified);
        let filter = TaskFilter {
            states: states.map(i32::from).collect(),
            effective_order: order,
            ..Default::default()
        };
        let request = ListTasksRequest {
            filter: Some(filter),
            ..Default::default()
        };
        let start = Instant::now();
        let page = scheduler.tasks(request).await?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        ensure!(!page.tasks.is_empty() || !has_tasks, "the page is empty");
    }
    Ok(times)
}
