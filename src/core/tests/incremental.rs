//! Cancelling a backlog: one durable intention, carried out in slices.

use super::world::{NONE, World, free, on_failure, order, plain};
use crate::core::{OnFailure, Outcome, ReleaseMode, Report, SchedulerState, model::limits::Limits};
use std::time::Duration;

#[test]
fn a_cancel_release_ends_a_backlog_in_slices() {
    let mut w = World::new(2);
    let s = w.open(plain);
    for _ in 0..5 {
        w.submit(s, vec![order(1); 700]);
    }
    assert_eq!(w.release(s, ReleaseMode::Cancel), (false, 3500));
    assert_eq!(w.stops.len(), 2);
    let mut cancelled = w.last_batch;
    while cancelled < 3498 {
        assert!(
            (1..=i64::from(Limits::DEFAULT.slice)).contains(&w.last_batch),
            "{} outcomes in one batch",
            w.last_batch
        );
        w.commands([]);
        cancelled += w.last_batch;
    }
    for seq in [1, 2] {
        w.report(s, seq, Report::Stopped);
    }
    assert_eq!(w.remembered.image(s).state, SchedulerState::Released);
    assert!(
        w.outcomes(s)
            .iter()
            .all(|(_, outcome)| *outcome == Outcome::Cancelled)
    );
}

#[test]
fn slices_leave_room_while_others_ask() {
    let mut w = World::new(2);
    let (s, other) = (w.open(plain), w.open(plain));
    for _ in 0..5 {
        w.submit(s, vec![order(1); Limits::DEFAULT.slice as usize]);
    }
    w.release(s, ReleaseMode::Cancel);
    w.submit(other, [free().noop()]);
    assert_eq!(
        w.last_batch,
        i64::from(Limits::DEFAULT.slice),
        "the next slice is due"
    );
    w.commands([]);
    assert_eq!(w.last_batch, 0, "and the one after it waits a little");
    assert_eq!(w.shard.next_due(), w.now + Limits::DEFAULT.slice_pause);
    w.now = w.shard.next_due();
    for _ in 0..2 {
        w.commands([]);
        assert_eq!(
            w.last_batch,
            i64::from(Limits::DEFAULT.slice),
            "as fast as can be when nobody asks"
        );
    }
}

#[test]
fn slices_hold_for_tasks_that_wait_for_their_time() {
    let mut w = World::new(2);
    let s = w.open(plain);
    let later = w.now + Duration::from_secs(3600);
    w.submit(
        s,
        vec![
            free().with(|o| o.not_before = Some(later));
            2 * Limits::DEFAULT.slice as usize + Limits::DEFAULT.slice as usize / 2
        ],
    );
    w.release(s, ReleaseMode::Cancel);
    let mut sizes = vec![w.last_batch];
    while w.progress(s).pending > 0 {
        w.commands([]);
        sizes.push(w.last_batch);
    }
    assert_eq!(
        sizes,
        [
            Limits::DEFAULT.slice,
            Limits::DEFAULT.slice,
            Limits::DEFAULT.slice / 2
        ]
        .map(i64::from)
    );
}

#[test]
fn nothing_of_a_backlog_starts_while_it_is_being_cancelled() {
    let mut w = World::new(10);
    let s = w.open(|settings| settings.max_parallelism = Some(1));
    w.submit(s, vec![free(); 3000]);
    w.release(s, ReleaseMode::Cancel);
    w.report(s, 1, Report::Stopped);
    assert_eq!(w.running(s), NONE);
    w.seconds(1.0);
    assert_eq!(w.outcomes(s).len(), 3000);
}

#[test]
fn an_incremental_cancellation_goes_on_after_a_recovery() {
    let mut w = World::new(10);
    let s = w.open(|settings| settings.max_parallelism = Some(1));
    w.submit(s, vec![free(); 3000]);
    w.release(s, ReleaseMode::Cancel);
    w.crash();
    w.seconds(1.0);
    assert_eq!(w.running(s), NONE);
    assert_eq!(w.outcomes(s).len(), 3000);
    assert_eq!(w.remembered.image(s).state, SchedulerState::Released);
}

#[test]
fn a_task_that_wakes_behind_newer_ones_is_cancelled_with_the_rest() {
    let mut w = World::new(10);
    let s = w.open(on_failure(OnFailure::CancelRest));
    let soon = w.now + Duration::from_secs(1);
    let late = order(2).with(|o| o.not_before = Some(soon));
    w.submit(s, std::iter::repeat_n(late, 3500).chain([order(1)]));
    w.fail(s, 3501);
    w.submit(s, [order(2)]);
    w.now = soon;
    w.commands([]);
    w.seconds(1.0);
    assert_eq!(w.outcomes(s).len(), 3501);
    assert_eq!(w.running(s), [3502]);
}

#[test]
fn release_is_idempotent_and_cancel_may_follow_finish() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, vec![free(); 3]);
    assert_eq!(w.release(s, ReleaseMode::Finish), (false, 3));
    assert_eq!(w.release(s, ReleaseMode::Finish), (true, 3));
    w.release(s, ReleaseMode::Cancel);
    w.report(s, 1, Report::Stopped);
    assert_eq!(w.outcomes(s).len(), 3);
    assert_eq!(w.release(s, ReleaseMode::Cancel), (true, 0));
    assert_eq!(w.outcomes(s).len(), 3);
}

#[test]
fn a_released_scheduler_takes_no_tasks_and_finishes_those_it_has() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [order(1), order(2)]);
    w.release(s, ReleaseMode::Finish);
    assert_eq!(
        w.try_submit(s, None, [free()]),
        Err(crate::core::Reject::Released)
    );
    w.succeed(s, [1, 2]);
    assert_eq!(w.remembered.image(s).state, SchedulerState::Released);
}
