//! What idle open schedulers cost: statements, memory, and the speed of a task in any of them
//! against the same task on an empty server.

use crate::{
    environment::Environment,
    paired::{self, PairedRuns},
    report::{Report, median},
    series::Measured,
};
use anyhow::Result;
use rallypoint::core::model::limits::Limits;
use rallypoint_client::{Client, Scheduler, api::SchedulerSettings};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

/// Open schedulers at each step.
const STEPS: [u64; 4] = [1_000, 10_000, 30_000, 100_000];
const PER_CALL: u64 = 100;
const CALLERS: u64 = 64;
const ONE_BY_ONE: usize = 1_000;
/// How long statements are counted while there are no calls.
const IDLE: Duration = Duration::from_secs(30);
/// Time until idle schedulers have been recorded as quiesced.
const SETTLED: Duration = Limits::DEFAULT
    .quiesce_after
    .saturating_mul(2)
    .saturating_add(Limits::DEFAULT.quiesce_interval.saturating_mul(3));

pub(crate) async fn run(total: u64, most: u64, runs: usize) -> Result<Measured> {
    let environment =
        Environment::with(&[("shared_preload_libraries", "pg_stat_statements")]).await?;
    let empty = environment
        .server(&environment.database("bench_empty").await?)
        .await?;
    let loaded = environment
        .server(&environment.database("bench_loaded").await?)
        .await?;
    let few = open(&empty.address, CALLERS).await?;
    let mut many = open(&loaded.address, CALLERS).await?;
    for schedulers in [&few, &many] {
        drive(schedulers, 0, total / 4).await?;
    }
    let (mut points, mut last, mut before) =
        (Vec::new(), PairedRuns::default(), None::<(u64, f64)>);
    for step in STEPS.into_iter().filter(|step| *step <= most) {
        many.extend(open(&loaded.address, step - many.len() as u64).await?);
        let resident = loaded.usage()?.resident;
        environment.checkpoint().await?;
        last = measure(&few, &many, 2 * runs + 1, total).await?;
        let mut point = last.point(step);
        // Per scheduler opened since the last step: the first ones reuse memory the load has freed.
        let bytes = before
            .replace((step, resident))
            .map_or(f64::NAN, |(opened, used)| {
                (resident - used) / (step - opened) as f64
            });
        point.values.push(("bytes_per_scheduler", bytes));
        points.push(point);
    }
    drop(empty);
    tokio::time::sleep(SETTLED).await;
    let per_s = statements(&environment).await?;
    let bytes = points
        .last()
        .and_then(|point| point.values.last())
        .map_or(f64::NAN, |(_, bytes)| *bytes);
    let report = report(last, many.len(), total, per_s, bytes);
    Ok(Measured {
        report,
        by: "open_schedulers",
        points,
    })
}

/// Opens `count` schedulers.
pub(super) async fn open(address: &str, count: u64) -> Result<Vec<Scheduler>> {
    let client = Client::connect(address).await?;
    let left = Arc::new(AtomicU64::new(count));
    let mut opening = JoinSet::new();
    for _ in 0..CALLERS {
        let (client, left) = (client.clone(), left.clone());
        opening.spawn(async move {
            let mut opened = Vec::new();
            while left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    left.checked_sub(1)
                })
                .is_ok()
            {
                opened.push(client.open(SchedulerSettings::default()).await?);
            }
            Ok::<_, rallypoint_client::Error>(opened)
        });
    }
    let mut all = Vec::with_capacity(count as usize);
    while let Some(opened) = opening.join_next().await {
        all.extend(opened??);
    }
    Ok(all)
}

/// Turn by turn: the rate over 64 newly picked schedulers, then single tasks, each in another
/// scheduler.
async fn measure(
    few: &[Scheduler],
    many: &[Scheduler],
    turns: usize,
    total: u64,
) -> Result<PairedRuns> {
    let mut paired_runs = PairedRuns::default();
    for turn in 0..turns {
        let mut sides = [
            (few, &mut paired_runs.empty),
            (many, &mut paired_runs.loaded),
        ];
        sides.rotate_left(turn % 2);
        for (schedulers, side) in sides {
            let rate = drive(schedulers, turn, total).await?;
            side.add(rate, &one_by_one(schedulers, turn).await?);
        }
    }
    Ok(paired_runs)
}

/// Tasks per second when 64 schedulers, spread over all, get `total` no-op tasks at once.
async fn drive(schedulers: &[Scheduler], turn: usize, total: u64) -> Result<f64> {
    let calls = total / CALLERS / PER_CALL;
    let start = Instant::now();
    let mut driving = JoinSet::new();
    for caller in 0..CALLERS as usize {
        let scheduler = spread(schedulers, turn * 64 + caller).clone();
        driving.spawn(async move {
            let after = scheduler.describe().await?.done;
            for call in 0..calls {
                scheduler
                    .exec(
                        (call * PER_CALL..(call + 1) * PER_CALL)
                            .map(crate::load::task)
                            .collect(),
                    )
                    .await?;
            }
            let mut stream = scheduler.synchronize(after, None).await?;
            while stream.next().await?.is_some() {}
            Ok::<_, rallypoint_client::Error>(())
        });
    }
    while let Some(ended) = driving.join_next().await {
        ended??;
    }
    Ok((calls * PER_CALL * CALLERS) as f64 / start.elapsed().as_secs_f64())
}

/// Microseconds of single tasks, each in another scheduler: submit, then wait on a new stream.
async fn one_by_one(schedulers: &[Scheduler], turn: usize) -> Result<Vec<f64>> {
    let mut latencies = Vec::with_capacity(ONE_BY_ONE);
    for number in 0..ONE_BY_ONE {
        let scheduler = spread(schedulers, turn * ONE_BY_ONE + number);
        let task = crate::load::task(number as u64);
        let start = Instant::now();
        let submitted = scheduler.exec(vec![task]).await?;
        let mut stream = scheduler.synchronize(submitted.done_no, None).await?;
        while stream.next().await?.is_some() {}
        latencies.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(latencies)
}

/// Picks schedulers that are far apart.
fn spread(schedulers: &[Scheduler], number: usize) -> &Scheduler {
    &schedulers[number.wrapping_mul(7_919) % schedulers.len()]
}

/// Statements per second of the server while there are no calls; those of this bench do not count.
async fn statements(environment: &Environment) -> Result<f64> {
    let mut admin = environment.admin().await?;
    sqlx::query("create extension if not exists pg_stat_statements")
        .execute(&mut admin)
        .await?;
    sqlx::query("select pg_stat_statements_reset()")
        .execute(&mut admin)
        .await?;
    let start = Instant::now();
    tokio::time::sleep(IDLE).await;
    let calls = "select coalesce(sum(calls), 0)::float8 from pg_stat_statements \
                 where userid <> current_user::regrole";
    let calls: f64 = sqlx::query_scalar(calls).fetch_one(&mut admin).await?;
    Ok(calls / start.elapsed().as_secs_f64())
}

fn report(
    last: PairedRuns,
    open: usize,
    total: u64,
    statements_per_s: f64,
    bytes_per_scheduler: f64,
) -> Report {
    let (figure, baseline) = (median(&last.loaded.rates), median(&last.empty.rates));
    let (p50, empty_p50) = (median(&last.loaded.p50s), median(&last.empty.p50s));
    let (p99, empty_p99) = (median(&last.loaded.p99s), median(&last.empty.p99s));
    Report {
        name: "schedulers",
        figure,
        unit: "tasks/s",
        baseline: (
            "the same load on an empty server beside it, turn by turn",
            baseline,
        ),
        ratio: paired::ratio(&last.loaded.rates, &last.empty.rates),
        also: vec![
            ("statements_per_s", statements_per_s),
            ("bytes_per_scheduler", bytes_per_scheduler),
            ("p50_us", p50),
            ("empty_p50_us", empty_p50),
            (
                "p50_ratio",
                paired::ratio(&last.loaded.p50s, &last.empty.p50s),
            ),
            ("p99_us", p99),
            ("empty_p99_us", empty_p99),
            (
                "p99_ratio",
                paired::ratio(&last.loaded.p99s, &last.empty.p99s),
            ),
        ],
        runs: last.loaded.rates,
        ran: format!(
            "{open} schedulers open; {total} no-op tasks, 100 a call, in 64 of them at a time; \
             {ONE_BY_ONE} one at a time, each in another scheduler, from the call to the end of \
             its stream; then 30 s without a call"
        ),
    }
}
