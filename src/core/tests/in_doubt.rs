//! What may still run somewhere after a takeover waits until it is known; nothing else does.

use super::world::{Cancelling, NONE, World, free, order, plain};
use crate::core::{AttemptEvent, Delivery, Outcome, ReleaseMode, Report, TaskOptions, Unreported};
use std::time::Duration;

#[test]
fn what_may_still_run_is_not_started_before_it_is_cleared_and_new_tasks_do_not_wait() {
    let mut w = World::new(2);
    let s = w.open(plain);
    w.submit(s, [free(), free(), free()]);
    w.running.clear();
    w.take_over();
    w.commands([]);
    assert_eq!(w.running(s), [3], "two slots, two in doubt");
    w.submit(s, [free()]);
    assert_eq!(w.running(s), [3, 4]);
    w.succeed(s, [3, 4]);
    assert_eq!(w.running(s), NONE);
    w.clear(Unreported::MayHaveBegun);
    assert_eq!((w.attempt(s, 1), w.attempt(s, 2)), (2, 2));
}

#[test]
fn a_reported_attempt_goes_on_and_is_not_started_again() {
    let mut w = World::new(2);
    let s = w.open(plain);
    w.submit(s, [order(1), order(1), order(2)]);
    let survivor = w.assignment(s, 1).clone();
    w.running.clear();
    w.take_over();
    w.reported(&[survivor]);
    w.clear(Unreported::MayHaveBegun);
    assert_eq!((w.attempt(s, 1), w.attempt(s, 2)), (1, 2));
    w.succeed(s, [2, 1]);
    assert_eq!(w.running(s), [3], "the barrier has held, and opens");
    assert_eq!(
        w.outcomes(s),
        [(2, Outcome::Succeeded), (1, Outcome::Succeeded)]
    );
}

#[test]
fn when_everybody_has_reported_nothing_counts_as_lost() {
    let mut w = World::new(2);
    let s = w.open(plain);
    w.submit(
        s,
        [
            free().with(|o| o.delivery = Some(Delivery::AtMostOnce)),
            free(),
        ],
    );
    w.running.clear();
    w.take_over();
    w.clear(Unreported::NotBegun);
    assert_eq!(
        (w.attempt(s, 1), w.attempt(s, 2)),
        (2, 1),
        "a number on record is spent"
    );
    w.succeed(s, [1, 2]);
    assert_eq!(
        w.outcomes(s),
        [(1, Outcome::Succeeded), (2, Outcome::Succeeded)]
    );
    assert!(
        w.remembered
            .attempts(s, 1)
            .iter()
            .any(|record| record.what == AttemptEvent::HandedBack)
    );
}

#[test]
fn an_at_most_once_task_that_nobody_reports_ends_lost_and_a_reported_one_goes_on() {
    let mut w = World::new(2);
    let s = w.open(plain);
    let once = || free().with(|o| o.delivery = Some(Delivery::AtMostOnce));
    w.submit(s, [once(), once()]);
    let survivor = w.assignment(s, 2).clone();
    w.running.clear();
    w.take_over();
    w.reported(&[survivor]);
    assert_eq!(w.outcomes(s), [], "it may still be reported");
    w.clear(Unreported::MayHaveBegun);
    assert_eq!(w.outcomes(s), [(1, Outcome::Exhausted)]);
    w.succeed(s, [2]);
    assert_eq!(w.outcome(s, 2), Some(Outcome::Succeeded));
}

#[test]
fn a_task_that_ends_with_its_first_loss_does_so_after_a_takeover_too() {
    type Change = fn(&mut TaskOptions);
    let cases: [(Change, Outcome); 2] = [
        (
            |o| o.retry.non_retryable = vec!["LOST".into()],
            Outcome::Failed,
        ),
        (|o| o.retry.max_losses = Some(1), Outcome::Exhausted),
    ];
    for (change, outcome) in cases {
        let mut w = World::new(1);
        let s = w.open(plain);
        w.submit(s, [free().with(change)]);
        assert!(w.assignment(s, 1).is_numbered());
        // It was lost within a moment.
        w.running.clear();
        w.take_over();
        w.clear(Unreported::MayHaveBegun);
        assert_eq!(w.outcomes(s), [(1, outcome)]);
    }
}

#[test]
fn an_at_most_once_task_that_is_reported_as_never_begun_starts_after_all() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(
        s,
        [free().with(|o| o.delivery = Some(Delivery::AtMostOnce))],
    );
    let survivor = w.assignment(s, 1).clone();
    assert!(survivor.is_numbered());
    w.running.clear();
    w.take_over();
    w.reported(&[survivor]);
    w.report(s, 1, Report::NotStarted);
    w.clear(Unreported::MayHaveBegun);
    assert_eq!(w.outcomes(s), []);
    assert_eq!(w.attempt(s, 1), 2);
}

#[test]
fn what_ran_while_nobody_could_read_its_scheduler_may_have_begun() {
    let mut w = World::new(2);
    let s = w.open(plain);
    let once = free().with(|o| o.delivery = Some(Delivery::AtMostOnce));
    w.submit(s, [once, free()]);
    w.running.clear();
    w.remembered.set_aside = true;
    w.take_over();
    w.clear(Unreported::NotBegun);
    assert_eq!(w.outcomes(s), [(1, Outcome::Exhausted)]);
    assert_eq!(w.attempt(s, 2), 2);
}

#[test]
fn tasks_in_doubt_hold_the_limit_of_their_scheduler() {
    let mut w = World::new(4);
    let s = w.open(|settings| settings.max_parallelism = Some(2));
    w.submit(s, [free(), free(), free()]);
    w.running.clear();
    w.take_over();
    w.submit(s, [free()]);
    assert_eq!(w.running(s), NONE);
    w.clear(Unreported::MayHaveBegun);
    assert_eq!(w.running(s), [1, 2]);
}

#[test]
fn a_task_in_doubt_that_is_cancelled_is_stopped_when_it_is_reported_and_cancelled_when_it_is_not() {
    let mut w = World::new(2);
    let s = w.open(plain);
    w.submit(s, [free(), free()]);
    let survivor = w.assignment(s, 1).clone();
    w.running.clear();
    w.take_over();
    assert_eq!(
        (w.cancel(s, 1), w.cancel(s, 2)),
        (Cancelling::Stopping, Cancelling::Stopping)
    );
    w.stops.clear();
    w.reported(&[survivor]);
    assert_eq!(w.stops, [(1, 1)]);
    w.clear(Unreported::MayHaveBegun);
    assert_eq!(w.outcomes(s), [(2, Outcome::Cancelled)]);
    w.report(s, 1, Report::Stopped);
    assert_eq!(w.outcome(s, 1), Some(Outcome::Cancelled));
}

#[test]
fn a_report_that_comes_too_late_is_answered_with_stop_and_changes_nothing() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [free()]);
    let zombie = w.assignment(s, 1).clone();
    w.running.clear();
    w.take_over();
    w.clear(Unreported::MayHaveBegun);
    w.stops.clear();
    let running = w.running.clone();
    w.reported(&[zombie]);
    assert_eq!(w.stops, [(1, 1)]);
    let stale = w.stale(s, 1, 1, Report::Succeeded(None));
    w.command(crate::core::Command::Completed(vec![stale]));
    assert_eq!(w.outcomes(s), []);
    w.running = running;
    assert_eq!(w.attempt(s, 1), 2);
    w.succeed(s, [1]);
    assert_eq!(w.outcomes(s), [(1, Outcome::Succeeded)]);
}

#[test]
fn a_task_that_waited_for_its_time_has_a_row_and_is_in_doubt_wherever_it_stands() {
    let mut w = World::new(2);
    let s = w.open(plain);
    let at = w.now + Duration::from_secs(5);
    w.submit(
        s,
        [
            free(),
            free(),
            free(),
            free().with(|o| o.not_before = Some(at)),
        ],
    );
    w.succeed(s, [1]);
    w.limit(s, Some(1));
    w.seconds(6.0);
    w.succeed(s, [2, 3]);
    assert_eq!(w.running(s), [4]);
    w.running.clear();
    w.take_over();
    w.commands([]);
    assert_eq!(w.running(s), NONE);
    w.clear(Unreported::MayHaveBegun);
    assert_eq!(w.attempt(s, 4), 2);
}

#[test]
fn a_deadline_that_passes_while_nobody_knows_ends_the_task_when_it_is_known_not_to_run() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(
        s,
        [free().with(|o| o.deadline = Some(Duration::from_secs(3)))],
    );
    w.running.clear();
    w.take_over();
    w.seconds(5.0);
    assert_eq!(w.outcomes(s), []);
    w.clear(Unreported::MayHaveBegun);
    assert_eq!(w.outcomes(s), [(1, Outcome::TimedOut)]);
}

#[test]
fn releasing_everything_cancels_what_is_in_doubt() {
    let mut w = World::new(2);
    let s = w.open(plain);
    w.submit(s, [free(), free(), free()]);
    w.running.clear();
    w.take_over();
    w.release(s, ReleaseMode::Cancel);
    w.clear(Unreported::MayHaveBegun);
    assert_eq!(w.outcomes(s).len(), 3);
    assert_eq!(w.running(s), NONE);
}

#[test]
fn a_task_that_was_given_back_has_lost_nothing() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [free()]);
    for _ in 0..5 {
        w.seconds(1.0);
        w.report(s, 1, Report::Stopped);
    }
    w.running.clear();
    w.take_over();
    w.clear(Unreported::NotBegun);
    assert_eq!(w.outcomes(s), []);
    w.succeed(s, [1]);
    assert_eq!(w.outcomes(s), [(1, Outcome::Succeeded)]);
}
