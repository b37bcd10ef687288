//! A server killed and started again, from the start of the process to the first outcome of a
//! statement, against a start on an empty journal: with millions of statements queued, in large
//! calls or one by one; with one old unfinished task and millions finished after it; and with many
//! open schedulers that have each finished a few tasks.

use crate::{
    environment::{Environment, Server},
    fill, load,
    report::{Report, median},
    schedulers,
};
use anyhow::{Context, Result};
use rallypoint::core::model::limits::Limits;
use rallypoint_client::{
    Client, Scheduler,
    api::{SchedulerSettings, SqlTask, Task, TaskOptions, task, until::Kind},
};
use std::time::{Duration, Instant, SystemTime};
use tokio::task::JoinSet;

const PER_CALL: u64 = 1_000;
const CALLERS: u64 = 8;
/// Callers of small calls.
const MANY_CALLERS: u64 = 128;
/// Tasks of each of the many schedulers, one by one.
const FEW: u64 = 3;
/// Time for idle schedulers to become quiesced.
const SETTLED: Duration = Duration::from_secs(15);
/// Queued tasks per open scheduler, and per task submitted one by one.
const PER_SCHEDULER: u64 = 100;
const PER_SINGLE: u64 = 10;

/// A database to start on, the scheduler to resume there, and the seconds of each start.
struct Side {
    database: String,
    backlog: Option<String>,
    starts: Vec<f64>,
}

pub(crate) async fn run(total: u64, runs: usize) -> Result<Report> {
    let environment = Environment::new().await?;
    let (open, singles) = (total / PER_SCHEDULER, total / PER_SINGLE);
    let mut many = Side::new(&environment, "bench_schedulers").await?;
    few_each(&environment.server(&many.database).await?, open).await?;
    many.start(&environment).await?;
    let in_use = std::mem::take(&mut many.starts);
    // These schedulers become quiesced while the other databases are filled.
    let (quiescing, since) = (environment.server(&many.database).await?, Instant::now());
    let mut empty = Side::new(&environment, "bench_empty").await?;
    drop(environment.server(&empty.database).await?);
    let mut queued = Side::new(&environment, "bench_queued").await?;
    queued.queue(&environment, total, PER_CALL, CALLERS).await?;
    let mut old = Side::new(&environment, "bench_old").await?;
    one_open(&environment.server(&old.database).await?, total).await?;
    // Filled last, because request ids expire after some minutes.
    let mut single = Side::new(&environment, "bench_single").await?;
    single.queue(&environment, singles, 1, MANY_CALLERS).await?;
    tokio::time::sleep((Limits::DEFAULT.quiesce_after + SETTLED).saturating_sub(since.elapsed()))
        .await;
    drop(quiescing);
    environment.checkpoint().await?;
    for _ in 0..runs {
        for side in [&mut single, &mut empty, &mut queued, &mut old, &mut many] {
            side.start(&environment).await?;
        }
    }
    let (figure, baseline) = (median(&queued.starts), median(&empty.starts));
    Ok(Report {
        name: "restart",
        figure,
        unit: "s",
        runs: queued.starts,
        baseline: ("a start on an empty journal", baseline),
        ratio: figure / baseline,
        also: vec![
            ("one_open_task_s", median(&old.starts)),
            ("many_schedulers_s", median(&many.starts)),
            ("many_schedulers_in_use_s", median(&in_use)),
            ("one_by_one_s", median(&single.starts)),
            (
                "slowest_s",
                slowest(&[&single.starts, &old.starts, &many.starts, &in_use]),
            ),
            ("schedulers", open as f64),
            ("submitted_one_by_one", singles as f64),
        ],
        ran: format!(
            "from the start of the process to the first AsyncDone of a SQL task, with {total} SQL \
             tasks queued ({PER_CALL} a call); with one task open and {total} no-op tasks finished \
             after it; with {open} schedulers open, each with {FEW} tasks finished one by one, a \
             moment ago or a minute ago; and with {singles} SQL tasks queued one by one, under \
             request ids"
        ),
    })
}

impl Side {
    async fn new(environment: &Environment, name: &str) -> Result<Side> {
        Ok(Side {
            database: environment.database(name).await?,
            backlog: None,
            starts: Vec::new(),
        })
    }

    /// Queues `total` statements in a scheduler that is paused.
    async fn queue(
        &mut self,
        environment: &Environment,
        total: u64,
        per_call: u64,
        callers: u64,
    ) -> Result<()> {
        let server = environment.server(&self.database).await?;
        let scheduler = fill::paused(&server.address).await?;
        self.backlog = Some(scheduler.handle().to_owned());
        fill::fill_with(&scheduler, 0, total, per_call, callers, sql).await
    }

    /// Starts a server and waits for the first event of the resumed backlog, else of a new task.
    async fn start(&mut self, environment: &Environment) -> Result<()> {
        let start = Instant::now();
        let server = environment.server(&self.database).await?;
        let client = Client::connect(&server.address).await?;
        let (scheduler, after): (Scheduler, i64) = match &self.backlog {
            Some(handle) => {
                let scheduler = client.scheduler(handle.clone());
                let done = scheduler.resume(false).await?.done;
                (scheduler, done)
            }
            None => {
                let scheduler = client.open(SchedulerSettings::default()).await?;
                scheduler.exec(vec![sql(0)]).await?;
                (scheduler, 0)
            }
        };
        let mut stream = scheduler.synchronize(after, Some(Kind::Count(1))).await?;
        stream
            .next()
            .await?
            .context("the stream ended before the first event")?;
        self.starts.push(start.elapsed().as_secs_f64());
        if self.backlog.is_some() {
            scheduler.pause().await?;
        }
        Ok(())
    }
}

/// A scheduler whose first task waits for a day while `total` later tasks end.
async fn one_open(server: &Server, total: u64) -> Result<()> {
    let scheduler = Client::connect(&server.address)
        .await?
        .open(SchedulerSettings::default())
        .await?;
    let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
    let options = TaskOptions {
        not_before: Some(tomorrow.into()),
        ..Default::default()
    };
    scheduler
        .exec(vec![Task {
            options: Some(options),
            ..sql(0)
        }])
        .await?;
    fill::fill_with(&scheduler, 0, total, PER_CALL, CALLERS, load::task).await?;
    while scheduler.describe().await?.done < total as i64 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Opens `count` schedulers and runs a few tasks on each.
async fn few_each(server: &Server, count: u64) -> Result<()> {
    let schedulers = schedulers::open(&server.address, count).await?;
    let mut submitting = JoinSet::new();
    for some in schedulers.chunks(schedulers.len().div_ceil(MANY_CALLERS as usize).max(1)) {
        let some = some.to_vec();
        submitting.spawn(async move {
            for task in 0..FEW {
                for scheduler in &some {
                    scheduler.exec(vec![load::task(task)]).await?;
                }
            }
            Ok::<_, rallypoint_client::Error>(())
        });
    }
    while let Some(ended) = submitting.join_next().await {
        ended??;
    }
    let client = Client::connect(&server.address).await?;
    while client
        .status()
        .await?
        .backlog
        .is_none_or(|backlog| backlog.queued + backlog.running > 0)
    {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

fn slowest(sides: &[&[f64]]) -> f64 {
    sides.iter().copied().flatten().copied().fold(0.0, f64::max)
}

/// A short statement.
fn sql(number: u64) -> Task {
    let sql = SqlTask {
        statement: format!("select {number}"),
        ..Default::default()
    };
    Task {
        kind: Some(task::Kind::Sql(sql)),
        order: None,
        options: None,
    }
}
