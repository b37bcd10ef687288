//! What a namespace may have: over a limit nothing is accepted, and what ends is given back, crash
//! or not.

use super::world::{Task, World, free, order, plain, request};
use crate::core::{
    Caller, Command, DoneNo, Handle, Namespace, OnFailure, Open, Reject, ReleaseMode, Reply, Until,
    Verb,
    model::limits::{Limit, Limits},
};
use std::{iter, time::Duration};

/// The limit that a call ran into, its value and the seconds to wait.
type Refused = Option<(Limit, i64, Option<f64>)>;

fn refused<T>(result: Result<T, Reject>) -> Refused {
    match result.err()? {
        Reject::LimitReached {
            limit, value, wait, ..
        } => Some((limit, value, wait.map(|wait| wait.as_secs_f64()))),
        other => panic!("refused with {other:?}"),
    }
}

fn submit(w: &mut World, handle: Handle, tasks: impl IntoIterator<Item = Task>) -> Refused {
    refused(w.try_submit(handle, None, tasks))
}

fn watch(w: &mut World, handle: Handle) -> Refused {
    match w.call(
        handle,
        Verb::Watch {
            after: DoneNo(0),
            until: Until::Forever,
            last_seq: None,
        },
    ) {
        Reply::Rejected(reject) => refused::<()>(Err(reject)),
        _ => None,
    }
}

fn open(w: &mut World, namespace: &str) -> Refused {
    let handle = w.new_handle();
    let caller = Caller {
        namespace: Namespace(namespace.into()),
        name: "test".into(),
    };
    match w.command(Command::Call {
        caller,
        handle,
        verb: Verb::Open(Open::default()),
    }) {
        Some(Reply::Rejected(reject)) => refused::<()>(Err(reject)),
        _ => None,
    }
}

/// Nothing runs, so whatever is submitted stays.
fn limited(limits: Limits) -> World {
    World::limited(0, limits)
}

/// Tests' bodies are shorter than a KiB, so each counts as one.
fn kib(count: i64) -> Limits {
    Limits {
        queued_bytes: count << 10,
        ..Limits::default()
    }
}

const FULL: Refused = Some((Limit::QueuedBytes, 4 << 10, Some(1.0)));

#[test]
fn bytes_of_tasks_that_succeed_are_given_back() {
    let mut w = World::limited(10, kib(4));
    let s = w.open(plain);
    w.submit(s, [free(), free(), free()]);
    assert_eq!(submit(&mut w, s, [free(), free()]), FULL);
    w.succeed(s, [2]);
    assert_eq!(submit(&mut w, s, [free(), free()]), None);
    assert_eq!(submit(&mut w, s, [free()]), FULL);
}

#[test]
fn bytes_of_cancelled_released_and_blocked_tasks_are_given_back() {
    let mut w = World::limited(1, kib(4));
    let s = w.open(|settings| settings.on_failure = OnFailure::CancelRest);
    w.submit(s, [order(1), order(2), order(2), order(2)]);
    assert_eq!(submit(&mut w, s, [free()]), FULL);
    w.cancel(s, 3);
    w.fail(s, 1);
    let other = w.open(plain);
    assert_eq!(
        submit(&mut w, other, [free(), free(), free(), free()]),
        None,
        "everything else was cancelled"
    );
    w.release(other, ReleaseMode::Cancel);
    w.report(other, 1, crate::core::Report::Stopped);
    assert_eq!(submit(&mut w, s, [free(), free(), free(), free()]), None);
}

#[test]
fn a_crash_forgets_no_byte_and_invents_none() {
    let mut w = World::limited(10, kib(4));
    let s = w.open(plain);
    w.submit(s, [free(), free()]);
    w.submit(s, [free(), free()]);
    w.succeed(s, [2, 3]);
    for _ in 0..2 {
        w.crash();
        assert_eq!(submit(&mut w, s, [free(), free(), free()]), FULL);
    }
    assert_eq!(submit(&mut w, s, [free(), free()]), None);
    w.rebuild();
    assert_eq!(submit(&mut w, s, [free()]), FULL);
    w.succeed(s, [1, 4, 5, 6]);
    assert_eq!(submit(&mut w, s, [free(), free(), free(), free()]), None);
}

#[test]
fn a_call_that_can_never_fit_is_not_asked_to_wait() {
    let mut w = limited(kib(4));
    let s = w.open(plain);
    assert_eq!(
        submit(&mut w, s, (0..5).map(|_| free())),
        Some((Limit::QueuedBytes, 4 << 10, None))
    );
}

/// A namespace that may submit ten tasks a second, and its scheduler.
fn ten_a_second() -> (World, Handle) {
    let mut w = limited(Limits {
        submit_rate: Some(10),
        ..Limits::default()
    });
    let s = w.open(plain);
    w.seconds(100.0);
    (w, s)
}

fn over_rate(seconds: f64) -> Refused {
    Some((Limit::SubmitRate, 10, Some(seconds)))
}

fn tasks(count: usize) -> impl Iterator<Item = Task> {
    iter::repeat_n(free(), count)
}

#[test]
fn a_namespace_submits_at_its_rate_and_saves_up_a_second() {
    let (mut w, s) = ten_a_second();
    assert_eq!(submit(&mut w, s, tasks(10)), None);
    assert_eq!(submit(&mut w, s, tasks(5)), over_rate(0.5));
    w.seconds(0.4);
    assert_eq!(
        submit(&mut w, s, tasks(5)),
        over_rate(0.1),
        "a refusal costs nothing"
    );
    assert_eq!(submit(&mut w, s, tasks(4)), None, "a smaller call fits");
    assert_eq!(submit(&mut w, s, tasks(1)), over_rate(0.1));
}

#[test]
fn a_call_above_the_rate_is_taken_whole_when_a_second_is_saved_up_and_the_next_ones_pay_for_it() {
    let (mut w, s) = ten_a_second();
    assert_eq!(submit(&mut w, s, tasks(1)), None);
    assert_eq!(
        submit(&mut w, s, tasks(50)),
        over_rate(0.1),
        "not on top of what was used within the second"
    );
    w.seconds(0.1);
    assert_eq!(submit(&mut w, s, tasks(50)), None);
    assert_eq!(submit(&mut w, s, tasks(1)), over_rate(4.1));
    w.seconds(4.0);
    assert_eq!(submit(&mut w, s, tasks(1)), over_rate(0.1));
    w.seconds(0.1);
    assert_eq!(submit(&mut w, s, tasks(1)), None);
}

#[test]
fn distinct_unfinished_orders_are_limited_and_nothing_else_counts_as_one() {
    let mut w = limited(Limits {
        unfinished_orders: 3,
        ..Limits::default()
    });
    let s = w.open(plain);
    let runs = || [order(1), free(), order(2), order(1), free(), order(2)];
    assert_eq!(submit(&mut w, s, runs()), None);
    assert_eq!(submit(&mut w, s, runs()), None, "they are there already");
    let full = |wait| Some((Limit::UnfinishedOrders, 3, wait));
    assert_eq!(
        submit(&mut w, s, [order(3), order(4)]),
        full(Some(1.0)),
        "all or nothing"
    );
    assert_eq!(submit(&mut w, s, [order(4)]), None);
    w.crash();
    assert_eq!(submit(&mut w, s, [order(5)]), full(Some(1.0)));
    assert_eq!(
        submit(&mut w, s, (1..5).map(order)),
        full(None),
        "it could never fit"
    );
    for seq in [1, 4, 7, 10] {
        w.cancel(s, seq);
    }
    assert_eq!(submit(&mut w, s, [order(5)]), None, "order 1 has ended");
}

#[test]
fn over_an_hour_a_namespace_gets_its_rate_and_no_more() {
    let mut w = limited(Limits {
        submit_rate: Some(7),
        ..Limits::default()
    });
    let s = w.open(plain);
    let mut accepted = 0;
    for _ in 0..36_000 {
        accepted += i64::from(submit(&mut w, s, [free()]).is_none());
        w.advance(Duration::from_millis(100));
    }
    assert!((7 * 3600..=7 * 3600 + 8).contains(&accepted), "{accepted}");
}

#[test]
fn a_repeated_call_is_answered_whatever_the_limits_say() {
    let mut w = limited(Limits {
        submit_rate: Some(1),
        queued_tasks: 2,
        ..Limits::default()
    });
    let s = w.open(plain);
    let first = w
        .try_submit(s, request(1, 1), [free(), free()])
        .expect("accepted");
    assert_eq!(w.try_submit(s, request(1, 1), [free(), free()]), Ok(first));
    assert!(submit(&mut w, s, [free()]).is_some());
}

#[test]
fn streams_are_counted_while_they_are_open() {
    let mut w = limited(Limits {
        streams: 2,
        ..Limits::default()
    });
    let (s, t) = (w.open(plain), w.open(plain));
    assert_eq!((watch(&mut w, s), watch(&mut w, t)), (None, None));
    assert_eq!(watch(&mut w, s), Some((Limit::Streams, 2, Some(1.0))));
    w.command(Command::StreamClosed(t));
    assert_eq!(watch(&mut w, s), None);
}

#[test]
fn streams_that_outlive_a_core_give_nothing_back_twice() {
    let mut w = limited(Limits {
        streams: 1,
        ..Limits::default()
    });
    let s = w.open(plain);
    watch(&mut w, s);
    w.rebuild();
    w.command(Command::StreamClosed(s));
    assert_eq!(watch(&mut w, s), None);
    assert_eq!(watch(&mut w, s), Some((Limit::Streams, 1, Some(1.0))));
}

#[test]
fn one_namespace_at_its_limits_takes_nothing_from_another() {
    let limits = Limits {
        open_schedulers: 1,
        queued_tasks: 1,
        submit_rate: Some(1),
        streams: 1,
        ..Limits::default()
    };
    let mut w = limited(limits);
    for namespace in ["default", "other"] {
        assert_eq!(open(&mut w, namespace), None);
        assert_eq!(
            open(&mut w, namespace),
            Some((Limit::OpenSchedulers, 1, Some(1.0)))
        );
    }
    w.crash();
    assert_eq!(
        open(&mut w, "other"),
        Some((Limit::OpenSchedulers, 1, Some(1.0)))
    );
}
