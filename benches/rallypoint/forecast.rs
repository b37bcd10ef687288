//! What a forecast costs others: the longest that another caller waits for an answer while
//! forecasts are made of a large backlog of which no two neighbours are alike, against the longest
//! while none is made. And how long the forecasts themselves take.
//!
//! The other caller asks for a scheduler of its own, which writes nothing: its wait is the time the
//! loop decides for, beside what the machine itself takes.

use crate::{
    environment::{Environment, Server},
    fill,
    report::{Report, median},
};
use anyhow::{Result, ensure};
use rallypoint_client::{
    Client, Scheduler,
    api::{ForecastSchedulerRequest, SchedulerSettings, SqlTask, Task, task::Kind},
};
use std::time::{Duration, Instant};
use tokio::time;

/// Tasks of a call, and callers at a time.
const PER_CALL: u64 = 10_000;
const CALLERS: u64 = 8;
/// Tasks of the other schedulers that want the same slots, and how many there are.
const OTHERS: u64 = 300;
const OF_OTHERS: u64 = 10;
/// How long the other caller asks.
const CALM: Duration = Duration::from_secs(5);
const FORECASTS: usize = 10;
/// Keeps its slot for as long as it is measured.
const LONG: &str = "select pg_sleep(3600)";
const PAUSE: Duration = Duration::from_millis(1);

pub(crate) async fn run(total: u64, runs: usize) -> Result<Report> {
    let environment = Environment::new().await?;
    let database = environment.database("bench_forecast").await?;
    let server = environment.server(&database).await?;
    let backlog = backlog(&server, total).await?;
    let other = Client::connect(&server.address)
        .await?
        .open(SchedulerSettings::default())
        .await?;
    let (mut calm, mut busy, mut took) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        calm.push(longest(&other, time::sleep(CALM)).await?);
        let (lengths, made) = (&mut took, forecasts(&backlog));
        let made = async {
            let made = made.await;
            lengths.extend(made.iter().flatten().copied());
            made.map(drop)
        };
        let (waits, ended) = longest_with(&other, made).await?;
        ended?;
        busy.push(waits);
    }
    let (figure, baseline) = (median(&busy), median(&calm));
    Ok(Report {
        name: "forecast",
        figure,
        unit: "ms",
        runs: busy,
        baseline: (
            "the longest wait while no forecast is made, same server",
            baseline,
        ),
        ratio: figure / baseline,
        also: vec![("forecast_ms", median(&took))],
        ran: format!(
            "the longest wait of another caller's DescribeScheduler while {FORECASTS} forecasts are \
             made, one after the other, of {total} queued tasks of which no two neighbours are \
             alike, beside {OTHERS} schedulers that want the same slots"
        ),
    })
}

/// A paused scheduler whose tasks are alternately of two orders, and others beside it.
async fn backlog(server: &Server, total: u64) -> Result<Scheduler> {
    for _ in 0..OTHERS {
        let other = Client::connect(&server.address)
            .await?
            .open(SchedulerSettings::default())
            .await?;
        other
            .exec((0..OF_OTHERS).map(|_| sql(LONG)).collect())
            .await?;
    }
    let backlog = fill::paused(&server.address).await?;
    let task = |number: u64| Task {
        order: Some(1 + (number % 2) as i64),
        ..sql("select 1")
    };
    fill::fill_with(&backlog, 0, total, PER_CALL, CALLERS, task).await?;
    let queued = backlog.describe().await?;
    ensure!(queued.submitted as u64 == total, "not all of it is there");
    Ok(backlog)
}

fn sql(statement: &str) -> Task {
    let statement = statement.to_owned();
    Task {
        kind: Some(Kind::Sql(SqlTask {
            statement,
            ..SqlTask::default()
        })),
        ..Task::default()
    }
}

/// How long each took, in milliseconds.
async fn forecasts(backlog: &Scheduler) -> Result<Vec<f64>> {
    let mut took = Vec::new();
    for _ in 0..FORECASTS {
        let asked = Instant::now();
        backlog
            .forecast(ForecastSchedulerRequest::default())
            .await?;
        took.push(asked.elapsed().as_secs_f64() * 1e3);
    }
    Ok(took)
}

async fn longest(other: &Scheduler, meanwhile: impl Future<Output = ()>) -> Result<f64> {
    Ok(longest_with(other, meanwhile).await?.0)
}

/// The longest wait for an answer until `meanwhile` is over, in milliseconds.
async fn longest_with<T>(
    other: &Scheduler,
    meanwhile: impl Future<Output = T>,
) -> Result<(f64, T)> {
    let mut longest = Duration::ZERO;
    let mut meanwhile = std::pin::pin!(meanwhile);
    loop {
        let asked = Instant::now();
        tokio::select! {
            over = &mut meanwhile => return Ok((longest.as_secs_f64() * 1e3, over)),
            answer = other.describe() => drop(answer?),
        }
        longest = longest.max(asked.elapsed());
        tokio::select! {
            over = &mut meanwhile => return Ok((longest.as_secs_f64() * 1e3, over)),
            () = time::sleep(PAUSE) => {}
        }
    }
}
