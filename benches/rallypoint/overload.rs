//! Three times the load that can be sustained: what becomes of throughput, of other callers and of
//! memory, and how soon the server recovers.

use crate::{
    environment::{Environment, Server},
    latency::at,
    report::{Report, median},
};
use anyhow::{Context, Result};
use rallypoint_client::{
    Client, Scheduler,
    api::{SchedulerSettings, SqlTask, Task, task::Kind, until},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::{sync::Semaphore, task::JoinHandle, time};

const PER_CALL: u64 = 100;
/// Quota of queued tasks of a namespace: a few seconds of work.
const QUEUED: &str = "20000";
/// Most calls in flight.
const MAX_CALLS: usize = 1_000;
/// Tasks queued while the best rate is measured.
const WINDOW: u64 = 10_000;
const SUSTAINED: Duration = Duration::from_secs(8);
/// The part of it that warms up sessions and plans.
const WARM_UP: Duration = Duration::from_secs(3);
const FLOOD: Duration = Duration::from_secs(10);
const RECOVERY: Duration = Duration::from_secs(15);
/// The server has recovered when no such interval is slow any more.
const RECOVERY_WINDOW: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(2);

/// The load on one scheduler: tasks offered, refused and done.
#[derive(Clone)]
struct Load {
    scheduler: Scheduler,
    offered: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
    done: Arc<AtomicU64>,
}

/// Tasks of a caller in another namespace, one at a time: when each was done, and its microseconds.
type OtherTasks = Vec<(Instant, f64)>;

pub(crate) async fn run(runs: usize) -> Result<Report> {
    let environment = Environment::new().await?;
    let options = ["--max-queued-tasks", QUEUED, "--trusted-namespace-metadata"];
    let (mut best, mut flooded, mut offered, mut refused) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut before, mut during, mut back, mut peak) = (Vec::new(), Vec::new(), Vec::new(), 0f64);
    for run in 0..runs {
        let server = environment
            .server_with(
                &environment.database(&format!("bench_{run}")).await?,
                &options,
            )
            .await?;
        let load = Load::open(&server).await?;
        let others = tokio::spawn(run_others(
            server.address.clone(),
            SUSTAINED + FLOOD + RECOVERY,
        ));
        let rate = load.sustain().await?;
        let (start, done) = (Instant::now(), load.done.load(Relaxed));
        load.flood(3.0 * rate).await;
        let (end, took) = (Instant::now(), start.elapsed().as_secs_f64());
        flooded.push((load.done.load(Relaxed) - done) as f64 / took);
        best.push(rate);
        offered.push(load.offered.load(Relaxed) as f64 / took / rate);
        refused.push(load.refused.load(Relaxed) as f64 / load.offered.load(Relaxed) as f64);
        let others = others.await??;
        before.push(at(&between(&others, None, Some(start)), 0.99));
        during.push(at(&between(&others, Some(start), Some(end)), 0.99));
        back.push(recovery(&others, end, median(&before)));
        peak = peak.max(server.usage()?.peak_mib());
    }
    let (figure, baseline) = (median(&flooded), median(&best));
    Ok(Report {
        name: "overload",
        figure,
        unit: "tasks/s",
        ratio: figure / baseline,
        runs: flooded,
        baseline: ("the best rate that is sustained, same run", baseline),
        also: vec![
            ("offered_times_best", median(&offered)),
            ("refused_share", median(&refused)),
            ("others_p99_us_before", median(&before)),
            ("others_p99_us_during", median(&during)),
            ("others_back_to_normal_after_s", median(&back)),
            ("peak_mib", peak),
        ],
        ran: format!(
            "SQL tasks (select 1), {PER_CALL} a call, offered at three times the sustained rate \
             for {} s to a namespace that may queue {QUEUED}; a caller of another namespace runs \
             SQL tasks one at a time all the while",
            FLOOD.as_secs()
        ),
    })
}

impl Load {
    async fn open(server: &Server) -> Result<Load> {
        // Refusals are counted, not retried.
        let client = Client::connect(&server.address)
            .await?
            .with_retry_timeout(Duration::ZERO);
        let scheduler = client
            .with_namespace("flood")?
            .open(SchedulerSettings::default())
            .await?;
        let count = || Arc::new(AtomicU64::new(0));
        let load = Load {
            scheduler,
            offered: count(),
            refused: count(),
            done: count(),
        };
        let reading = load.clone();
        let mut stream = reading
            .scheduler
            .synchronize(0, Some(until::Kind::Forever(())))
            .await?;
        tokio::spawn(async move {
            // The stream ends with the server.
            while let Ok(Some(done)) = stream.next().await {
                reading.done.fetch_add(done.len() as u64, Relaxed);
            }
        });
        Ok(load)
    }

    /// The best rate: the queue is kept short but never empty.
    async fn sustain(&self) -> Result<f64> {
        let (mut submitted, mut since) = (0, None);
        let start = Instant::now();
        while start.elapsed() < SUSTAINED {
            if submitted - self.done.load(Relaxed).min(submitted) < WINDOW {
                self.scheduler.exec(tasks()).await?;
                submitted += PER_CALL;
            } else {
                if start.elapsed() > WARM_UP {
                    since.get_or_insert_with(|| (Instant::now(), self.done.load(Relaxed)));
                }
                time::sleep(TICK).await;
            }
        }
        let (since, done) = since.context("the window is never full")?;
        Ok((self.done.load(Relaxed) - done) as f64 / since.elapsed().as_secs_f64())
    }

    /// Offers `rate` tasks a second, accepted or not.
    async fn flood(&self, rate: f64) {
        let permits = Arc::new(Semaphore::new(MAX_CALLS));
        let start = Instant::now();
        while start.elapsed() < FLOOD {
            let due = (start.elapsed().as_secs_f64() * rate) as u64;
            while self.offered.load(Relaxed) < due
                && let Ok(permit) = permits.clone().try_acquire_owned()
            {
                self.offered.fetch_add(PER_CALL, Relaxed);
                let load = self.clone();
                let call: JoinHandle<()> = tokio::spawn(async move {
                    if load.scheduler.exec(tasks()).await.is_err() {
                        load.refused.fetch_add(PER_CALL, Relaxed);
                    }
                    drop(permit);
                });
                drop(call);
            }
            time::sleep(TICK).await;
        }
    }
}

async fn run_others(address: String, time: Duration) -> Result<OtherTasks> {
    let scheduler = Client::connect(&address)
        .await?
        .with_namespace("calm")?
        .open(SchedulerSettings::default())
        .await?;
    let mut stream = scheduler
        .synchronize(0, Some(until::Kind::Forever(())))
        .await?;
    let (mut seen, end) = (Vec::new(), Instant::now() + time);
    while Instant::now() < end {
        let start = Instant::now();
        scheduler.exec(vec![task()]).await?;
        stream.next().await?.context("the stream has ended")?;
        seen.push((Instant::now(), start.elapsed().as_secs_f64() * 1e6));
        time::sleep(TICK).await;
    }
    Ok(seen)
}

fn between(others: &OtherTasks, from: Option<Instant>, to: Option<Instant>) -> Vec<f64> {
    let within = |at: &Instant| from.is_none_or(|from| *at >= from) && to.is_none_or(|to| *at < to);
    others
        .iter()
        .filter(|(at, _)| within(at))
        .map(|(_, took)| *took)
        .collect()
}

/// Seconds from `end` to the end of the last window in which one task in ten took more than twice
/// the usual 99th percentile. A window has about a hundred tasks, so the slowest alone says
/// nothing.
fn recovery(others: &OtherTasks, end: Instant, usual: f64) -> f64 {
    let windows = (RECOVERY.as_secs_f64() / RECOVERY_WINDOW.as_secs_f64()) as u32;
    let slow = (0..windows).rev().find(|window| {
        let from = end + RECOVERY_WINDOW * *window;
        at(
            &between(others, Some(from), Some(from + RECOVERY_WINDOW)),
            0.90,
        ) > 2.0 * usual
    });
    slow.map_or(0.0, |last| (RECOVERY_WINDOW * (last + 1)).as_secs_f64())
}

fn tasks() -> Vec<Task> {
    vec![task(); PER_CALL as usize]
}

fn task() -> Task {
    Task {
        kind: Some(Kind::Sql(SqlTask {
            statement: "select 1".into(),
            ..Default::default()
        })),
        ..Task::default()
    }
}
