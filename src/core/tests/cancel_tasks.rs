//! Tasks cancelled many at a time: which of them end, which are stopped, and what is left alone.

use super::world::{World, free, order, plain};
use crate::core::{Cancel, Order, Outcome, Reject, Reply, Report, Seq, TaskRange, Verb};
use std::{sync::Arc, time::Duration};

fn range(first: i64, last: i64, order: Option<i64>) -> TaskRange {
    TaskRange {
        first: Seq(first),
        last: Seq(last),
        order: order.map(Order),
    }
}

fn of(tasks: impl Into<Vec<TaskRange>>) -> Cancel {
    Cancel {
        tasks: tasks.into(),
        waiting: true,
        running: true,
        dry_run: false,
        filter: Some("order 1".into()),
    }
}

#[test]
fn what_waits_ends_what_runs_is_stopped_and_the_others_go_on() {
    let mut w = World::new(2);
    let s = w.open(plain);
    w.submit(s, (0..6).map(|_| order(1)));
    w.submit(s, (0..2).map(|_| order(2)));
    assert_eq!(w.running(s), [1, 2]);
    assert_eq!(w.cancel_tasks(s, of([range(2, 5, Some(1))])), (3, 1));
    let cancelled = [3, 4, 5].map(|seq| (seq, Outcome::Cancelled));
    assert_eq!(w.outcomes(s), cancelled);
    w.report(s, 2, Report::Stopped);
    assert_eq!(w.running(s), [1, 6]);
    w.succeed(s, [1, 6]);
    assert_eq!(w.running(s), [7, 8], "the order is over");
}

#[test]
fn what_waits_for_a_time_is_cancelled_with_the_rest_of_its_order() {
    let mut w = World::new(0);
    let s = w.open(plain);
    let later = w.now + Duration::from_secs(60);
    let delayed = |at: i64| order(at).with(move |o| o.not_before = Some(later));
    w.submit(s, [delayed(1), delayed(1), order(1), delayed(2), free()]);
    let all = of([range(4, 4, Some(2)), range(1, 3, Some(1))]);
    assert_eq!(w.cancel_tasks(s, all), (4, 0));
    assert_eq!(w.view(s).counts.queued, 1);
    assert_eq!(w.progress(s).pending, 1);
}

#[test]
fn those_that_run_go_on_when_only_those_that_wait_are_meant() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, (0..3).map(|_| free()));
    let waiting = Cancel {
        running: false,
        ..of([range(1, 3, None)])
    };
    assert_eq!(w.cancel_tasks(s, waiting.clone()), (2, 0));
    assert_eq!(w.running(s), [1]);
    assert_eq!(w.cancel_tasks(s, waiting), (0, 0), "and once is enough");
    w.succeed(s, [1]);
    assert_eq!(w.outcomes(s)[2], (1, Outcome::Succeeded));
    w.submit(s, (0..2).map(|_| free()));
    let running = Cancel {
        waiting: false,
        ..of([range(1, 5, None)])
    };
    assert_eq!(w.cancel_tasks(s, running), (0, 1));
    w.report(s, 4, Report::Stopped);
    assert_eq!(w.running(s), [5]);
}

#[test]
fn a_count_leaves_everything_as_it_is() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, (0..4).map(|_| order(1)));
    let count = Cancel {
        dry_run: true,
        ..of([range(1, 3, Some(1))])
    };
    assert_eq!(w.cancel_tasks(s, count), (2, 1));
    assert_eq!((w.running(s), w.view(s).counts.queued), (vec![1], 3));
    assert_eq!(w.outcomes(s), []);
    w.succeed(s, [1]);
    assert_eq!(w.running(s), [2]);
}

#[test]
fn tasks_that_were_never_submitted_are_refused_before_any_is_cancelled() {
    let mut w = World::new(0);
    let s = w.open(plain);
    w.submit(s, [free(), free()]);
    for unknown in [range(0, 1, None), range(2, 3, None)] {
        let cancel = of([range(1, 1, None), unknown]);
        let reply = w.call(s, Verb::Cancel(Arc::new(cancel)));
        assert!(
            matches!(reply, Reply::Rejected(Reject::UnknownTask)),
            "{reply:?}"
        );
    }
    assert_eq!(w.progress(s).pending, 2);
}
