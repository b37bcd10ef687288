//! Timeouts and deadlines.

use super::world::{NONE, World, error, free, order, plain};
use crate::core::{Handle, Outcome, Report, TimeLimit, Unreported, Verb, model::limits::Limits};
use std::time::Duration;

fn deadline(seconds: u64) -> impl FnOnce(&mut crate::core::TaskOptions) {
    move |options| options.deadline = Some(Duration::from_secs(seconds))
}

#[test]
fn a_deadline_ends_a_task_that_waits() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(s, [order(1), order(2).with(deadline(10)), order(3)]);
    w.seconds(9.9);
    assert_eq!(w.outcomes(s), []);
    w.seconds(0.2);
    assert_eq!(w.outcomes(s), [(2, Outcome::TimedOut)]);
    w.succeed(s, [1]);
    assert_eq!(w.running(s), [3]);
}

#[test]
fn a_task_whose_deadline_passes_says_what_it_waited_for() {
    let mut w = World::new(0);
    let s = w.open(plain);
    let mut end = |set: fn(&mut World, Handle)| {
        w.submit(s, [free().with(deadline(10))]);
        set(&mut w, s);
        w.seconds(10.1);
        w.errors.pop().expect("it has ended").message.clone()
    };
    let said = "its deadline passed while it waited: ";
    let away = end(|_, _| ());
    assert_eq!(&*away, format!("{said}its target is away"));
    let paused = end(|w, s| drop(w.call(s, Verb::Pause)));
    assert_eq!(&*paused, format!("{said}its scheduler is paused"));
}

#[test]
fn an_attempt_is_given_the_nearer_of_its_timeout_and_its_deadline() {
    let mut w = World::new(100);
    let s = w.open(plain);
    let both = |timeout| {
        free().with(move |o| {
            (o.timeout, o.deadline) = (
                Some(Duration::from_secs(timeout)),
                Some(Duration::from_secs(10)),
            )
        })
    };
    let (submitted, limit) = (w.now, |w: &World, seq| w.assignment(s, seq).time_limit);
    let deadline = submitted + Duration::from_secs(10);
    w.submit(s, [both(5), both(20)]);
    assert_eq!(
        limit(&w, 1),
        Some(TimeLimit::Timeout(Duration::from_secs(5)))
    );
    assert_eq!(limit(&w, 2), Some(TimeLimit::Deadline(deadline)));
    // A session may be long in coming, and a timeout counts from the start of the text.
    assert_eq!(w.assignment(s, 1).deadline, Some(deadline));
}

#[test]
fn a_timeout_may_be_retried_and_a_deadline_may_not() {
    let mut w = World::new(100);
    let s = w.open(plain);
    let retried = || free().with(|o| o.retry.max_attempts = Some(2));
    w.submit(s, [retried(), retried()]);
    w.report(s, 1, Report::TimedOut(error("TIMEOUT")));
    w.report(s, 2, Report::TimedOut(error("DEADLINE")));
    assert_eq!(w.outcomes(s), [(2, Outcome::TimedOut)]);
    w.seconds(2.0);
    w.report(s, 1, Report::TimedOut(error("TIMEOUT")));
    assert_eq!(w.outcome(s, 1), Some(Outcome::TimedOut));
}

#[test]
fn a_deadline_ends_a_task_that_waits_for_its_retry() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(
        s,
        [free().with(|o| {
            (o.retry.max_attempts, o.retry.initial) = (Some(9), Some(Duration::from_secs(60)));
            o.deadline = Some(Duration::from_secs(10));
        })],
    );
    w.fail(s, 1);
    w.seconds(10.5);
    assert_eq!(w.outcomes(s), [(1, Outcome::TimedOut)]);
}

#[test]
fn a_deadline_that_passed_while_the_attempt_ran_is_not_forgotten() {
    let mut w = World::new(100);
    let s = w.open(plain);
    let task = |o: &mut crate::core::TaskOptions| {
        (o.retry.max_attempts, o.deadline) = (Some(9), Some(Duration::from_secs(10)));
    };
    w.submit(s, [order(1).with(task), order(1).with(task), order(2)]);
    w.seconds(11.0);
    w.fail(s, 1);
    w.report(s, 2, Report::NotStarted);
    assert_eq!(
        w.outcomes(s),
        [(1, Outcome::TimedOut), (2, Outcome::TimedOut)]
    );
    assert_eq!(w.running(s), [3]);
}

#[test]
fn a_backlog_whose_deadlines_have_passed_ends_in_slices_and_nothing_of_it_starts() {
    let mut w = World::new(0);
    let (s, other) = (w.open(plain), w.open(plain));
    // Calls of many tasks and calls of one.
    w.submit(
        s,
        vec![order(1).with(deadline(10)); 3 * Limits::DEFAULT.slice as usize + 7],
    );
    for at in 0..Limits::DEFAULT.slice {
        w.submit(s, [order(1 + i64::from(at % 2)).with(deadline(10))]);
    }
    w.submit(s, [order(3)]);
    w.submit(other, [free()]);
    let overdue = 4 * i64::from(Limits::DEFAULT.slice) + 7;
    w.crash();
    w.now = w.now + Duration::from_secs(20);
    w.set_slots(10);
    assert_eq!(w.running(other), [1], "the others do not wait for it");
    let mut ended = w.outcomes(s).len() as i64;
    assert_eq!(
        ended,
        2 * i64::from(Limits::DEFAULT.slice),
        "after two batches"
    );
    while ended < overdue {
        assert_eq!(w.running(s), NONE, "after {ended}");
        if ended == 3 * i64::from(Limits::DEFAULT.slice) {
            w.take_over();
            w.clear(Unreported::NotBegun);
        }
        w.commands([]);
        assert_eq!(
            w.last_batch,
            i64::from(Limits::DEFAULT.slice)
                .min(overdue - w.outcomes(s).len() as i64 + w.last_batch)
        );
        ended = w.outcomes(s).len() as i64;
    }
    assert!(
        w.outcomes(s)
            .iter()
            .all(|(_, outcome)| *outcome == Outcome::TimedOut)
    );
    assert_eq!(w.running(s), [overdue + 1]);
}

#[test]
fn what_is_overdue_does_not_start_even_when_its_timer_is_late() {
    let mut w = World::new(0);
    let soon = w.now + Duration::from_secs(1);
    for _ in 0..Limits::DEFAULT.timers_per_batch {
        let s = w.open(plain);
        w.submit(s, [free().noop().with(|o| o.not_before = Some(soon))]);
    }
    let s = w.open(plain);
    w.submit(s, [free().with(deadline(2))]);
    w.now = w.now + Duration::from_secs(2);
    w.set_slots(1);
    assert_eq!(w.running(s), NONE);
    assert_eq!(w.outcomes(s), [(1, Outcome::TimedOut)]);
}

#[test]
fn deadlines_hold_through_a_recovery() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [free(), free().with(deadline(10))]);
    w.seconds(5.0);
    w.crash();
    w.seconds(5.5);
    assert_eq!(w.outcomes(s), [(2, Outcome::TimedOut)]);
}
