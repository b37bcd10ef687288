//! Calls that are repeated, refused, or ask about streams.

use super::world::{World, free, order, plain, request};
use crate::core::{
    Caller, Cancel, Command, DoneNo, Namespace, Open, Order, Reject, ReleaseMode, Reply, Request,
    Until, Verb,
    model::limits::{Limit, Limits},
};
use std::sync::Arc;

fn open(handle: crate::core::Handle, request: Option<Request>) -> Command {
    World::say(
        handle,
        Verb::Open(Open {
            request,
            ..Open::default()
        }),
    )
}

fn opened(reply: Option<Reply>) -> Result<crate::core::Handle, Reject> {
    match reply {
        Some(Reply::Scheduler(view)) => Ok(view.image.handle),
        Some(Reply::Rejected(reject)) => Err(reject),
        other => panic!("an open was answered with {other:?}"),
    }
}

fn outstanding(w: &mut World, s: crate::core::Handle, until: Until) -> (i64, i64) {
    match w.call(
        s,
        Verb::Watch {
            after: DoneNo(0),
            until,
            last_seq: None,
        },
    ) {
        Reply::Watching {
            outstanding,
            last_seq,
            ..
        } => (outstanding, last_seq.0),
        other => panic!("a watch was answered with {other:?}"),
    }
}

#[test]
fn a_repeated_submit_gets_the_same_ids_even_after_a_recovery() {
    let mut w = World::new(10);
    let s = w.open(plain);
    let first = w.try_submit(s, request(1, 5), [order(1), order(2)]);
    w.succeed(s, [1]);
    assert_eq!(w.try_submit(s, request(1, 5), [order(1), order(2)]), first);
    w.crash();
    assert_eq!(w.try_submit(s, request(1, 5), [order(1), order(2)]), first);
    assert_eq!(
        w.try_submit(s, request(1, 6), [order(1)]),
        Err(Reject::RequestIdReused)
    );
    assert_eq!(w.submit(s, [order(2)]), 3);
}

#[test]
fn a_repeated_submit_is_answered_on_a_released_scheduler() {
    let mut w = World::new(10);
    let s = w.open(plain);
    let first = w.try_submit(s, request(1, 5), [order(1)]);
    w.release(s, ReleaseMode::Finish);
    w.succeed(s, [1]);
    assert_eq!(w.try_submit(s, request(1, 5), [order(1)]), first);
}

#[test]
fn a_request_id_is_forgotten_after_fifteen_minutes() {
    let mut w = World::new(10);
    let s = w.open(plain);
    w.try_submit(s, request(1, 5), [free()]).unwrap();
    w.seconds(899.0);
    assert_eq!(w.try_submit(s, request(1, 5), [free()]), Ok((1, 0)));
    w.seconds(2.0);
    assert_eq!(w.try_submit(s, request(1, 6), [free()]), Ok((2, 0)));
}

#[test]
fn a_repeated_open_gets_the_same_scheduler_even_after_a_recovery() {
    let mut w = World::new(10);
    let (a, b) = (w.new_handle(), w.new_handle());
    assert_eq!(opened(w.command(open(a, request(1, 5)))), Ok(a));
    assert_eq!(opened(w.command(open(b, request(1, 5)))), Ok(a));
    w.crash();
    assert_eq!(opened(w.command(open(b, request(1, 5)))), Ok(a));
    assert_eq!(
        opened(w.command(open(b, request(1, 6)))),
        Err(Reject::RequestIdReused)
    );
}

#[test]
fn an_id_that_was_used_again_after_its_time_gives_the_newer_scheduler() {
    let limits = Limits {
        ended_schedulers: 0,
        ..Limits::default()
    };
    let mut w = World::limited(10, limits);
    let (a, b, c) = (w.new_handle(), w.new_handle(), w.new_handle());
    assert_eq!(opened(w.command(open(a, request(1, 5)))), Ok(a));
    w.seconds(16.0 * 60.0);
    assert_eq!(opened(w.command(open(b, request(1, 5)))), Ok(b));
    w.release(b, ReleaseMode::Finish);
    w.commands([]);
    for crash in [false, true] {
        if crash {
            w.crash();
        }
        // The journal says that it is `b`.
        assert_eq!(
            opened(w.command(open(c, request(1, 5)))),
            Err(Reject::UnknownHandle)
        );
    }
}

#[test]
fn what_is_released_changes_no_more_and_what_is_being_released_may() {
    let mut w = World::new(10);
    let s = w.open(plain);
    w.submit(s, [free()]);
    w.release(s, ReleaseMode::Finish);
    assert!(matches!(w.call(s, Verb::Pause), Reply::Scheduler(_)));
    let resume = Verb::Resume {
        ignore_failures: false,
    };
    assert!(matches!(w.call(s, resume.clone()), Reply::Scheduler(_)));
    w.succeed(s, [1]);
    for verb in [Verb::Pause, resume] {
        let reply = w.call(s, verb);
        assert!(
            matches!(reply, Reply::Rejected(Reject::Released)),
            "{reply:?}"
        );
    }
}

#[test]
fn a_handle_is_never_given_to_two_schedulers() {
    let mut w = World::new(10);
    let s = w.open(plain);
    w.submit(s, [free(), free()]);
    w.command(open(s, None));
    assert_eq!(w.progress(s).pending, 2, "what is there stays");
}

#[test]
fn another_namespace_sees_what_is_not_there() {
    let mut w = World::new(10);
    let s = w.open_in("theirs", plain);
    for verb in [
        Verb::Describe,
        Verb::Pause,
        Verb::Release(ReleaseMode::Cancel),
        Verb::Cancel(Arc::new(Cancel::one(w.remembered.place(s, 1)))),
    ] {
        assert!(matches!(
            w.call(s, verb),
            Reply::Rejected(Reject::UnknownHandle)
        ));
    }
    let caller = Caller {
        namespace: Namespace("theirs".into()),
        name: "t".into(),
    };
    let own = w.command(Command::Call {
        caller,
        handle: s,
        verb: Verb::Describe,
    });
    assert!(matches!(own, Some(Reply::Scheduler(_))));
}

#[test]
fn over_a_limit_nothing_is_half_done() {
    let limits = Limits {
        open_schedulers: 1,
        queued_tasks: 3,
        unfinished_orders: 2,
        ..Limits::default()
    };
    let mut w = World::limited(0, limits);
    let s = w.open(plain);
    let second = w.new_handle();
    assert!(matches!(
        opened(w.command(open(second, None))),
        Err(Reject::LimitReached {
            limit: Limit::OpenSchedulers,
            ..
        })
    ));
    w.submit(s, [free(), free()]);
    let full = w.try_submit(s, None, [free(), free()]);
    assert!(
        matches!(
            full,
            Err(Reject::LimitReached {
                limit: Limit::QueuedTasks,
                ..
            })
        ),
        "{full:?}"
    );
    w.cancel(s, 1);
    let orders = w.try_submit(s, None, [order(1), order(2), order(3)]);
    assert!(
        matches!(orders, Err(Reject::LimitReached { .. })),
        "{orders:?}"
    );
    assert_eq!(w.submit(s, [order(1), order(2)]), 3);
}

#[test]
fn a_stream_with_nothing_outstanding_ends_at_once() {
    let mut w = World::new(10);
    let s = w.open(plain);
    assert_eq!(outstanding(&mut w, s, Until::All), (0, 0));
    w.submit(s, [order(1), free()]);
    w.succeed(s, [1, 2]);
    assert_eq!(outstanding(&mut w, s, Until::All), (0, 2));
}

#[test]
fn the_goal_of_a_stream_counts_its_orders_only() {
    let mut w = World::new(10);
    let s = w.open(plain);
    w.submit(s, [order(1), order(1), order(2), order(3), free()]);
    assert_eq!(outstanding(&mut w, s, Until::All).0, 5);
    assert_eq!(outstanding(&mut w, s, Until::Order(Order(2))).0, 3);
    w.succeed(s, [1]);
    assert_eq!(outstanding(&mut w, s, Until::Order(Order(2))).0, 2);
    let resumed = Verb::Watch {
        after: DoneNo(1),
        until: Until::All,
        last_seq: Some(crate::core::Seq(3)),
    };
    let Reply::Watching { outstanding, .. } = w.call(s, resumed) else {
        panic!("watching")
    };
    assert_eq!(outstanding, 2, "a resumed stream keeps its goal");
    let resumed = |until| Verb::Watch {
        after: DoneNo(1),
        until,
        last_seq: Some(crate::core::Seq(3)),
    };
    for (order, expected) in [(1, 1), (2, 2), (3, 2)] {
        let Reply::Watching { outstanding, .. } = w.call(s, resumed(Until::Order(Order(order))))
        else {
            panic!("watching")
        };
        assert_eq!(outstanding, expected, "up to order {order}");
    }
}

#[test]
fn a_cursor_beyond_the_last_event_is_refused() {
    let mut w = World::new(10);
    let s = w.open(plain);
    let reply = w.call(
        s,
        Verb::Watch {
            after: DoneNo(1),
            until: Until::All,
            last_seq: None,
        },
    );
    assert!(matches!(
        reply,
        Reply::Rejected(Reject::CursorAhead { last: DoneNo(0) })
    ));
}
