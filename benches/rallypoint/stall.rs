//! Backlogs of one caller that come due all at once: the longest that another caller waits for an
//! answer meanwhile, seen from outside, against the longest while nothing is due.
//!
//! The other caller asks for a scheduler of its own, which writes nothing: its wait is the time the
//! loop decides for, and that of the batch in flight.

use crate::{
    environment::{Environment, Server},
    fill, load,
    report::{Report, median},
};
use anyhow::{Result, ensure};
use rallypoint_client::{
    Client,
    api::{SchedulerSettings, Task, TaskOptions},
};
use std::time::{Duration, Instant, SystemTime};
use tokio::{task::JoinSet, time};

/// Tasks of a large call.
const PER_CALL: u64 = 10_000;
/// Calls of one task for each call's worth of a large backlog.
const PER_SINGLE: u64 = 10;
/// Slots, and tasks of each scheduler that a takeover leaves in doubt.
const SLOTS: u64 = 64;
/// Tasks that are submitted in a second at least, in large calls and one by one.
const FILLED: u64 = 20_000;
const FILLED_SINGLY: u64 = 1_500;
const CALLERS: u64 = 32;
/// How long the other caller asks before and after.
const CALM: Duration = Duration::from_secs(2);
const AFTER: Duration = Duration::from_secs(8);
const PAUSE: Duration = Duration::from_millis(1);

/// The longest waits of the other caller, in milliseconds.
#[derive(Clone, Copy)]
struct Waits {
    calm: f64,
    due: f64,
}

pub(crate) async fn run(total: u64, runs: usize) -> Result<Report> {
    let environment = Environment::new().await?;
    let singles = total / PER_SINGLE;
    let mut all: [Vec<Waits>; 4] = Default::default();
    for run in 0..runs {
        let database = environment.database(&format!("bench_{run}")).await?;
        let server = environment
            .server_with(&database, &["--slots", &SLOTS.to_string()])
            .await?;
        all[0].push(alternating(&server, total).await?);
        all[1].push(one_by_one(&server, singles, not_before).await?);
        all[2].push(one_by_one(&server, singles, deadline).await?);
        let schedulers = total / 10 / SLOTS;
        all[3].push(takeover(&environment, &database, server, schedulers).await?);
    }
    let due = |waits: &[Waits]| median(&waits.iter().map(|waits| waits.due).collect::<Vec<_>>());
    let longest: Vec<f64> = (0..runs)
        .map(|run| all.iter().map(|waits| waits[run].due).fold(0.0, f64::max))
        .collect();
    let calm: Vec<f64> = all.iter().flatten().map(|waits| waits.calm).collect();
    let (figure, baseline) = (median(&longest), median(&calm));
    Ok(Report {
        name: "stall",
        figure,
        unit: "ms",
        runs: longest,
        baseline: (
            "the longest wait while nothing is due, same server",
            baseline,
        ),
        ratio: figure / baseline,
        also: vec![
            ("alternating_ms", due(&all[0])),
            ("one_task_calls_ms", due(&all[1])),
            ("deadlines_ms", due(&all[2])),
            ("takeover_ms", due(&all[3])),
        ],
        ran: format!(
            "the longest wait of another caller's DescribeScheduler while a backlog comes due at \
             once: {total} tasks that alternate between waiting for a slot and for their time; \
             {singles} calls of one task that wait for their time, and as many with a deadline; \
             and after a kill, {} schedulers with {SLOTS} tasks in doubt each",
            total / 10 / SLOTS
        ),
    })
}

/// Every second task of large calls waits for one time.
async fn alternating(server: &Server, total: u64) -> Result<Waits> {
    let due = SystemTime::now() + CALM + Duration::from_secs(1 + total / FILLED);
    let backlog = fill::paused(&server.address).await?;
    for first in (0..total).step_by(PER_CALL as usize) {
        let task = |number: u64| Task {
            options: number.is_multiple_of(2).then(|| not_before(due)),
            ..load::task(number)
        };
        let last = (first + PER_CALL).min(total);
        backlog.exec((first..last).map(task).collect()).await?;
    }
    watch(server, due).await
}

/// Many calls of one task whose time comes at once.
async fn one_by_one(
    server: &Server,
    total: u64,
    options: fn(SystemTime) -> TaskOptions,
) -> Result<Waits> {
    let due = SystemTime::now() + CALM + Duration::from_secs(1 + total / FILLED_SINGLY);
    let backlog = fill::paused(&server.address).await?;
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let backlog = backlog.clone();
        callers.spawn(async move {
            for number in (caller..total).step_by(CALLERS as usize) {
                let task = Task {
                    options: Some(options(due)),
                    ..load::task(number)
                };
                backlog.exec(vec![task]).await?;
            }
            Ok::<_, rallypoint_client::Error>(())
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    watch(server, due).await
}

/// Many schedulers with tasks in doubt after the owner was killed.
async fn takeover(
    environment: &Environment,
    database: &str,
    server: Server,
    schedulers: u64,
) -> Result<Waits> {
    for _ in 0..schedulers {
        let scheduler = fill::paused(&server.address).await?;
        scheduler.exec((0..SLOTS).map(fill::sql).collect()).await?;
    }
    let calm = longest(&server, SystemTime::now() + CALM).await?;
    server.kill().await?;
    let server = environment
        .server_with(database, &["--slots", &SLOTS.to_string()])
        .await?;
    let due = longest(&server, SystemTime::now() + AFTER).await?;
    Ok(Waits { calm, due })
}

/// The waits before something is due, and from then on.
async fn watch(server: &Server, due: SystemTime) -> Result<Waits> {
    let early = due - CALM;
    ensure!(
        early > SystemTime::now(),
        "the backlog was not submitted in time"
    );
    time::sleep(early.duration_since(SystemTime::now())?).await;
    Ok(Waits {
        calm: longest(server, due).await?,
        due: longest(server, due + AFTER).await?,
    })
}

/// The longest wait for an answer until a time, in milliseconds.
async fn longest(server: &Server, until: SystemTime) -> Result<f64> {
    let other = Client::connect(&server.address)
        .await?
        .open(SchedulerSettings::default())
        .await?;
    let mut longest = Duration::ZERO;
    while SystemTime::now() < until {
        let asked = Instant::now();
        other.describe().await?;
        longest = longest.max(asked.elapsed());
        time::sleep(PAUSE).await;
    }
    Ok(longest.as_secs_f64() * 1e3)
}

fn not_before(due: SystemTime) -> TaskOptions {
    TaskOptions {
        not_before: Some(due.into()),
        ..TaskOptions::default()
    }
}

/// Ends at the same time whenever it is submitted.
fn deadline(due: SystemTime) -> TaskOptions {
    let left = due.duration_since(SystemTime::now()).unwrap_or(PAUSE);
    TaskOptions {
        total_timeout: left.try_into().ok(),
        ..TaskOptions::default()
    }
}
