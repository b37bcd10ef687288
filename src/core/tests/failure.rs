//! CONTINUE, HALT and CANCEL_REST.

use super::world::{NONE, World, error, free, on_failure, order, plain};
use crate::core::{OnFailure, Outcome, ReleaseMode, Report, Seq, Verb, model::limits::Limits};

#[test]
fn continue_opens_the_barrier_after_a_failure() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(s, [order(1), order(2)]);
    w.fail(s, 1);
    assert_eq!(w.running(s), [2]);
}

#[test]
fn halt_lets_the_failed_order_end_and_leaves_later_ones_blocked() {
    let mut w = World::new(100);
    let s = w.open(on_failure(OnFailure::Halt));
    w.submit(s, [order(1), order(1), order(2), free()]);
    w.fail(s, 1);
    assert_eq!(w.running(s), [2, 4]);
    w.fail(s, 2);
    w.succeed(s, [4]);
    assert_eq!(w.running(s), NONE);
    let halt = w.view(s).image.halt.expect("it is halted, and says so");
    assert_eq!(halt.failed, [Seq(1), Seq(2)]);
    assert_eq!((w.progress(s).pending, w.progress(s).blocked), (1, 1));
    w.submit(s, [free(), order(3)]);
    assert_eq!(w.running(s), [5], "tasks without order are not halted");
}

#[test]
fn a_halt_survives_a_recovery_and_is_lifted_by_resume_ignoring_failures() {
    let mut w = World::new(100);
    let s = w.open(on_failure(OnFailure::Halt));
    w.submit(s, [order(1), order(2)]);
    w.fail(s, 1);
    w.crash();
    assert_eq!(w.running(s), NONE);
    w.call(
        s,
        Verb::Resume {
            ignore_failures: false,
        },
    );
    assert_eq!(w.running(s), NONE);
    w.call(
        s,
        Verb::Resume {
            ignore_failures: true,
        },
    );
    assert_eq!(w.running(s), [2]);
    assert_eq!(w.view(s).image.halt, None);
}

#[test]
fn a_failure_without_order_and_a_cancelled_task_halt_nothing() {
    let mut w = World::new(100);
    let s = w.open(on_failure(OnFailure::Halt));
    w.submit(s, [free(), order(1), order(2)]);
    w.fail(s, 1);
    w.cancel(s, 2);
    w.fail(s, 2);
    assert_eq!(w.outcome(s, 2), Some(Outcome::Cancelled));
    assert_eq!(w.running(s), [3]);
}

#[test]
fn halt_counts_timeouts_and_exhausted_tasks_as_failures() {
    let mut w = World::new(100);
    let s = w.open(on_failure(OnFailure::Halt));
    w.submit(
        s,
        [order(1).with(|o| o.retry.max_losses = Some(1)), order(2)],
    );
    w.lose(s, 1);
    assert_eq!(w.outcome(s, 1), Some(Outcome::Exhausted));
    assert_eq!(w.running(s), NONE);
    let t = w.open(on_failure(OnFailure::Halt));
    w.submit(t, [order(1), order(2)]);
    w.report(t, 1, Report::TimedOut(error("TIMEOUT")));
    assert_eq!(w.outcome(t, 1), Some(Outcome::TimedOut));
    assert_eq!(w.running(t), NONE);
}

#[test]
fn a_halt_names_every_task_that_failed_as_far_as_there_is_room() {
    let limits = Limits {
        halt_failed: 5,
        ..Limits::default()
    };
    let mut w = World::limited(0, limits);
    let s = w.open(on_failure(OnFailure::Halt));
    let soon = || order(1).with(|o| o.deadline = Some(std::time::Duration::from_secs(1)));
    w.submit(s, vec![soon(); 3]);
    w.submit(s, vec![soon(); 3]);
    w.seconds(2.0);
    let halt = w.view(s).image.halt.expect("it is halted, and says so");
    assert_eq!(halt.failed, [1, 2, 3, 4, 5].map(Seq));
}

#[test]
fn a_failure_below_an_old_halt_blocks_what_is_later_than_itself() {
    let mut w = World::new(100);
    let s = w.open(on_failure(OnFailure::Halt));
    w.submit(s, [order(100)]);
    w.fail(s, 1);
    w.submit(s, [order(50), order(60)]);
    w.fail(s, 2);
    assert_eq!(w.running(s), NONE, "order 60 comes after a failed one");
}

#[test]
fn cancel_rest_cancels_the_later_orders_and_nothing_else() {
    let mut w = World::new(100);
    let s = w.open(on_failure(OnFailure::CancelRest));
    w.submit(s, [order(1), order(1), order(2), free(), order(3)]);
    w.fail(s, 1);
    assert_eq!(w.running(s), [2, 4]);
    assert_eq!(w.outcome(s, 3), Some(Outcome::Cancelled));
    assert_eq!(w.outcome(s, 5), Some(Outcome::Cancelled));
    w.submit(s, [order(2)]);
    w.succeed(s, [2]);
    assert_eq!(
        w.running(s),
        [4, 6],
        "what comes later is not part of the rest"
    );
}

#[test]
fn a_finish_release_cancels_what_a_halt_blocks_and_the_scheduler_ends() {
    let mut w = World::new(100);
    let s = w.open(on_failure(OnFailure::Halt));
    w.submit(s, [order(1), order(1), order(2)]);
    w.fail(s, 1);
    assert_eq!(w.release(s, ReleaseMode::Finish), (false, 2));
    assert_eq!(w.outcome(s, 3), Some(Outcome::Cancelled));
    w.succeed(s, [2]);
    assert_eq!(w.outcome(s, 2), Some(Outcome::Succeeded));
    assert_eq!(
        w.remembered.image(s).state,
        crate::core::SchedulerState::Released
    );
}

#[test]
fn a_halt_after_a_finish_release_cancels_what_it_blocks() {
    let mut w = World::new(100);
    let s = w.open(on_failure(OnFailure::Halt));
    w.submit(s, [order(1), order(2)]);
    w.release(s, ReleaseMode::Finish);
    w.fail(s, 1);
    assert_eq!(
        w.outcomes(s),
        [(1, Outcome::Failed), (2, Outcome::Cancelled)]
    );
    assert_eq!(
        w.remembered.image(s).state,
        crate::core::SchedulerState::Released
    );
}
