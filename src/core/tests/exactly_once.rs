//! An exactly-once task that is lost may have committed: nothing follows, and no end of it is
//! recorded, before its target has said whether it has.

use super::world::{Cancelling, NONE, World, free, order, plain};
use crate::core::{
    AttemptEvent, Delivery, Outcome, ReleaseMode, Report, TaskResult, Unreported, Verb,
};
use std::{sync::Arc, time::Duration};

fn once() -> super::world::Task {
    free().with(|o| o.delivery = Some(Delivery::ExactlyOnce))
}

#[test]
fn a_lost_attempt_is_resolved_before_another_one_starts() {
    let mut w = World::new(2);
    let s = w.open(plain);
    w.submit(s, [once()]);
    assert!(
        w.assignment(s, 1).is_numbered(),
        "it has a row before it starts"
    );
    w.report(s, 1, Report::Lost);
    assert_eq!(w.resolves, [(1, 1)]);
    w.advance(Duration::from_secs(3600));
    assert_eq!((w.running(s), w.outcomes(s)), (NONE.to_vec(), vec![]));
    w.resolved(s, 1, 1, Report::Lost);
    w.advance(Duration::from_secs(3600));
    assert_eq!(w.attempt(s, 1), 2);
    w.succeed(s, [1]);
    assert_eq!(w.outcomes(s), [(1, Outcome::Succeeded)]);
}

#[test]
fn a_lost_attempt_that_has_committed_is_a_success() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(
        s,
        [order(1).with(|o| {
            o.delivery = Some(Delivery::ExactlyOnce);
            o.retry.max_losses = Some(1);
        })],
    );
    w.submit(s, [order(2)]);
    w.report(s, 1, Report::Lost);
    assert_eq!(w.running(s), NONE, "its order is not done yet");
    w.resolved(s, 1, 1, Report::Succeeded(None));
    assert_eq!(w.outcomes(s), [(1, Outcome::Succeeded)]);
    assert_eq!(w.running(s), [2]);
}

#[test]
fn a_lost_attempt_leaves_its_slot_to_others_while_it_is_resolved() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [once(), free()]);
    w.report(s, 1, Report::Lost);
    assert_eq!(w.running(s), [2]);
    w.advance(Duration::from_secs(10));
    w.succeed(s, [2]);
    w.resolved(s, 1, 1, Report::Succeeded(None));
    assert_eq!(w.outcome(s, 1), Some(Outcome::Succeeded));
}

#[test]
fn neither_a_cancel_nor_a_deadline_nor_the_last_loss_ends_what_may_have_committed() {
    for committed in [true, false] {
        let mut w = World::new(4);
        let s = w.open(plain);
        let limited = |o: &mut crate::core::TaskOptions| o.deadline = Some(Duration::from_secs(5));
        let last = |o: &mut crate::core::TaskOptions| o.retry.max_losses = Some(1);
        w.submit(s, [once(), once().with(limited), once().with(last), once()]);
        for seq in 1..=4 {
            w.report(s, seq, Report::Lost);
        }
        assert_eq!(w.cancel(s, 1), Cancelling::Stopping);
        w.advance(Duration::from_secs(60));
        w.call(s, Verb::Release(ReleaseMode::Cancel));
        assert_eq!(w.outcomes(s), []);
        for seq in 1..=4 {
            let report = match committed {
                true => Report::Succeeded(None),
                false => Report::Lost,
            };
            w.resolved(s, seq, 1, report);
        }
        let ends = match committed {
            true => [Outcome::Succeeded; 4],
            false => [Outcome::Cancelled; 4],
        };
        let outcomes: Vec<_> = w
            .outcomes(s)
            .into_iter()
            .map(|(_, outcome)| outcome)
            .collect();
        assert_eq!(outcomes, ends);
    }
}

#[test]
fn the_last_loss_and_the_deadline_count_when_nothing_was_committed() {
    let mut w = World::new(4);
    let s = w.open(plain);
    let limited = |o: &mut crate::core::TaskOptions| o.deadline = Some(Duration::from_secs(5));
    let last = |o: &mut crate::core::TaskOptions| o.retry.max_losses = Some(1);
    w.submit(s, [once().with(limited), once().with(last)]);
    w.report(s, 1, Report::Lost);
    w.report(s, 2, Report::Lost);
    w.advance(Duration::from_secs(60));
    w.resolved(s, 1, 1, Report::Lost);
    w.resolved(s, 2, 1, Report::Lost);
    assert_eq!(
        w.outcomes(s),
        [(1, Outcome::TimedOut), (2, Outcome::Exhausted)]
    );
}

#[test]
fn a_new_owner_resolves_what_nobody_reports_whatever_is_said_of_it() {
    for unreported in [Unreported::NotBegun, Unreported::MayHaveBegun] {
        let mut w = World::new(2);
        let s = w.open(plain);
        w.submit(s, [once(), once()]);
        let survivor = w.assignment(s, 2).clone();
        w.running.clear();
        w.take_over();
        w.cancel(s, 1);
        w.reported(&[survivor]);
        w.clear(unreported);
        assert_eq!(w.resolves, [(1, 1)]);
        assert_eq!(w.outcomes(s), []);
        w.resolved(s, 1, 1, Report::Succeeded(None));
        assert_eq!(w.outcomes(s), [(1, Outcome::Succeeded)]);
        w.succeed(s, [2]);
    }
}

#[test]
fn what_has_not_begun_counts_as_no_loss() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [once()]);
    w.running.clear();
    w.take_over();
    w.clear(Unreported::NotBegun);
    w.resolved(s, 1, 1, Report::Lost);
    assert_eq!(w.attempt(s, 1), 2);
    let events = w.remembered.attempts(s, 1);
    assert!(
        events
            .iter()
            .any(|one| one.what == AttemptEvent::HandedBack)
    );
}

#[test]
fn an_owner_that_is_lost_before_the_answer_is_followed_by_one_that_asks_again() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [once()]);
    w.report(s, 1, Report::Lost);
    w.resolves.clear();
    w.take_over();
    w.resolved(s, 1, 1, Report::Lost);
    assert_eq!(
        w.outcomes(s),
        [],
        "an answer to an earlier core says nothing to this one"
    );
    w.clear(Unreported::NotBegun);
    assert_eq!(w.resolves, [(1, 1)]);
    w.resolves.clear();
    w.rebuild();
    assert_eq!(w.resolves, [(1, 1)]);
    w.resolved(s, 1, 1, Report::Succeeded(None));
    w.resolved(s, 1, 1, Report::Lost);
    assert_eq!(w.outcomes(s), [(1, Outcome::Succeeded)]);
}

#[test]
fn a_failed_attempt_is_followed_by_another_one_as_ever() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [once().with(|o| o.retry.max_attempts = Some(2))]);
    w.fail(s, 1);
    w.advance(Duration::from_secs(60));
    assert_eq!(w.attempt(s, 1), 2);
    w.report(s, 1, Report::Stopped);
    assert_eq!(w.attempt(s, 1), 3, "it was given back");
    assert_eq!(w.resolves, []);
}

#[test]
fn what_has_committed_is_a_success_even_if_its_rows_cannot_be_stored() {
    let mut w = World::new(2);
    let s = w.open(plain);
    let again = |o: &mut crate::core::TaskOptions| o.retry.max_attempts = Some(2);
    w.submit(s, [once().with(again), once().with(again), free()]);
    let result = TaskResult {
        rows_affected: 7,
        rows_json: "[{}]".into(),
        truncated: false,
    };
    let reported = w.stale(s, 1, 1, Report::Succeeded(Some(Arc::new(result))));
    let without_rows = reported.without_payload().expect("rows are left out");
    let kept = TaskResult {
        rows_affected: 7,
        truncated: true,
        ..TaskResult::default()
    };
    let expected = Report::Unstorable(Some(Arc::new(kept)));
    assert_eq!(without_rows.report, expected);
    assert_eq!(without_rows.clone().without_payload(), None);
    w.report(s, 1, without_rows.report.clone());
    assert_eq!(w.outcomes(s), [(1, Outcome::Succeeded)]);
    w.report(s, 2, Report::Unstorable(None));
    assert_eq!(w.outcome(s, 2), None, "it has failed, and is tried again");
    w.report(s, 3, without_rows.report);
    assert_eq!(w.outcome(s, 3), Some(Outcome::Failed));
}
