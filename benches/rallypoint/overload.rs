//! Three times the load that can be sustained: what becomes of throughput, of other callers, and of
//! memory; and how soon all is well again.

use crate::{
    environment::{Environment, Server},
    latency::at,
    report::{Report, median},
};
use anyhow::{Context, Result};
use rallypoint_client::{
    Client, Scheduler,
    api::{self, SchedulerSettings, SqlTask, Task, task::Kind, until},
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
/// What a namespace may have queued: a few seconds' work.
const QUEUED: &str = "20000";
/// Calls under way at any time.
const CALLS: usize = 1_000;
/// Tasks queued while the best rate is measured.
const WINDOW: u64 = 10_000;
const SUSTAINED: Duration = Duration::from_secs(8);
/// Of that, until sessions and plans are made.
const WARM: Duration = Duration::from_secs(3);
const FLOOD: Duration = Duration::from_secs(10);
const AFTER: Duration = Duration::from_secs(15);
/// All is well again when no such stretch of time is slow any more.
const WINDOW_AFTER: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(2);

/// The load: one scheduler's tasks, how many were offered, refused and done.
#[derive(Clone)]
struct Load {
    scheduler: Scheduler,
    offered: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
    done: Arc<AtomicU64>,
}

/// Tasks of a caller of another namespace, one at a time: when each was done, and how long it took,
/// in microseconds.
type Calm = Vec<(Instant, f64)>;

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
        let calm = tokio::spawn(calm(server.address.clone(), SUSTAINED + FLOOD + AFTER));
        let rate = load.sustain().await?;
        let (start, done) = (Instant::now(), load.done.load(Relaxed));
        load.flood(3.0 * rate).await;
        let (end, took) = (Instant::now(), start.elapsed().as_secs_f64());
        flooded.push((load.done.load(Relaxed) - done) as f64 / took);
        best.push(rate);
        offered.push(load.offered.load(Relaxed) as f64 / took / rate);
        refused.push(load.refused.load(Relaxed) as f64 / load.offered.load(Relaxed) as f64);
        let calm = calm.await??;
        before.push(at(&between(&calm, None, Some(start)), 0.99));
        during.push(at(&between(&calm, Some(start), Some(end)), 0.99));
        back.push(recovery(&calm, end, median(&before)));
        peak = peak.max(server.usage()?.peak_mib());
    }
    let (figure, yardstick) = (median(&flooded), median(&best));
    Ok(Report {
        name: "overload",
        figure,
        unit: "tasks/s",
        ratio: figure / yardstick,
        runs: flooded,
        yardstick: ("the best rate that is sustained, same run", yardstick),
        also: vec![
            ("offered_times_best", median(&offered)),
            ("refused_share", median(&refused)),
            ("others_p99_us_before", median(&before)),
            ("others_p99_us_during", median(&during)),
            ("others_back_to_normal_after_s", median(&back)),
            ("peak_mib", peak),
        ],
        ran: format!(
            "SQL tasks (select 1), {PER_CALL} a call, offered at three times the sustained rate for {} s to a namespace that may \
             queue {QUEUED}; a caller of another namespace runs SQL tasks one at a time all the while",
            FLOOD.as_secs()
        ),
    })
}

impl Load {
    async fn open(server: &Server) -> Result<Load> {
        // Refusals are counted, not waited out.
        let client = Client::connect(&server.address)
            .await?
            .with_patience(Duration::ZERO);
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
            .synchronize(0, Some(until::Kind::Forever(api::Unit {})))
            .await?;
        tokio::spawn(async move {
            // It ends with the server.
            while let Ok(Some(done)) = stream.next().await {
                reading.done.fetch_add(done.len() as u64, Relaxed);
            }
        });
        Ok(load)
    }

    /// The best rate: the queue is never empty, and never long.
    async fn sustain(&self) -> Result<f64> {
        let (mut submitted, mut since) = (0, None);
        let start = Instant::now();
        while start.elapsed() < SUSTAINED {
            if submitted - self.done.load(Relaxed).min(submitted) < WINDOW {
                self.scheduler.exec(tasks()).await?;
                submitted += PER_CALL;
            } else {
                if start.elapsed() > WARM {
                    since.get_or_insert_with(|| (Instant::now(), self.done.load(Relaxed)));
                }
                time::sleep(TICK).await;
            }
        }
        let (since, done) = since.context("the window is never full")?;
        Ok((self.done.load(Relaxed) - done) as f64 / since.elapsed().as_secs_f64())
    }

    /// Offers `rate` tasks a second, whatever becomes of them.
    async fn flood(&self, rate: f64) {
        let room = Arc::new(Semaphore::new(CALLS));
        let start = Instant::now();
        while start.elapsed() < FLOOD {
            let due = (start.elapsed().as_secs_f64() * rate) as u64;
            while self.offered.load(Relaxed) < due
                && let Ok(permit) = room.clone().try_acquire_owned()
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

async fn calm(address: String, time: Duration) -> Result<Calm> {
    let scheduler = Client::connect(&address)
        .await?
        .with_namespace("calm")?
        .open(SchedulerSettings::default())
        .await?;
    let mut stream = scheduler
        .synchronize(0, Some(until::Kind::Forever(api::Unit {})))
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

fn between(calm: &Calm, from: Option<Instant>, to: Option<Instant>) -> Vec<f64> {
    let within = |at: &Instant| from.is_none_or(|from| *at >= from) && to.is_none_or(|to| *at < to);
    calm.iter()
        .filter(|(at, _)| within(at))
        .map(|(_, took)| *took)
        .collect()
}

/// Seconds from `end` until the end of the last stretch of time in which one task in ten took more
/// than twice the usual 99th percentile: of the hundred tasks of a stretch the slowest says
/// nothing.
fn recovery(calm: &Calm, end: Instant, usual: f64) -> f64 {
    let windows = (AFTER.as_secs_f64() / WINDOW_AFTER.as_secs_f64()) as u32;
    let slow = (0..windows).rev().find(|window| {
        let from = end + WINDOW_AFTER * *window;
        at(&between(calm, Some(from), Some(from + WINDOW_AFTER)), 0.90) > 2.0 * usual
    });
    slow.map_or(0.0, |last| (WINDOW_AFTER * (last + 1)).as_secs_f64())
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
