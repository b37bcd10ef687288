//! What a call means does not depend on how far a cancellation has come.

use super::world::{NONE, World, free, join, on_failure, order};
use crate::core::{LateOrder, OnFailure, Order, Outcome, TaskOptions, model::limits::Limits};
use std::time::Duration;

/// Tasks of order 2 when order 1 fails: many slices of them.
const REST: usize = 50;

/// Order 1 has failed, and order 2 is being cancelled, `slices` of it already.
fn cancelling(late: LateOrder, slices: usize) -> (World, crate::core::Handle) {
    let mut w = World::limited(
        4,
        Limits {
            slice: 4,
            ..Limits::default()
        },
    );
    let s = w.open(|settings| {
        on_failure(OnFailure::CancelRest)(settings);
        settings.late_order = late;
    });
    w.submit(s, [order(1)].into_iter().chain(vec![order(2); REST]));
    w.fail(s, 1);
    (0..slices).for_each(|_| drop(w.commands([])));
    (w, s)
}

#[test]
fn tasks_that_are_cancelled_with_the_rest_count_for_no_current_order() {
    for slices in [0, 5, 50] {
        for crash in [false, true] {
            let (mut w, s) = cancelling(LateOrder::Join, slices);
            if crash {
                w.crash();
            }
            assert_eq!(w.view(s).current_order, None, "after {slices} slices");
            let first = w.submit(s, [order(1), order(2)]);
            let order_of = |w: &World, seq| w.remembered.place(s, seq).order;
            assert_eq!(order_of(&w, first), Some(Order(1)));
            assert_eq!(order_of(&w, first + 1), Some(Order(2)));
            assert_eq!(w.view(s).current_order, Some(Order(1)));
            w.seconds(1.0);
            assert_eq!(w.outcomes(s).len(), 1 + REST);
            w.succeed(s, [first]);
            assert_eq!(w.running(s), [first + 1], "and it is not cancelled");
        }
    }
}

#[test]
fn a_lower_order_is_not_late_while_a_higher_one_is_cancelled() {
    let (mut w, s) = cancelling(LateOrder::Reject, 1);
    assert!(w.try_submit(s, None, [order(1)]).is_ok());
    assert_eq!(w.running(s), [2 + REST as i64]);
}

#[test]
fn the_orders_of_later_tasks_count_although_they_wait_for_the_cancellation() {
    let (mut w, s) = cancelling(LateOrder::Reject, 1);
    w.submit(s, [order(3)]);
    assert_eq!(w.view(s).current_order, Some(Order(3)));
    assert_eq!(w.running(s), NONE, "nothing above order 1 starts yet");
    assert!(w.try_submit(s, None, [order(2)]).is_err(), "it is late");
    w.crash();
    assert_eq!(w.view(s).current_order, Some(Order(3)));
    w.seconds(1.0);
    assert_eq!(w.running(s), [2 + REST as i64]);
}

#[test]
fn a_second_failure_cancels_what_was_submitted_meanwhile() {
    let (mut w, s) = cancelling(LateOrder::Reject, 1);
    let first = w.submit(s, [order(1), order(2), free()]);
    w.fail(s, first);
    w.seconds(1.0);
    assert_eq!(w.outcome(s, first + 1), Some(Outcome::Cancelled));
    assert_eq!(w.running(s), [first + 2]);
}

fn soon(options: &mut TaskOptions) {
    options.deadline = Some(Duration::from_millis(1));
}

#[test]
fn a_task_that_is_cancelled_with_the_rest_does_not_time_out() {
    let mut w = World::limited(
        1,
        Limits {
            slice: 1,
            ..Limits::default()
        },
    );
    let s = w.open(|settings| {
        on_failure(OnFailure::CancelRest)(settings);
        join(settings);
    });
    let rest = std::iter::repeat_n(order(2).with(soon), 20);
    w.submit(s, [order(1)].into_iter().chain(rest));
    w.fail(s, 1);
    let later = w.submit(s, [order(2), order(3)]);
    w.seconds(1.0);
    let cancelled = (2..=21).all(|seq| w.outcome(s, seq) == Some(Outcome::Cancelled));
    assert!(cancelled, "{:?}", w.outcomes(s));
    assert_eq!(w.running(s), [later], "so nothing else is cancelled");
}
