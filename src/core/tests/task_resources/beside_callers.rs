//! Callers and tasks that want the same resources.

use super::{PERMIT, WRITER, a_writer, needs, world};
use crate::core::{
    Mode, Refill, Reject, ResourceReject, ResourceSettings, ResourceVerb, Seq, TaskId, Verb,
    tests::{
        resources::{settings, spec},
        world::{NONE, World, free, plain},
    },
};
use std::{sync::Arc, time::Duration};

#[test]
fn callers_and_tasks_share_a_resource() {
    let (mut w, s) = world(4);
    let claim = w.claim("anna", &[("a", WRITER)]);
    w.submit(s, [a_writer()]);
    assert_eq!(w.running(s), NONE);
    w.give_back(claim);
    assert_eq!(w.running(s), [1]);
    let next = w.claim("anna", &[("a", WRITER)]);
    assert_eq!(w.token(next), None);
    let token = w.assignment(s, 1).resource_token.expect("it has one");
    w.succeed(s, [1]);
    assert!(w.token(next) > Some(token));
}

#[test]
fn an_endless_row_of_callers_does_not_keep_a_task_waiting() {
    let (mut w, s) = world(4);
    let mut held = w.claim("anna", &[("a", WRITER)]);
    w.submit(s, [a_writer()]);
    let passed = (0..200).take_while(|n| {
        let next = w.claim(&format!("caller {n}"), &[("a", WRITER)]);
        w.give_back(held);
        held = next;
        w.running(s).is_empty()
    });
    let passed = passed.count();
    assert!((90..=110).contains(&passed), "passed {passed} times");
    assert_eq!(w.running(s), [1]);
    w.succeed(s, [1]);
    assert!(w.token(held).is_some());
}

#[test]
fn a_task_for_which_it_is_kept_is_behind_those_who_stand_in_line_then() {
    let (mut w, s) = world(4);
    let mut held = w.claim("anna", &[("a", WRITER)]);
    w.submit(s, [a_writer()]);
    let callers = (0..600).map(|n| format!("caller {n}"));
    let waiting: Vec<i64> = callers
        .map(|name| w.claim(&name, &[("a", WRITER)]))
        .collect();
    let mut waiting = waiting.into_iter();
    for next in waiting.by_ref().take(150) {
        w.give_back(held);
        held = next;
    }
    let places = waiting.clone().map(|no| w.look(no).position);
    assert!(places.eq(1..=450));
    let last = w.claim("zoe", &[("a", WRITER)]);
    assert_eq!(w.look(last).position, 452);
    for next in waiting {
        assert_eq!(w.running(s), NONE);
        w.give_back(held);
        held = next;
    }
    w.give_back(held);
    assert_eq!((w.running(s), w.token(last)), (vec![1], None));
    w.succeed(s, [1]);
    assert!(w.token(last).is_some());
}

#[test]
fn what_is_kept_for_a_task_closes_no_circle() {
    let (mut w, s) = world(4);
    let anna = w.claim("anna", &[("pool", PERMIT)]);
    let zed = w.claim("zed", &[("a", WRITER)]);
    w.submit(
        s,
        [needs(free(), &[("a", WRITER), ("pool", Mode::Shared(2))])],
    );
    let waits = w.claim("anna", &[("a", WRITER)]);
    for n in 0..150 {
        let passes = w.claim(&format!("caller {n}"), &[("pool", PERMIT)]);
        if w.token(passes).is_none() {
            w.give_back(zed);
            assert!(
                w.token(waits).is_some(),
                "anna waits for the task, which waits for anna"
            );
            w.give_back(waits);
            w.give_back(anna);
            assert_eq!(w.running(s), [1]);
            return;
        }
        w.give_back(passes);
    }
    panic!("nothing was ever kept for the task");
}

#[test]
fn what_is_kept_for_a_task_is_free_when_it_may_not_start() {
    let (mut w, s) = world(4);
    let pool = w.claim("pool", &[("pool", PERMIT)]);
    let held = w.claim("anna", &[("a", WRITER)]);
    w.submit(s, [needs(free(), &[("a", WRITER), ("pool", PERMIT)])]);
    for _ in 0..150 {
        let claim = w.claim("passing", &[("pool", PERMIT)]);
        match w.token(claim) {
            Some(_) => w.give_back(claim),
            None => {
                // It is kept for the task.
                w.call(s, Verb::Pause);
                assert!(w.token(claim).is_some());
                w.give_back(claim);
                w.give_back(held);
                let ignore_failures = false;
                w.call(s, Verb::Resume { ignore_failures });
                assert_eq!(w.running(s), [1]);
                w.give_back(pool);
                return;
            }
        }
    }
    panic!("nothing was ever kept for the task");
}

#[test]
fn a_task_has_its_permit_of_a_rate_when_that_has_come_back() {
    let (mut w, s) = world(4);
    w.define(
        "mail",
        ResourceSettings {
            refill: Some(Refill {
                permits: 10,
                period: Duration::from_secs(20),
            }),
            ..settings(10)
        },
    );
    w.claim("", &[("mail", Mode::Shared(10))]);
    w.submit(s, [needs(free(), &[("mail", PERMIT)])]);
    w.seconds(1.9);
    assert_eq!(w.running(s), NONE);
    w.seconds(0.2);
    assert_eq!(w.running(s), [1]);
}

/// Callers pass a task that waits for a permit of the pool and for something else.
fn pass_until_it_is_kept(w: &mut World) {
    let is_kept = (0..150).any(|_| {
        let claim = w.claim("passing", &[("pool", PERMIT)]);
        let is_held = w.token(claim).is_some();
        w.give_back(claim);
        !is_held
    });
    assert!(is_kept, "it is kept for the task");
}

#[test]
fn a_task_for_which_it_is_kept_does_not_count_as_a_claim_that_waits() {
    let (mut w, s) = world(4);
    w.claim("pool", &[("pool", PERMIT)]);
    w.claim("anna", &[("a", WRITER)]);
    w.submit(s, [needs(free(), &[("a", WRITER), ("pool", PERMIT)])]);
    pass_until_it_is_kept(&mut w);
    for name in ["a", "pool"] {
        let view = w.resource(name);
        assert!(view.tasks[0].is_kept);
        assert_eq!((view.waiting, view.lines), (0, 1), "{name}");
    }
}

#[test]
fn a_circle_through_a_line_of_tasks_is_refused_and_who_only_stands_behind_it_waits() {
    let (mut w, s) = world(4);
    w.define("x", settings(1));
    w.claim("pool", &[("pool", PERMIT)]);
    w.claim("anna", &[("a", WRITER)]);
    w.claim("bob", &[("x", WRITER)]);
    w.submit(s, [needs(free(), &[("a", WRITER), ("pool", PERMIT)])]);
    pass_until_it_is_kept(&mut w);
    let behind = w.claim("bob", &[("pool", PERMIT)]);
    assert_eq!(w.token(behind), None);
    let closes_a_circle = w.ask(ResourceVerb::Acquire {
        spec: Arc::new(spec("anna", &[("pool", Mode::Shared(2))])),
        if_free: false,
    });
    let refused = format!("{:?}", closes_a_circle.err());
    assert!(refused.contains("CircularWait"), "{refused}");
    assert!(refused.contains(&format!("task {s}/1")), "{refused}");
}

#[test]
fn an_operator_ends_what_a_task_holds_and_nobody_else() {
    let (mut w, s) = world(4);
    w.submit(s, [a_writer(), a_writer()]);
    let held = w.held("a")[0].no;
    let token = w.assignment(s, 1).resource_token;
    let task = TaskId {
        handle: s,
        seq: Seq(1),
    };
    let refused = w.ask(ResourceVerb::Release { claim: held, token });
    let of_task = Reject::Resource(ResourceReject::ClaimOfTask(task));
    assert_eq!(
        format!("{:?}", refused.err()),
        format!("{:?}", Some(of_task))
    );
    let reason = "stuck".into();
    w.ask(ResourceVerb::ForceRelease {
        claim: held,
        reason,
    })
    .expect("it ends");
    assert_eq!(w.running(s), [1, 2]);
    w.succeed(s, [1]);
    assert_eq!(w.holders("a"), [2]);
}

/// Callers who take and give back a resource in turn; how many had to wait.
fn callers_wait(w: &mut World, name: &str) -> usize {
    let mut waiting = 0;
    for n in 0..250 {
        let claim = w.claim(&format!("caller {n}"), &[(name, WRITER)]);
        waiting += usize::from(w.token(claim).is_none());
        w.give_back(claim);
    }
    waiting
}

#[test]
fn nothing_is_kept_for_a_task_that_waits_for_slots_behind_others() {
    let (mut w, s) = world(1);
    w.submit(s, [free(), free(), a_writer()]);
    assert_eq!(callers_wait(&mut w, "a"), 0);
    w.succeed(s, [1]);
    assert_eq!(w.running(s), [2]);
    let held = w.claim("anna", &[("a", WRITER)]);
    w.succeed(s, [2]);
    w.give_back(held);
    assert_eq!(w.running(s), [3]);
}

#[test]
fn a_resource_that_nobody_gets_closes_no_other_one() {
    let (mut w, s) = world(4);
    w.resize("b", 0);
    w.submit(s, [needs(free(), &[("a", WRITER), ("b", WRITER)])]);
    assert_eq!(callers_wait(&mut w, "a"), 0);
    w.resize("b", 1);
    assert_eq!(w.running(s), [1]);
}

#[test]
fn a_task_whose_line_is_behind_a_claim_hides_no_later_one_that_is_before_it() {
    let (mut w, s) = world(4);
    let a = w.claim("anna", &[("a", WRITER)]);
    let b = w.claim("dora", &[("b", WRITER)]);
    w.submit(
        s,
        [
            a_writer(),
            a_writer(),
            needs(free(), &[("a", WRITER), ("pool", PERMIT)]),
        ],
    );
    let waits = w.claim("carl", &[("a", WRITER), ("b", WRITER)]);
    w.give_back(a);
    assert_eq!(w.running(s), [1]);
    w.succeed(s, [1]);
    assert_eq!(w.running(s), [3], "the second one is behind carl");
    w.succeed(s, [3]);
    w.give_back(b);
    assert!(w.token(waits).is_some());
}

#[test]
fn a_line_that_moves_back_hides_no_other_scheduler() {
    let (mut w, s) = world(4);
    let other = w.open(plain);
    let both = [("a", WRITER), ("b", WRITER)];
    let a = w.claim("anna", &[("a", WRITER)]);
    w.claim("dora", &[("b", WRITER)]);
    w.submit(s, [needs(free(), &both)]);
    w.submit(other, [a_writer()]);
    w.claim("carl", &both);
    w.submit(s, [a_writer()]);
    w.give_back(a);
    assert_eq!((w.running(s), w.running(other)), (NONE.into(), vec![1]));
}

#[test]
fn a_task_for_which_it_is_kept_goes_before_later_ones_of_its_scheduler() {
    let (mut w, s) = world(1);
    w.define("x/*", settings(1));
    let b = w.claim("dora", &[("b", WRITER)]);
    let later = |n| {
        needs(
            free(),
            &[("a", WRITER), (format!("x/{n}").as_str(), WRITER)],
        )
    };
    let first = needs(free(), &[("a", WRITER), ("b", WRITER)]);
    w.submit(s, [first].into_iter().chain((0..200).map(later)));
    for seq in 2..=150 {
        assert_eq!(w.running(s), [seq]);
        w.succeed(s, [seq]);
    }
    w.give_back(b);
    w.succeed(s, [151]);
    assert_eq!(w.running(s), [1]);
}

#[test]
fn a_task_behind_one_that_cannot_start_is_not_passed_for_ever() {
    let (mut w, s) = world(4);
    w.resize("b", 0);
    let mut held = w.claim("anna", &[("a", WRITER)]);
    w.submit(
        s,
        [needs(free(), &[("a", WRITER), ("b", WRITER)]), a_writer()],
    );
    for n in 0..250 {
        let next = w.claim(&format!("caller {n}"), &[("a", WRITER)]);
        w.give_back(held);
        held = next;
        if w.running(s) == [2] {
            return;
        }
    }
    panic!("it is passed for ever");
}

#[test]
fn a_task_of_a_scheduler_at_its_limit_is_not_passed_for_ever() {
    let mut w = world(4).0;
    let s = w.open(|settings| settings.max_parallelism = Some(1));
    let mut held = w.claim("anna", &[("a", WRITER)]);
    w.submit(s, [a_writer()].into_iter().chain((0..250).map(|_| free())));
    for n in 0..250 {
        let next = w.claim(&format!("caller {n}"), &[("a", WRITER)]);
        w.give_back(held);
        held = next;
        let running = w.running(s);
        if running == [1] {
            return;
        }
        w.succeed(s, running);
    }
    panic!("it is passed for ever");
}

#[test]
fn what_comes_back_of_a_rate_while_there_are_no_slots_is_used_when_there_are() {
    let (mut w, s) = world(0);
    w.define("key/*", settings(1));
    w.define(
        "mail",
        ResourceSettings {
            refill: Some(Refill {
                permits: 10,
                period: Duration::from_secs(10),
            }),
            ..settings(10)
        },
    );
    w.claim("", &[("mail", Mode::Shared(10))]);
    let task = |n| {
        let key = format!("key/{n}");
        needs(free(), &[(key.as_str(), WRITER), ("mail", PERMIT)])
    };
    w.submit(s, (0..5).map(task));
    w.seconds(1.0);
    w.seconds(4.0);
    w.set_slots(6);
    w.seconds(0.01);
    assert_eq!(w.running(s).len(), 5);
}
