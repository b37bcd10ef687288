//! Fair shares on five slots: a newcomer starts at once though the pool is flooded; equal backlogs
//! get equal slot time, weighted ones in proportion; and a namespace gets its half however many
//! schedulers the other one has.
//!
//! Shares are read from the log, over the time in which all still had a backlog. FULL=1: full size.

use crate::harness::{
    conversation::{Conversation, WAIT_TIMEOUT},
    gate::Gate,
    log::Log,
    server::{Server, Setup},
    work::{Work, sleep},
};
use rallypoint_client::{Client, api::SchedulerSettings};

#[tokio::test]
async fn a_newcomer_starts_at_once_while_others_flood_the_pool() {
    let server = Server::start().await;
    let flood = server.open(SchedulerSettings::default()).await;
    flood.submit(sleep(10_000).times(100)).await;
    flood.until(|now| now.running == 4).await;
    let newcomer = server.open(SchedulerSettings::default()).await;
    newcomer.submit([sleep(1)]).await;
    newcomer.all_done().await;
    flood.cancel_everything().await;
    let log = server.log().await;
    let (short, long) = (
        log.of(newcomer.handle()).0.remove(0),
        log.of(flood.handle()),
    );
    let (submitted, started) = (short.submitted, short.started.expect("it ran"));
    println!("start delay of the newcomer: {} µs", started - submitted);
    assert!(
        long.0
            .iter()
            .filter(|entry| entry.started.is_some())
            .all(|entry| entry.ended > Some(started))
    );
    assert!(started - submitted < WAIT_TIMEOUT.as_micros() as i64);
}

#[tokio::test]
async fn newcomers_one_after_the_other_each_start_while_others_flood_the_pool() {
    let server = Server::start().await;
    let flood = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    flood.submit(gate.task().times(100)).await;
    flood.until(|now| now.running == 4).await;
    let mut delays = Vec::new();
    for _ in 0..20 {
        let newcomer = server.open(SchedulerSettings::default()).await;
        newcomer.submit([sleep(1)]).await;
        newcomer.all_done().await;
        let entry = newcomer.log().await.0.remove(0);
        delays.push(entry.started.expect("it ran") - entry.submitted);
    }
    delays.sort_unstable();
    println!(
        "start delay of 20 newcomers: median {} µs, longest {} µs",
        delays[10], delays[19]
    );
    assert_eq!(flood.scheduler.describe().await.expect("described").done, 0);
    gate.open().await;
    flood.cancel_everything().await;
}

#[tokio::test]
async fn equal_backlogs_get_equal_slot_time() {
    let used = shares(&[1.0; 6]).await;
    let (least, most) = (
        used.iter().copied().fold(f64::MAX, f64::min),
        used.iter().copied().fold(0.0, f64::max),
    );
    println!(
        "slot-seconds of six equals: {used:.2?}; the least has {:.1} % less than the most",
        (1.0 - least / most) * 100.0
    );
    assert!(most - least < most * 0.1 + allowance(1.0), "{used:?}");
}

#[tokio::test]
async fn weights_of_1_and_3_get_slot_time_of_1_and_3() {
    let used = shares(&[1.0, 3.0, 1.0, 3.0, 1.0, 3.0]).await;
    let light: f64 = used.iter().step_by(2).sum::<f64>() / 3.0;
    let heavy: f64 = used.iter().skip(1).step_by(2).sum::<f64>() / 3.0;
    println!(
        "slot-seconds of weights 1 and 3 in turn: {used:.2?}; on average 1 : {:.2}",
        heavy / light
    );
    assert!(
        (heavy / 3.0 - light).abs() < light * 0.1 + allowance(1.0),
        "{used:?}"
    );
}

#[tokio::test]
async fn a_single_scheduler_gets_half_against_a_namespace_of_many() {
    let (many, tasks) = if full() { (1000, 2000) } else { (100, 160) };
    let server = Server::with(Setup {
        trusted: true,
        ..Setup::default()
    })
    .await;
    let (crowd, single) = (server.of_namespace("crowd"), server.of_namespace("single"));
    let (pool, gate) = occupied(&server).await;
    for _ in 0..many {
        busy(&server, &crowd, 1.0, sleep(50).times(5)).await;
    }
    let single = busy(&server, &single, 1.0, sleep(50).times(tasks)).await;
    gate.open().await;
    single.all_done().await;
    let (log, from) = (server.log().await, freed(&pool).await);
    let alone = log.of(single.handle());
    let to = alone.starts().1;
    let (all, alone) = (log.slot_seconds(from, to), alone.slot_seconds(from, to));
    let others = all - alone;
    println!(
        "slot-seconds of {many} schedulers: {others:.2}, of a single one: {alone:.2} ({:.1} %)",
        alone / all * 100.0
    );
    assert!(
        (others - alone).abs() < all * 0.1 + allowance(5.0),
        "{others} against {alone}"
    );
}

/// Slot-seconds of schedulers with these weights and equal backlogs, while all of them had a
/// backlog.
async fn shares(weights: &[f64]) -> Vec<f64> {
    let server = Server::start().await;
    let (pool, gate) = occupied(&server).await;
    let mut schedulers = Vec::new();
    for (n, weight) in weights.iter().enumerate() {
        schedulers.push(busy(&server, &server.client, *weight, mixed(n)).await);
    }
    gate.open().await;
    for scheduler in &schedulers {
        scheduler.all_done().await;
    }
    let (log, from) = (server.log().await, freed(&pool).await);
    let logs: Vec<Log> = schedulers
        .iter()
        .map(|scheduler| log.of(scheduler.handle()))
        .collect();
    let to = logs
        .iter()
        .map(|log| log.starts().1)
        .min()
        .expect("schedulers");
    logs.iter().map(|log| log.slot_seconds(from, to)).collect()
}

/// A scheduler that occupies the pool until the gate opens, so that all others begin together.
async fn occupied(server: &Server) -> (Conversation, Gate) {
    let gate = server.gate().await;
    let pool = server.open(SchedulerSettings::default()).await;
    pool.submit(gate.task().times(4)).await;
    pool.until(|now| now.running == 4).await;
    (pool, gate)
}

/// The time at which the pool became free.
async fn freed(pool: &Conversation) -> i64 {
    pool.log()
        .await
        .0
        .iter()
        .filter_map(|entry| entry.ended)
        .max()
        .expect("it has ended")
}

/// Slot-seconds by which a scheduler may be ahead in a short run, besides what runs: what is
/// charged in advance is an estimate.
fn allowance(seconds: f64) -> f64 {
    if full() { 0.0 } else { seconds + 0.5 }
}

/// Eighty tasks of 0.1 s to 2 s (a tenth of that without FULL), the same for each scheduler but in
/// a sequence of its own.
fn mixed(nth: usize) -> Vec<Work> {
    let unit = if full() { 100 } else { 10 };
    // 7 and 80 have no common factor: every length from 1 to 20 units comes four times.
    (0..80)
        .map(|n| sleep((((n + 13 * nth) * 7 % 80) / 4 + 1) as u64 * unit))
        .collect()
}

async fn busy(server: &Server, client: &Client, weight: f64, backlog: Vec<Work>) -> Conversation {
    let scheduler = server
        .open_as(
            client,
            SchedulerSettings {
                weight: Some(weight),
                ..Default::default()
            },
        )
        .await;
    scheduler.submit(backlog).await;
    scheduler
}

fn full() -> bool {
    std::env::var("FULL").is_ok_and(|full| full == "1")
}
