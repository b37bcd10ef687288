//! Orders and their barriers.

use super::world::{NONE, World, free, join, order, plain};
use crate::core::{Order, Outcome, Reject, Report};

#[test]
fn tasks_of_one_order_run_together_and_a_higher_order_waits() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(
        s,
        [order(100), order(100), order(200), order(300), order(300)],
    );
    assert_eq!(w.running(s), [1, 2]);
    w.succeed(s, [2]);
    assert_eq!(w.running(s), [1]);
    w.succeed(s, [1]);
    assert_eq!(w.running(s), [3]);
    w.succeed(s, [3]);
    assert_eq!(w.running(s), [4, 5]);
}

#[test]
fn a_barrier_waits_for_every_earlier_task_its_retries_included() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(
        s,
        [
            order(100).with(|o| o.retry.max_attempts = Some(3)),
            order(200),
        ],
    );
    w.fail(s, 1);
    assert_eq!(
        w.running(s),
        NONE,
        "the retry waits and keeps the barrier shut"
    );
    w.seconds(2.0);
    assert_eq!(w.running(s), [1]);
    w.report(s, 1, Report::NotStarted);
    assert_eq!(w.running(s), [1], "handed back and handed out again");
    w.succeed(s, [1]);
    assert_eq!(w.running(s), [2]);
}

#[test]
fn a_barrier_waits_for_tasks_that_wait_for_their_time() {
    let mut w = World::new(100);
    let s = w.open(plain);
    let later = w.now + std::time::Duration::from_secs(10);
    w.submit(
        s,
        [order(100).with(|o| o.not_before = Some(later)), order(200)],
    );
    w.seconds(9.9);
    assert_eq!(w.running(s), NONE);
    w.seconds(0.2);
    assert_eq!(w.running(s), [1]);
    w.succeed(s, [1]);
    assert_eq!(w.running(s), [2]);
}

#[test]
fn tasks_without_order_stand_outside_all_barriers() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(s, [order(100), order(200), free(), free()]);
    assert_eq!(w.running(s), [1, 3, 4]);
    w.succeed(s, [1]);
    assert_eq!(w.running(s), [2, 3, 4], "they hold no order back either");
}

#[test]
fn a_call_may_bring_its_orders_in_any_sequence() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(s, [order(300), order(100), order(200), order(100)]);
    assert_eq!(w.running(s), [2, 4]);
    w.succeed(s, [4, 2]);
    assert_eq!(w.running(s), [3]);
    w.succeed(s, [3]);
    assert_eq!(w.running(s), [1]);
}

#[test]
fn numbers_can_be_used_again_when_nothing_ordered_is_unfinished() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(s, [order(200), free()]);
    w.succeed(s, [1]);
    assert_eq!(
        w.submit(s, [order(100)]),
        3,
        "the task without order does not close an order"
    );
    assert_eq!(w.running(s), [2, 3]);
}

#[test]
fn a_late_order_is_refused_as_a_whole_and_has_no_effect() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(s, [order(200)]);
    let refused = w.try_submit(s, None, [order(300), free(), order(100)]);
    assert_eq!(
        refused,
        Err(Reject::OrderClosed {
            index: 2,
            order: Order(100),
            current: Order(200)
        })
    );
    assert_eq!(w.view(s).image.checkpoint.highest_seq.0, 1);
    assert_eq!(
        w.submit(s, [order(200), order(300)]),
        2,
        "the current order is still open"
    );
    assert_eq!(w.running(s), [1, 2]);
}

#[test]
fn a_late_order_joins_the_current_one_when_the_scheduler_says_so() {
    let mut w = World::new(100);
    let s = w.open(join);
    w.submit(s, [order(200), order(300)]);
    w.submit(s, [order(100)]);
    assert_eq!(w.running(s), [1, 3]);
    assert_eq!(
        w.assignment(s, 3).order,
        Some(Order(200)),
        "its effective order is the current one"
    );
    w.succeed(s, [1]);
    assert_eq!(w.running(s), [3], "the barrier waits for it");
    w.succeed(s, [3]);
    assert_eq!(w.running(s), [2]);
}

#[test]
fn a_cancelled_task_opens_the_barrier_it_held() {
    let mut w = World::new(100);
    let s = w.open(|settings| settings.max_parallelism = Some(1));
    w.submit(s, [order(100), order(100), order(200)]);
    w.succeed(s, [1]);
    assert_eq!(w.running(s), [2]);
    w.cancel(s, 2);
    assert_eq!(w.stops, [(2, 1)]);
    w.report(s, 2, Report::Stopped);
    assert_eq!(w.outcome(s, 2), Some(Outcome::Cancelled));
    assert_eq!(w.running(s), [3]);
}

#[test]
fn noop_tasks_are_handed_out_together_and_obey_the_barrier() {
    let mut w = World::new(0);
    let s = w.open(plain);
    w.submit(
        s,
        [
            order(1).noop(),
            order(1).noop(),
            order(1).noop(),
            order(2).noop(),
        ],
    );
    assert_eq!(w.assignment(s, 1).count, 3);
    w.succeed(s, [1]);
    assert_eq!(w.running(s), [4]);
    w.succeed(s, [4]);
    assert_eq!(w.outcomes(s).len(), 4);
}
