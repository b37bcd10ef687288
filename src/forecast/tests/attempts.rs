//! What forecasts make of attempts before the last one.

use super::{
    answers::{assert_about, seconds, simply},
    world::{Law, World, spec},
};
use crate::{
    core::{Delivery, OnFailure, Past, Seq, Snapshot, Spec},
    forecast::{Observation, Observations, Omission, Question, Reason, forecast},
};
use std::{sync::Arc, time::Duration};

const TWO: Law = Law::Constant(2.0);

/// Fifty ended tasks, each of which was begun twice.
fn begun_twice(set: impl FnOnce(&mut Spec)) -> Observations {
    let mut of = Spec::clone(&spec(0));
    set(&mut of);
    let of = Arc::new(of);
    let one = |_| Observation {
        spec: of.clone(),
        text: 0,
        lasted: Duration::from_secs(2),
        failed: false,
        earlier: 1,
        gap: None,
    };
    Observations::new((0..50).map(one))
}

#[test]
fn a_task_that_was_handed_back_has_not_failed() {
    let once = |spec: &mut Spec| spec.options.delivery = Some(Delivery::AtMostOnce);
    for known in [begun_twice(|_| {}), begun_twice(once)] {
        let mut w = World::new(1, 1, vec![TWO]);
        let s = w.open(|settings| settings.on_failure = OnFailure::Halt);
        w.submit(s, &[(Some(1), 0, 3), (Some(2), 0, 3)]);
        let made = simply(&mut w, s, &known);
        assert_about(seconds(&w, &made.all).0, 12.0);
    }
}

#[test]
fn a_task_that_may_have_more_attempts_has_failed_before() {
    let known = begun_twice(|spec| spec.options.retry.max_attempts = Some(3));
    let mut w = World::new(1, 1, vec![TWO]);
    let s = w.open(|settings| settings.on_failure = OnFailure::Halt);
    w.submit(s, &[(Some(1), 0, 3), (Some(2), 0, 3)]);
    let made = simply(&mut w, s, &known);
    assert!(
        made.all
            .p50
            .is_none_or(|end| end.since(w.now).as_secs_f64() > 14.0)
    );
}

#[test]
fn a_retry_that_is_due_has_no_more_attempts_than_are_left() {
    let mut w = World::new(1, 1, vec![TWO]);
    let s = w.open(|settings| settings.on_failure = OnFailure::Halt);
    w.submit(s, &[(Some(1), 0, 2), (Some(2), 0, 1)]);
    let mut snapshot = w.snapshot(s);
    // The second one has been lost as often as it may be, but once.
    let waits = &mut snapshot.scheduler.waiting[0];
    assert_eq!(
        (waits.first, waits.count, waits.again_at),
        (Seq(2), 1, None)
    );
    waits.past = Past {
        attempt: crate::core::Attempt(2),
        failures: 0,
        losses: 2,
    };
    let known = begun_twice(|spec| spec.options.retry.max_attempts = Some(9));
    let halts = |snapshot: &Snapshot| {
        let question = Question {
            runs: Some(200),
            ..Question::default()
        };
        let made = forecast(snapshot, &known, &question, |_| true);
        let mut reasons = made.all.reasons.iter();
        reasons.find_map(|reason| match reason {
            Reason::MayHalt(percent) => Some(*percent),
            _ => None,
        })
    };
    let again = halts(&snapshot);
    snapshot.scheduler.waiting[0].past = Past::default();
    let afresh = halts(&snapshot);
    assert!(
        again > afresh && again >= Some(40),
        "{again:?} and {afresh:?}"
    );
}

#[test]
fn what_is_in_doubt_runs_if_the_journal_says_so_and_else_begins_anew() {
    let mut w = World::new(1, 1, vec![TWO]);
    let s = w.open(|_| {});
    w.submit(s, &[(None, 0, 2)]);
    let later = w.now + Duration::from_millis(1_500);
    w.run(later, None);
    let mut snapshot = w.snapshot(s);
    for (recorded, ends_after) in [(true, 2.5), (false, 4.0)] {
        let running = &mut snapshot.scheduler.running[0];
        (running.in_doubt, running.recorded) = (true, recorded);
        let question = Question {
            runs: Some(80),
            ..Question::default()
        };
        let made = forecast(&snapshot, &begun_twice(|_| {}), &question, |_| true);
        assert_about(seconds(&w, &made.all).0, ends_after);
        let says_so = made.omissions.contains(&Omission::InDoubt(1));
        assert_eq!(says_so, recorded, "{:?}", made.omissions);
    }
}
