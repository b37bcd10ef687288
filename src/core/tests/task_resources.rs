//! Tasks that hold resources while they run: which of them start, in which order, and what becomes
//! of what they hold.

mod beside_callers;
mod many;
mod slices;
mod startable;

use super::{
    resources::settings,
    world::{NONE, Task, World, free, order, plain},
};
use crate::core::{
    Blocker, Caller, ClaimView, Handle, Mode, Namespace, PauseChange, PauseMode, Reject,
    ReleaseMode, Reply, Report, ResourceReject, ResourceReply, ResourceVerb, ResourceView, Verb,
    Want, Work,
};

const WRITER: Mode = Mode::Exclusive;
const PERMIT: Mode = Mode::Shared(1);

/// A task that needs resources; sorted by name.
fn needs(task: Task, wants: &[(&str, Mode)]) -> Task {
    let want = |(name, mode): &(&str, Mode)| Want {
        name: (*name).into(),
        mode: *mode,
    };
    task.with(|options| options.resources = wants.iter().map(want).collect())
}

pub(super) fn a_writer() -> Task {
    needs(free(), &[("a", WRITER)])
}

/// With resources `a` and `b` of one permit, and `pool` of two.
fn world(slots: u32) -> (World, Handle) {
    let mut w = World::new(slots);
    for (name, capacity) in [("a", 1), ("b", 1), ("pool", 2)] {
        w.define(name, settings(capacity));
    }
    let s = w.open(plain);
    (w, s)
}

impl World {
    fn resource(&mut self, name: &str) -> ResourceView {
        let verb = ResourceVerb::Get {
            name: name.into(),
            limit: 100,
        };
        match self.ask(verb) {
            Ok(ResourceReply::Resource(view, _)) => view,
            other => panic!("answered with {other:?}"),
        }
    }

    fn held(&mut self, name: &str) -> Vec<ClaimView> {
        self.resource(name).holders
    }

    /// The tasks that hold a resource, by number.
    fn holders(&mut self, name: &str) -> Vec<i64> {
        let holds = self.held(name);
        let tasks = holds.iter().filter_map(|hold| hold.spec.task);
        tasks.map(|task| task.seq.0).collect()
    }

    fn blockers(&mut self, s: Handle, seq: i64) -> Vec<Blocker> {
        let task = self.remembered.place(s, seq);
        match self.call(s, Verb::Explain(task)) {
            Reply::Explained(Some(explanation)) => explanation.blockers,
            other => panic!("answered with {other:?}"),
        }
    }
}

#[test]
fn a_task_waits_for_its_resources_without_a_slot_and_keeps_no_others_waiting() {
    let (mut w, s) = world(2);
    w.submit(s, [a_writer(), a_writer(), free()]);
    assert_eq!(w.running(s), [1, 3]);
    assert_eq!(w.holders("a"), [1]);
    w.succeed(s, [3]);
    assert_eq!(w.running(s), [1]);
    w.succeed(s, [1]);
    assert_eq!((w.running(s), w.holders("a")), (vec![2], vec![2]));
    w.succeed(s, [2]);
    assert_eq!(w.holders("a"), NONE);
}

#[test]
fn all_of_them_are_had_or_none() {
    let (mut w, s) = world(4);
    let both = needs(free(), &[("a", WRITER), ("b", WRITER)]);
    let b = needs(free(), &[("b", WRITER)]);
    w.submit(s, [a_writer(), both, b]);
    assert_eq!((w.running(s), w.holders("b")), (vec![1, 3], vec![3]));
    w.succeed(s, [1]);
    assert_eq!(w.running(s), [3]);
    w.succeed(s, [3]);
    assert_eq!((w.running(s), w.holders("a")), (vec![2], vec![2]));
}

#[test]
fn tasks_that_want_the_same_start_by_their_number() {
    let (mut w, s) = world(8);
    let permit = |order| needs(order, &[("pool", PERMIT)]);
    w.submit(s, (0..4).map(|_| permit(free())));
    assert_eq!(w.running(s), [1, 2]);
    w.succeed(s, [2]);
    assert_eq!(w.running(s), [1, 3]);
    w.succeed(s, [1, 3]);
    assert_eq!(w.running(s), [4]);
}

#[test]
fn a_task_of_a_later_order_is_not_in_line() {
    let (mut w, s) = world(4);
    let other = w.open(plain);
    w.submit(s, [order(1), needs(order(2), &[("a", WRITER)])]);
    w.submit(other, [a_writer()]);
    assert_eq!((w.running(s), w.running(other)), (vec![1], vec![1]));
    w.succeed(s, [1]);
    assert_eq!(w.running(s), NONE);
    w.succeed(other, [1]);
    assert_eq!(w.running(s), [2]);
}

#[test]
fn who_may_not_start_is_not_in_line() {
    let (mut w, s) = world(4);
    let other = w.open(plain);
    w.call(s, Verb::Pause);
    w.submit(s, [a_writer()]);
    w.submit(other, [a_writer()]);
    assert_eq!(w.running(other), [1]);
    w.succeed(other, [1]);
    assert_eq!(w.running(s), NONE);
    let ignore_failures = false;
    w.call(s, Verb::Resume { ignore_failures });
    assert_eq!(w.running(s), [1]);
}

#[test]
fn schedulers_take_turns_at_a_resource() {
    let (mut w, first) = world(8);
    let second = w.open(plain);
    w.submit(first, (0..10).map(|_| a_writer()));
    w.submit(second, (0..10).map(|_| a_writer()));
    let mut turns = Vec::new();
    for _ in 0..20 {
        let running = w.running[0].handle;
        turns.push(if running == first { 1 } else { 2 });
        w.seconds(1.0);
        let seq = w.running(running)[0];
        w.succeed(running, [seq]);
    }
    let of_first = turns[..10].iter().filter(|turn| **turn == 1).count();
    assert!((4..=6).contains(&of_first), "{turns:?}");
}

#[test]
fn a_retry_is_in_line_again() {
    let (mut w, s) = world(4);
    let again = a_writer().with(|options| {
        options.retry.max_attempts = Some(2);
        options.retry.jitter = Some(0.0);
    });
    w.submit(s, [again, a_writer()]);
    w.fail(s, 1);
    assert_eq!((w.running(s), w.holders("a")), (vec![2], vec![2]));
    w.seconds(2.0);
    assert_eq!(w.running(s), [2]);
    w.succeed(s, [2]);
    assert_eq!((w.running(s), w.holders("a")), (vec![1], vec![1]));
}

#[test]
fn what_a_task_holds_survives_a_crash_until_its_attempt_is_judged() {
    let (mut w, s) = world(4);
    w.submit(s, [a_writer(), a_writer()]);
    let token = w.assignment(s, 1).resource_token;
    w.running.clear();
    w.take_over();
    assert_eq!((w.running(s), w.holders("a")), (NONE.to_vec(), vec![1]));
    w.clear(crate::core::Unreported::MayHaveBegun);
    w.seconds(1.0);
    assert_eq!((w.running(s), w.holders("a")), (vec![1], vec![1]));
    assert!(w.assignment(s, 1).resource_token > token);
    w.rebuild();
    assert_eq!(w.holders("a"), [1]);
    w.succeed(s, [1]);
    assert_eq!((w.running(s), w.holders("a")), (vec![2], vec![2]));
}

#[test]
fn an_executor_that_is_still_there_after_a_takeover_keeps_what_its_task_holds() {
    let (mut w, s) = world(4);
    w.submit(s, [a_writer(), a_writer()]);
    let survivors = std::mem::take(&mut w.running);
    w.take_over();
    w.reported(&survivors);
    w.clear(crate::core::Unreported::MayHaveBegun);
    assert_eq!((w.running(s), w.holders("a")), (vec![1], vec![1]));
    w.succeed(s, [1]);
    assert_eq!(w.running(s), [2]);
}

#[test]
fn a_lost_attempt_holds_its_resources_until_its_target_has_said_what_it_did() {
    let (mut w, s) = world(4);
    let once = a_writer().with(|o| o.delivery = Some(crate::core::Delivery::ExactlyOnce));
    w.submit(s, [once, a_writer()]);
    w.report(s, 1, Report::Lost);
    assert_eq!((w.running(s), w.holders("a")), (NONE.to_vec(), vec![1]));
    w.resolved(s, 1, 1, Report::Succeeded(None));
    assert_eq!((w.running(s), w.holders("a")), (vec![2], vec![2]));
}

#[test]
fn a_task_that_is_cancelled_leaves_its_line() {
    let (mut w, s) = world(4);
    w.submit(s, [a_writer(), a_writer(), a_writer()]);
    w.cancel(s, 2);
    w.succeed(s, [1]);
    assert_eq!(w.running(s), [3]);
    w.release(s, ReleaseMode::Cancel);
    w.report(s, 3, Report::Stopped);
    w.seconds(1.0);
    assert_eq!(w.holders("a"), NONE);
}

#[test]
fn unknown_resources_and_too_many_permits_are_refused_with_their_place() {
    let (mut w, s) = world(4);
    let refused = |w: &mut World, task: Task| match w.try_submit(s, None, [free(), task]) {
        Err(Reject::TaskResource { index, reject, .. }) => (index, reject),
        other => panic!("answered with {other:?}"),
    };
    let unknown = refused(&mut w, needs(free(), &[("nowhere", WRITER)]));
    assert_eq!(
        unknown,
        (1, ResourceReject::UnknownResource("nowhere".into()))
    );
    let (index, reject) = refused(&mut w, needs(free(), &[("pool", Mode::Shared(3))]));
    assert_eq!(index, 1);
    assert!(matches!(
        reject,
        ResourceReject::TooManyPermits { capacity: 2, .. }
    ));
}

#[test]
fn a_resource_that_tasks_wait_for_cannot_be_deleted() {
    let (mut w, s) = world(0);
    w.submit(s, [a_writer()]);
    let deleted = w.ask(ResourceVerb::Delete("a".into()));
    let in_use = Reject::Resource(ResourceReject::ResourceInUse {
        holds: 0,
        waiting: 0,
    });
    assert_eq!(
        format!("{:?}", deleted.err()),
        format!("{:?}", Some(in_use))
    );
}

#[test]
fn a_task_that_comes_in_line_after_a_deletion_waits_for_a_new_definition() {
    let (mut w, s) = world(4);
    w.submit(s, [order(1), needs(order(2), &[("a", WRITER)])]);
    w.ask(ResourceVerb::Delete("a".into()))
        .expect("nobody is in line for it");
    w.succeed(s, [1]);
    assert_eq!(w.running(s), NONE);
    w.define("a", settings(1));
    assert_eq!(w.running(s), [2]);
}

#[test]
fn a_raised_capacity_lets_tasks_start() {
    let (mut w, s) = world(4);
    w.resize("a", 0);
    let permit = needs(free(), &[("a", PERMIT)]);
    w.submit(s, [permit.clone(), permit.clone(), permit]);
    assert_eq!(w.running(s), NONE);
    w.resize("a", 2);
    assert_eq!(w.running(s), [1, 2]);
    w.resize("a", 1);
    w.succeed(s, [1]);
    assert_eq!(w.running(s), [2]);
    w.succeed(s, [2]);
    assert_eq!(w.running(s), [3]);
}

#[test]
fn a_task_says_what_it_waits_for() {
    let (mut w, s) = world(4);
    w.submit(
        s,
        [a_writer(), needs(free(), &[("a", WRITER), ("b", WRITER)])],
    );
    let claim = w.claim("anna", &[("a", WRITER)]);
    let blockers = w.blockers(s, 2);
    let [Blocker::Resources(wanted)] = &blockers[..] else {
        panic!("explained with {blockers:?}");
    };
    assert_eq!(wanted.len(), 1);
    assert_eq!((&*wanted[0].resource, wanted[0].position), ("a", 1));
    let holder = wanted[0].holders[0].task.expect("a task holds it");
    assert_eq!((holder.handle, holder.seq.0), (s, 1));
    w.succeed(s, [1]);
    w.give_back(claim);
    w.set_slots(0);
    assert!(w.blockers(s, 2).iter().all(Blocker::is_about_slots) || w.running(s) == [2]);
}

#[test]
fn a_pause_of_the_target_lets_others_have_the_resource() {
    let (mut w, s) = world(4);
    let other = Work::Sql {
        target: "other".into(),
    };
    w.command(super::world::slots(other.clone(), 2));
    let pause = PauseChange {
        target: Some("app".into()),
        mode: Some(PauseMode::Drain),
        reason: "why".into(),
        by: "test".into(),
    };
    w.command(crate::core::Command::ChangePause(pause));
    w.submit(s, [a_writer(), a_writer().work(other)]);
    assert_eq!(w.running(s), [2]);
}

#[test]
fn names_of_other_namespaces_are_other_resources() {
    let (mut w, _) = world(4);
    let s = w.open_in("theirs", plain);
    let caller = Caller {
        namespace: Namespace("theirs".into()),
        name: "test".into(),
    };
    let submit = super::world::submission(None, [a_writer()]);
    let verb = Verb::Submit(submit.into());
    let command = crate::core::Command::Call {
        caller,
        handle: s,
        verb,
    };
    let refused = w.command(command);
    assert!(matches!(
        refused,
        Some(Reply::Rejected(Reject::TaskResource { .. }))
    ));
}
