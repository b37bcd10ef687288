//! Who gets the slots, in exact virtual time.

pub(super) mod executors;
mod past;

use super::world::{World, free, plain};
use crate::core::Handle;
use executors::{Pool, submit_in};
use std::time::Duration;

/// 0.1 to 2 s, mixed differently for every scheduler.
fn mixed(handle: Handle, seq: i64) -> Duration {
    let salt = handle.uuid().as_u128() as u64 ^ (handle.uuid().as_u128() >> 64) as u64;
    let hash = (seq as u64 ^ salt)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    Duration::from_millis(100 + (hash >> 33) % 1_901)
}

#[track_caller]
fn assert_within(share: f64, expected: f64, tolerance: f64, all: &[f64]) {
    assert!(
        (share / expected - 1.0).abs() < tolerance,
        "{share} instead of {expected}, all: {all:?}"
    );
}

#[test]
fn a_newcomer_starts_at_once_while_another_floods_the_pool_with_long_tasks() {
    let mut w = World::new(5);
    let flood = w.open(plain);
    w.submit(flood, vec![free(); 100]);
    w.seconds(3.0);
    assert_eq!(w.running(flood).len(), 4, "one slot is kept in reserve");
    let newcomer = w.open(plain);
    w.submit(newcomer, [free()]);
    assert_eq!(w.running(newcomer), [1]);
}

#[test]
fn a_newcomer_of_another_namespace_starts_at_once_too() {
    let mut w = World::new(20);
    let flood = [
        w.open_in("flood", plain),
        w.open_in("flood", plain),
        w.open_in("flood", plain),
    ];
    for s in flood {
        w.command(submit_in("flood", s, 100));
    }
    let newcomer = w.open(plain);
    w.submit(newcomer, [free()]);
    assert_eq!(w.running(newcomer), [1]);
}

#[test]
fn six_schedulers_with_equal_backlogs_get_equal_slot_time_and_none_starves() {
    let mut pool = Pool::new(5, mixed);
    let all: Vec<Handle> = (0..6).map(|_| pool.world.open(plain)).collect();
    for s in &all {
        pool.world.submit(*s, vec![free(); 400]);
    }
    let mut before = vec![0.0; 6];
    for _ in 0..20 {
        pool.run(Duration::from_secs(10));
        let now = pool.seconds(&all);
        assert!(
            now.iter()
                .zip(&before)
                .all(|(now, before)| now - before > 3.0),
            "somebody starves: {before:?} → {now:?}"
        );
        before = now;
    }
    let (least, most) = (
        before.iter().copied().fold(f64::MAX, f64::min),
        before.iter().copied().fold(0.0, f64::max),
    );
    assert!(most / least < 1.10, "{before:?}");
    assert_within(before.iter().sum(), 5.0 * 200.0, 0.01, &before);
}

#[test]
fn weights_of_one_to_three_give_slot_time_of_one_to_three() {
    let mut pool = Pool::new(5, mixed);
    let weights = [1.0, 3.0, 1.0, 3.0, 1.0, 3.0];
    let all: Vec<Handle> = weights
        .iter()
        .map(|weight| pool.world.open(|settings| settings.weight = *weight))
        .collect();
    for s in &all {
        pool.world.submit(*s, vec![free(); 1000]);
    }
    pool.run(Duration::from_secs(300));
    let seconds = pool.seconds(&all);
    let sum: f64 = seconds.iter().sum();
    assert!(
        sum >= 4.0 * 300.0,
        "all slots but the reserve are busy: {sum}"
    );
    for (share, weight) in seconds.iter().zip(weights) {
        assert_within(*share, sum * weight / 12.0, 0.10, &seconds);
    }
}

#[test]
fn a_namespace_with_a_thousand_busy_schedulers_and_one_with_a_single_one_get_half_each() {
    let mut pool = Pool::new(20, mixed);
    let many: Vec<Handle> = (0..1000)
        .map(|_| pool.world.open_in("many", plain))
        .collect();
    let single = pool.world.open_in("single", plain);
    pool.world
        .commands(many.iter().map(|s| submit_in("many", *s, 20)));
    pool.world.command(submit_in("single", single, 5_000));
    pool.run(Duration::from_secs(200));
    let (one, all) = (
        pool.seconds(&[single])[0],
        pool.seconds(&many).iter().sum::<f64>(),
    );
    assert!(
        one + all >= 18.0 * 200.0,
        "all slots but the reserve are busy: {one} + {all}"
    );
    assert_within(one, (one + all) / 2.0, 0.05, &[one, all]);
}

#[test]
fn one_who_returns_gets_its_share_and_no_arrears() {
    let mut pool = Pool::new(4, |_, _| Duration::from_secs(1));
    let (a, b) = (pool.world.open(plain), pool.world.open(plain));
    pool.world.submit(a, vec![free(); 1000]);
    pool.run(Duration::from_secs(100));
    pool.world.submit(b, vec![free(); 1000]);
    let before = pool.seconds(&[a])[0];
    pool.run(Duration::from_secs(50));
    let seconds = pool.seconds(&[a, b]);
    // One of the four slots is the reserve.
    assert_within(seconds[0] - before, 75.0, 0.05, &seconds);
    assert_within(seconds[1], 75.0, 0.05, &seconds);
}

#[test]
fn waiting_in_a_slot_for_a_session_costs_as_much_as_running() {
    let mut pool = Pool::new(4, |_, _| Duration::from_millis(500));
    let (waits, runs) = (pool.world.open(plain), pool.world.open(plain));
    pool.without_session.insert(waits);
    for s in [waits, runs] {
        pool.world.submit(s, vec![free(); 1000]);
    }
    pool.run(Duration::from_secs(50));
    let seconds = pool.seconds(&[waits, runs]);
    // One of the four slots is the reserve.
    assert_within(seconds[1], 75.0, 0.05, &seconds);
}
