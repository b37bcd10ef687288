//! What survives a crash.

use super::world::{NONE, World, error, free, on_failure, order, plain};
use crate::core::{AttemptEvent, OnFailure, Outcome, Report, Unreported, model::limits::Limits};

#[test]
fn orders_limits_and_numbers_go_on_after_a_crash() {
    let mut w = World::new(10);
    let s = w.open(|settings| settings.max_parallelism = Some(2));
    w.submit(s, [order(1), order(1), order(1), order(2)]);
    w.succeed(s, [2]);
    w.crash();
    assert_eq!(w.running(s), [1, 3]);
    w.succeed(s, [3, 1, 4]);
    assert_eq!(
        w.outcomes(s)
            .iter()
            .map(|(seq, _)| *seq)
            .collect::<Vec<_>>(),
        [2, 3, 1, 4]
    );
    assert_eq!(w.submit(s, [order(1)]), 5);
}

#[test]
fn a_task_that_may_have_run_is_numbered_from_two() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [free(), free()]);
    w.crash();
    assert_eq!(w.attempt(s, 1), 2);
    w.succeed(s, [1]);
    assert_eq!(w.attempt(s, 2), 1, "one slot, one task in doubt");
}

#[test]
fn a_task_that_kills_its_host_ends_exhausted() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [order(1), order(2)]);
    for life in 0..10 {
        if w.outcome(s, 1).is_some() {
            break;
        }
        assert!(life < 9, "it is started again and again");
        w.seconds(60.0);
        w.crash();
        w.commands([]);
    }
    assert_eq!(w.outcome(s, 1), Some(Outcome::Exhausted));
    let lost = w
        .remembered
        .attempts(s, 1)
        .iter()
        .filter(|a| matches!(a.what, AttemptEvent::Lost { .. }))
        .count();
    assert_eq!(
        lost, 2,
        "the log tells of the lost attempts before the last one"
    );
}

#[test]
fn attempts_that_never_began_do_not_exhaust_a_task() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [free()]);
    for _ in 0..2 {
        w.crash();
        for _ in 0..5 {
            w.report(s, 1, Report::NotStarted);
        }
    }
    w.succeed(s, [1]);
    assert_eq!(w.outcomes(s), [(1, Outcome::Succeeded)]);
}

#[test]
fn retries_and_their_counts_survive_a_crash() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [free().with(|o| o.retry.max_attempts = Some(3))]);
    w.fail(s, 1);
    w.crash();
    assert_eq!(w.running(s), NONE, "it still waits");
    w.seconds(2.0);
    assert_eq!(w.attempt(s, 1), 2);
    w.fail(s, 1);
    w.crash();
    w.seconds(5.0);
    w.fail(s, 1);
    assert_eq!(w.outcomes(s), [(1, Outcome::Failed)]);
}

#[test]
fn a_retry_that_was_recorded_by_a_clock_days_ahead_waits_no_longer_than_its_policy_says() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [free().with(|o| o.retry.max_attempts = Some(2))]);
    w.fail(s, 1);
    // The next owner goes by a clock that has been set right.
    w.crash_and_set_back(std::time::Duration::from_secs(86_400));
    w.seconds(300.0);
    assert_eq!(w.attempt(s, 1), 2);
}

#[test]
fn attempts_are_told_apart_by_their_numbers_when_a_later_clock_was_behind() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(
        s,
        [free().with(|o| o.delivery = Some(crate::core::Delivery::AtMostOnce))],
    );
    w.call(s, crate::core::Verb::Pause);
    // The next owner's clock is behind, and nothing was lost on the way.
    w.now = w.now - std::time::Duration::from_secs(1);
    w.running.clear();
    w.take_over();
    w.clear(Unreported::NotBegun);
    assert_eq!(w.view(s).counts.running, 0);
    w.take_over();
    assert_eq!(w.view(s).counts.running, 0, "it was given back");
    w.clear(Unreported::MayHaveBegun);
    assert_eq!(w.outcomes(s), []);
}

#[test]
fn a_task_that_was_being_cancelled_when_its_host_died_is_cancelled() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [order(1), order(2)]);
    w.cancel(s, 1);
    w.crash();
    assert_eq!(w.outcomes(s), [(1, Outcome::Cancelled)]);
    assert_eq!(w.running(s), [2]);
}

#[test]
fn a_lost_at_most_once_task_halts_like_any_failure() {
    let mut w = World::new(10);
    let s = w.open(on_failure(OnFailure::Halt));
    w.submit(
        s,
        [
            order(1).with(|o| o.delivery = Some(crate::core::Delivery::AtMostOnce)),
            order(2),
        ],
    );
    w.crash();
    assert_eq!(w.outcomes(s), [(1, Outcome::Exhausted)]);
    assert_eq!(w.running(s), NONE);
}

#[test]
fn running_attempts_survive_a_rebuild_of_the_core() {
    let mut w = World::new(2);
    let s = w.open(|settings| settings.max_parallelism = Some(2));
    w.submit(
        s,
        [
            order(1),
            order(1).with(|o| o.retry.max_attempts = Some(2)),
            order(1),
            order(2),
        ],
    );
    w.fail(s, 2);
    w.seconds(1.5);
    w.rebuild();
    assert_eq!(
        w.running(s),
        [1, 3],
        "nothing is started twice and the limit holds"
    );
    w.succeed(s, [1, 3]);
    w.rebuild();
    assert_eq!((w.running(s), w.attempt(s, 2)), (vec![2], 2));
    w.seconds(1.0);
    w.report(
        s,
        2,
        Report::Failed {
            error: error("22012"),
            transient: false,
        },
    );
    assert_eq!(w.outcome(s, 2), Some(Outcome::Failed));
    assert_eq!(w.running(s), [4]);
}

#[test]
fn attempts_without_a_row_survive_a_rebuild_whatever_their_order() {
    let mut w = World::new(10);
    let s = w.open(plain);
    w.submit(s, [order(1), order(1), free(), order(2)]);
    w.rebuild();
    assert_eq!(
        (w.running(s), w.view(s).counts.running),
        (vec![1, 2, 3], 3),
        "nothing is started twice"
    );
    w.succeed(s, [1, 2, 3, 4]);
    assert_eq!(w.outcomes(s).len(), 4);
}

#[test]
fn recovery_from_a_checkpoint_knows_the_holes() {
    let mut w = World::new(0);
    let s = w.open(plain);
    w.submit(s, [free(), free()]);
    let half = Limits::DEFAULT.checkpoint_tasks as usize / 2;
    for _ in 0..2 {
        w.submit(s, vec![free().noop(); half]);
    }
    while w.running.first().is_some_and(|a| a.first.0 > 0) {
        let first = w.running[0].first.0;
        w.succeed(s, [first]);
    }
    assert!(w.remembered.checkpoints > 0);
    w.submit(s, [free()]);
    w.crash();
    assert_eq!(w.progress(s).pending, 3);
    w.set_slots(5);
    assert_eq!(
        w.running(s),
        [1, 2, 3 + i64::from(Limits::DEFAULT.checkpoint_tasks)]
    );
}

#[test]
fn an_attempt_that_is_to_be_stopped_is_stopped_after_a_rebuild_too() {
    let mut w = World::new(2);
    let s = w.open(plain);
    w.submit(s, [free()]);
    w.cancel(s, 1);
    w.stops.clear();
    w.rebuild();
    assert_eq!(w.stops, [(1, 1)], "its executor may not have received it");
    w.report(s, 1, Report::Stopped);
    assert_eq!(w.outcomes(s), [(1, Outcome::Cancelled)]);
}

#[test]
fn a_report_that_was_durable_before_a_rebuild_is_not_taken_in_twice() {
    let mut w = World::new(2);
    let s = w.open(plain);
    w.submit(s, [free().with(|o| o.retry.max_attempts = Some(5))]);
    let running = w.running.clone();
    w.fail(s, 1);
    w.running = running;
    w.rebuild();
    w.fail(s, 1);
    assert_eq!(w.view(s).counts.retrying, 1);
    w.seconds(2.0);
    assert_eq!(w.attempt(s, 1), 2);
}

#[test]
fn after_a_crash_the_first_tasks_with_an_order_and_the_first_without_are_in_doubt() {
    let mut w = World::new(2);
    let s = w.open(plain);
    w.submit(s, [order(1), order(2), order(2), free(), free()]);
    w.succeed(s, [1]);
    w.crash();
    let attempts: Vec<i32> = w
        .running(s)
        .into_iter()
        .map(|seq| w.attempt(s, seq))
        .collect();
    assert_eq!(attempts, [2, 2]);
    w.succeed(s, [2, 3]);
    assert_eq!((w.attempt(s, 4), w.attempt(s, 5)), (2, 2));
}

#[test]
fn after_a_cancel_release_nothing_starts_again() {
    let mut w = World::new(2);
    let s = w.open(plain);
    w.submit(s, vec![free().noop(); 3]);
    w.release(s, crate::core::ReleaseMode::Cancel);
    w.crash();
    assert_eq!(w.running(s), NONE);
    assert_eq!(w.outcomes(s).len(), 3);
}
