//! Attempts, retries and losses.

use super::world::{Cancelling, NONE, World, error, free, order, plain};
use crate::core::{AttemptEvent, Cancel, Delivery, Outcome, Report, Seq, TaskRef, Verb};
use std::sync::Arc;

#[test]
fn a_failed_attempt_is_repeated_after_its_backoff_up_to_max_attempts() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(
        s,
        [free().with(|o| (o.retry.max_attempts, o.retry.jitter) = (Some(3), Some(0.0)))],
    );
    w.fail(s, 1);
    w.seconds(0.99);
    assert_eq!(w.running(s), NONE);
    w.seconds(0.02);
    assert_eq!(w.attempt(s, 1), 2);
    w.fail(s, 1);
    w.seconds(1.9);
    assert_eq!(w.running(s), NONE, "the second wait is twice as long");
    w.seconds(0.2);
    w.fail(s, 1);
    assert_eq!(w.outcomes(s), [(1, Outcome::Failed)]);
}

#[test]
fn an_error_that_must_not_be_retried_ends_the_task_at_once() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(
        s,
        [free().with(|o| {
            (o.retry.max_attempts, o.retry.non_retryable) = (Some(9), vec!["42601".into()])
        })],
    );
    w.fail(s, 1);
    assert_eq!(w.outcomes(s), [(1, Outcome::Failed)]);
}

#[test]
fn losses_have_a_limit_of_their_own_and_end_exhausted() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(s, [order(1)]);
    for _ in 0..2 {
        w.lose(s, 1);
        w.seconds(10.0);
    }
    assert_eq!(w.attempt(s, 1), 3);
    w.lose(s, 1);
    assert_eq!(w.outcomes(s), [(1, Outcome::Exhausted)]);
}

#[test]
fn an_attempt_that_never_began_counts_as_none() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(s, [free()]);
    for _ in 0..10 {
        w.report(s, 1, Report::NotStarted);
    }
    assert_eq!(w.attempt(s, 1), 1);
    w.succeed(s, [1]);
    assert_eq!(w.outcomes(s), [(1, Outcome::Succeeded)]);
}

#[test]
fn an_attempt_that_was_handed_back_half_way_keeps_its_number() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(s, [free()]);
    w.report(s, 1, Report::Stopped);
    assert_eq!(w.attempt(s, 1), 2);
}

#[test]
fn at_most_once_is_recorded_before_it_starts_and_never_repeated() {
    let mut w = World::new(100);
    let s = w.open(plain);
    let once = || {
        free().with(|o| (o.delivery, o.retry.max_attempts) = (Some(Delivery::AtMostOnce), Some(5)))
    };
    w.submit(s, [once(), once(), once(), once()]);
    assert_eq!(w.remembered.attempts(s, 1)[0].what, AttemptEvent::Start);
    w.fail(s, 1);
    w.lose(s, 2);
    w.report(s, 3, Report::Stopped);
    w.crash();
    w.seconds(600.0);
    assert_eq!(w.running(s), NONE);
    let ends = [
        (1, Outcome::Failed),
        (2, Outcome::Exhausted),
        (3, Outcome::Exhausted),
        (4, Outcome::Exhausted),
    ];
    assert_eq!(w.outcomes(s), ends);
}

#[test]
fn at_most_once_may_start_when_its_attempt_never_began() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(
        s,
        [free().with(|o| o.delivery = Some(Delivery::AtMostOnce))],
    );
    w.report(s, 1, Report::NotStarted);
    assert_eq!(w.attempt(s, 1), 2);
}

#[test]
fn a_stale_report_changes_nothing() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(s, [free().with(|o| o.retry.max_attempts = Some(2))]);
    w.fail(s, 1);
    w.seconds(2.0);
    let stale = w.stale(s, 1, 1, Report::Succeeded(None));
    w.command(crate::core::Command::Completed(vec![stale.clone(), stale]));
    assert_eq!(w.outcomes(s), []);
    assert_eq!(w.attempt(s, 1), 2);
}

#[test]
fn a_second_attempt_is_on_record_before_it_starts() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(s, [free().with(|o| o.retry.max_attempts = Some(5))]);
    w.fail(s, 1);
    w.seconds(2.0);
    assert_eq!(w.attempt(s, 1), 2);
    w.crash();
    assert_eq!(w.attempt(s, 1), 3, "a number is never given twice");
}

#[test]
fn a_task_that_is_being_stopped_is_counted_once_by_filters() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [free(), free()]);
    let place = |seq| TaskRef {
        seq: Seq(seq),
        order: None,
    };
    let by_filter = || Cancel {
        filter: Some("all".into()),
        ..Cancel::one(place(1))
    };
    assert_eq!(w.cancel_tasks(s, by_filter()), (0, 1));
    assert_eq!(w.cancel_tasks(s, by_filter()), (0, 0), "it was counted");
    assert_eq!(w.cancel(s, 1), Cancelling::Stopping, "it has not ended");
}

#[test]
fn a_waiting_a_running_and_an_ended_task_can_be_cancelled() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [free(), free()]);
    assert_eq!(w.cancel(s, 2), Cancelling::Cancelled);
    assert_eq!(w.outcomes(s), [(2, Outcome::Cancelled)]);
    assert_eq!(w.cancel(s, 1), Cancelling::Stopping);
    assert_eq!(
        w.cancel(s, 1),
        Cancelling::Stopping,
        "asking again is no error"
    );
    assert_eq!(w.stops, [(1, 1)]);
    w.report(
        s,
        1,
        Report::Failed {
            error: error("57014"),
            transient: true,
        },
    );
    assert_eq!(w.outcome(s, 1), Some(Outcome::Cancelled));
    assert_eq!(w.cancel(s, 1), Cancelling::Ended);
}

#[test]
fn a_task_that_succeeds_before_it_is_stopped_has_succeeded() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [free()]);
    w.cancel(s, 1);
    w.succeed(s, [1]);
    assert_eq!(w.outcomes(s), [(1, Outcome::Succeeded)]);
}

#[test]
fn a_task_that_waits_for_its_retry_can_be_cancelled() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [free().with(|o| o.retry.max_attempts = Some(2))]);
    w.fail(s, 1);
    assert_eq!(w.view(s).counts.retrying, 1);
    assert_eq!(w.cancel(s, 1), Cancelling::Cancelled);
    w.seconds(5.0);
    assert_eq!(w.running(s), NONE);
}

#[test]
fn an_unknown_task_cannot_be_cancelled() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [free()]);
    for seq in [-1, 0, 2] {
        let cancel = Cancel::one(w.remembered.place(s, seq));
        let reply = w.call(s, Verb::Cancel(Arc::new(cancel)));
        assert!(
            matches!(
                reply,
                crate::core::Reply::Rejected(crate::core::Reject::UnknownTask)
            ),
            "{reply:?}"
        );
    }
}
