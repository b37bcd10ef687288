//! `max_parallelism`, pause and slots.

use super::world::{NONE, World, free, order, plain};
use crate::core::{Phase, Reply, Seq, Verb};

#[test]
fn never_more_tasks_run_than_max_parallelism() {
    let mut w = World::new(100);
    let s = w.open(|settings| settings.max_parallelism = Some(3));
    w.submit(s, vec![free(); 10]);
    for seq in 1..=10 {
        assert_eq!(w.running(s).len(), 3.min(11 - seq as usize));
        w.succeed(s, [seq]);
    }
}

#[test]
fn lowering_the_limit_kills_nothing_drains_and_says_how_many_are_surplus() {
    let mut w = World::new(100);
    let s = w.open(|settings| settings.max_parallelism = Some(4));
    w.submit(s, vec![free(); 8]);
    assert_eq!(w.limit(s, Some(1)).surplus, 3);
    w.succeed(s, [1, 2]);
    assert_eq!(w.view(s).surplus, 1);
    assert_eq!(w.running(s), [3, 4]);
    assert!(w.stops.is_empty());
    w.succeed(s, [3]);
    assert_eq!(w.running(s), [4], "nothing new before it has drained");
    w.succeed(s, [4]);
    assert_eq!(w.running(s), [5]);
    w.limit(s, None);
    assert_eq!(w.running(s), [5, 6, 7, 8]);
}

#[test]
fn the_limit_holds_for_tasks_handed_out_together() {
    let mut w = World::new(0);
    let s = w.open(|settings| settings.max_parallelism = Some(3));
    w.submit(s, vec![free().noop(); 5]);
    assert_eq!(w.running(s), [1, 2, 3]);
    w.succeed(s, [1]);
    assert_eq!(w.running(s), [4, 5]);
}

#[test]
fn a_pause_starts_nothing_and_running_work_goes_on() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(s, [order(1), order(2)]);
    w.call(s, Verb::Pause);
    assert_eq!(w.running(s), [1]);
    w.succeed(s, [1]);
    assert_eq!(w.running(s), NONE);
    w.call(
        s,
        Verb::Resume {
            ignore_failures: false,
        },
    );
    assert_eq!(w.running(s), [2]);
}

#[test]
fn tasks_of_a_paused_scheduler_are_blocked_and_wait_for_no_slot() {
    let mut w = World::new(1);
    let (s, other) = (w.open(plain), w.open(plain));
    w.submit(s, [free(), free(), order(1)]);
    w.seconds(1.0);
    w.submit(other, [free()]);
    w.call(s, Verb::Pause);
    let counts = w.view(s).counts;
    assert_eq!((counts.queued, counts.blocked, counts.running), (0, 2, 1));
    let listed = |w: &mut World, phase| {
        let (before, order, limit) = (Seq(i64::MAX), None, 10);
        match w.call(
            s,
            Verb::Select {
                before,
                phases: vec![phase],
                order,
                limit,
            },
        ) {
            Reply::Selected { seqs, .. } => seqs,
            other => panic!("a list was answered with {other:?}"),
        }
    };
    assert_eq!(listed(&mut w, Phase::Blocked), [Seq(3), Seq(2)]);
    assert_eq!(listed(&mut w, Phase::Queued), []);
    let status = w.status();
    assert_eq!(
        (status.counts.queued, status.oldest_queued),
        (1, Some(w.now)),
        "the oldest one that waits for a slot"
    );
    w.call(
        s,
        Verb::Resume {
            ignore_failures: false,
        },
    );
    assert_eq!(w.view(s).counts.queued, 2);
}

#[test]
fn a_paused_scheduler_stays_paused_through_a_recovery() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.call(s, Verb::Pause);
    w.submit(s, [free()]);
    w.crash();
    assert_eq!(w.running(s), NONE);
    w.call(
        s,
        Verb::Resume {
            ignore_failures: false,
        },
    );
    assert_eq!(w.running(s), [1]);
}

#[test]
fn slots_are_never_exceeded_and_their_loss_kills_nothing() {
    let mut w = World::new(3);
    let s = w.open(plain);
    w.submit(s, vec![free(); 9]);
    assert_eq!(w.running(s), [1, 2, 3]);
    w.set_slots(1);
    assert_eq!(w.running(s), [1, 2, 3]);
    w.succeed(s, [1, 2]);
    assert_eq!(w.running(s), [3]);
    w.set_slots(2);
    assert_eq!(w.running(s), [3, 4]);
    w.set_slots(0);
    w.succeed(s, [3, 4]);
    assert_eq!(w.running(s), NONE);
}
