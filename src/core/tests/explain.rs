//! Why a task does not run: each rule that keeps it from starting is named, in the order in which
//! the rules are asked, and an answer costs the same however much waits.

use super::world::{World, free, on_failure, order, plain, slots, sql};
use crate::core::{
    Ahead, Blocker, Delivery, DoneNo, Explanation, Halt, HaltFailures, Handle, OnFailure, Order,
    Reject, ReleaseMode, Reply, Report, Seq, Settings, Share, TaskOptions, TaskRef, TaskState,
    Verb, Work, model::limits::Limits, scheduler::queue::step_counter::steps_of,
};
use std::time::Duration;

fn explain(w: &mut World, s: Handle, seq: i64) -> Explanation {
    match w.call(s, Verb::Explain(w.remembered.place(s, seq))) {
        Reply::Explained(Some(explanation)) => *explanation,
        other => panic!("task {seq} is explained with {other:?}"),
    }
}

fn blockers(w: &mut World, s: Handle, seq: i64) -> Vec<Blocker> {
    explain(w, s, seq).blockers
}

fn in_parallel(max: u32) -> impl FnOnce(&mut Settings) {
    move |settings| settings.max_parallelism = Some(max)
}

/// `total` slots are busy.
fn busy(total: u32) -> Blocker {
    Blocker::Slots { total, busy: total }
}

fn lower(current: i64, unfinished: i64, tasks: &[i64]) -> Blocker {
    Blocker::LowerOrder {
        current: Order(current),
        unfinished,
        tasks: tasks.iter().copied().map(Seq).collect(),
    }
}

#[test]
fn a_task_waits_for_the_lower_orders_that_are_unfinished() {
    let mut w = World::new(3);
    let s = w.open(plain);
    w.submit(
        s,
        [order(100), order(100), order(100), order(200), order(300)],
    );
    w.succeed(s, [2]);
    assert_eq!(blockers(&mut w, s, 4), [lower(100, 2, &[1, 3])]);
    let last = explain(&mut w, s, 5);
    assert_eq!(last.blockers, [lower(100, 2, &[1, 3])]);
    let ahead = last.ahead.expect("it waits");
    assert_eq!((ahead.tasks, ahead.in_lower_orders), (0, 3));
}

#[test]
fn of_a_lower_order_what_runs_is_named_first_and_not_everything() {
    let mut w = World::new(2);
    let s = w.open(plain);
    let later = w.now + Duration::from_secs(60);
    w.submit(s, [order(1).with(|o| o.not_before = Some(later))]);
    w.submit(s, vec![order(1); 20]);
    w.submit(s, [order(2)]);
    let named = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
    assert_eq!(blockers(&mut w, s, 22)[0], lower(1, 21, &named));
    w.succeed(s, 2..=21);
    assert_eq!(blockers(&mut w, s, 22), [lower(1, 1, &[1])]);
}

#[test]
fn a_task_waits_for_its_time_and_for_its_next_attempt() {
    let mut w = World::new(2);
    let s = w.open(plain);
    let at = w.now + Duration::from_secs(60);
    w.submit(
        s,
        [
            free().with(|o| o.not_before = Some(at)),
            free().with(|o| o.retry.max_attempts = Some(3)),
        ],
    );
    w.lose(s, 2);
    w.advance(Duration::from_secs(5));
    w.fail(s, 2);
    assert_eq!(blockers(&mut w, s, 1), [Blocker::NotBefore { at }]);
    let retrying = explain(&mut w, s, 2);
    let TaskState::Retrying { next_at } = retrying.state else {
        panic!("{retrying:?}")
    };
    let waits = Blocker::NextAttempt {
        at: next_at,
        failures: 1,
        losses: 1,
    };
    assert_eq!((retrying.blockers, retrying.attempt.0), (vec![waits], 2));
}

#[test]
fn a_pause_a_halt_and_a_full_limit_are_named_in_this_order() {
    let mut w = World::new(4);
    let s = w.open(|settings| {
        in_parallel(1)(settings);
        on_failure(OnFailure::Halt)(settings);
    });
    w.submit(s, [order(1), order(1), order(2), free()]);
    w.fail(s, 1);
    w.call(s, Verb::Pause);
    let halted = Blocker::Halted(Halt {
        order: Order(1),
        failed: vec![Seq(1)],
        failures: Some(Box::new(HaltFailures {
            since: DoneNo(1),
            by_order: [(Order(1), 1)].into(),
            ..HaltFailures::default()
        })),
    });
    let limit = Blocker::Limit {
        max: 1,
        running: 1,
        in_doubt: 0,
    };
    assert_eq!(
        blockers(&mut w, s, 3),
        [Blocker::Paused, halted, lower(1, 1, &[2]), limit.clone()]
    );
    assert_eq!(blockers(&mut w, s, 4), [Blocker::Paused, limit.clone()]);
    w.call(
        s,
        Verb::Resume {
            ignore_failures: true,
        },
    );
    assert_eq!(blockers(&mut w, s, 3), [lower(1, 1, &[2]), limit.clone()]);
    assert_eq!(blockers(&mut w, s, 4), [limit]);
}

#[test]
fn a_limit_counts_the_tasks_that_come_first() {
    let mut w = World::new(0);
    let s = w.open(in_parallel(2));
    w.submit(s, vec![free(); 3]);
    let limit = Blocker::Limit {
        max: 2,
        running: 0,
        in_doubt: 0,
    };
    assert_eq!(blockers(&mut w, s, 2), [Blocker::Away]);
    assert_eq!(blockers(&mut w, s, 3), [limit, Blocker::Away]);
    w.set_slots(10);
    assert_eq!(w.running(s), [1, 2], "as explained");
}

#[test]
fn slots_are_busy_away_or_nowhere() {
    let mut w = World::new(3);
    let s = w.open(plain);
    let elsewhere = Work::Sql {
        target: "other".into(),
    };
    w.submit(s, vec![free(); 4]);
    w.submit(s, [free().work(elsewhere)]);
    assert_eq!(blockers(&mut w, s, 4), [busy(3)]);
    assert_eq!(blockers(&mut w, s, 5), [Blocker::NoExecutor]);
    w.command(slots(sql(), 0));
    assert_eq!(blockers(&mut w, s, 4), [Blocker::Away]);
}

#[test]
fn a_free_slot_may_be_for_others() {
    let mut w = World::new(5);
    let s = w.open(plain);
    w.submit(s, vec![free(); 6]);
    let reserved = Blocker::Slots { total: 5, busy: 4 };
    assert_eq!(blockers(&mut w, s, 5), [reserved]);
}

#[test]
fn the_share_says_how_many_are_next() {
    let mut w = World::new(2);
    let (hog, rival) = (w.open(plain), w.open_in("other", plain));
    w.submit(hog, vec![free(); 3]);
    let newcomer = w.open(plain);
    w.submit(newcomer, [free()]);
    w.command(super::fairness::executors::submit_in("other", rival, 1));
    let share = |namespaces, schedulers| {
        Blocker::Share(Share {
            namespaces,
            schedulers,
            exact: true,
            held_by_namespace: 2,
            held: 2,
        })
    };
    assert_eq!(blockers(&mut w, hog, 3), [busy(2), share(1, 1)]);
    let behind_the_rival = Share {
        namespaces: 1,
        schedulers: 0,
        exact: true,
        held_by_namespace: 2,
        held: 0,
    };
    assert_eq!(
        blockers(&mut w, newcomer, 1),
        [busy(2), Blocker::Share(behind_the_rival)]
    );
    w.succeed(hog, [1]);
    assert_eq!(w.running(rival), [1], "as explained");
    assert_eq!(blockers(&mut w, newcomer, 1), [busy(2)]);
}

/// Slices that leave much to the next one.
fn small() -> Limits {
    Limits {
        slice: 2,
        slice_pause: Duration::from_secs(1),
        ..Limits::default()
    }
}

#[test]
fn a_cancellation_under_way_says_what_it_covers() {
    let mut w = World::limited(0, small());
    let s = w.open(plain);
    w.submit(s, vec![order(1); 9]);
    w.release(s, ReleaseMode::Cancel);
    let cancelled = Blocker::Cancellation {
        covered: true,
        above: None,
        release: Some(ReleaseMode::Cancel),
    };
    assert_eq!(blockers(&mut w, s, 9), [cancelled, Blocker::Away]);

    let s = w.open(on_failure(OnFailure::CancelRest));
    w.set_slots(3);
    w.submit(s, [order(1), order(1)]);
    w.submit(s, vec![order(2); 9]);
    w.fail(s, 1);
    w.submit(s, [order(2)]);
    let cancellation = |covered| Blocker::Cancellation {
        covered,
        above: Some(Order(1)),
        release: None,
    };
    let lower = lower(1, 1, &[2]);
    assert_eq!(blockers(&mut w, s, 11), [cancellation(true), lower.clone()]);
    assert_eq!(blockers(&mut w, s, 12), [cancellation(false), lower]);
}

#[test]
fn nothing_starts_while_deadlines_that_have_passed_are_still_to_be_noted() {
    let mut w = World::limited(2, small());
    let s = w.open(plain);
    w.call(s, Verb::Pause);
    for _ in 0..9 {
        w.submit(
            s,
            [free().with(|o| o.deadline = Some(Duration::from_secs(1)))],
        );
    }
    w.submit(s, [free()]);
    let deadline = explain(&mut w, s, 9).deadline;
    assert_eq!(deadline, Some(w.now + Duration::from_secs(1)));
    w.now = w.now + Duration::from_secs(2);
    let own = |own| Blocker::Overdue { own };
    assert_eq!(blockers(&mut w, s, 9), [Blocker::Paused, own(true)]);
    assert_eq!(blockers(&mut w, s, 10), [Blocker::Paused, own(false)]);
}

#[test]
fn what_may_run_on_a_lost_host_is_in_doubt_and_counts_under_the_limit() {
    let mut w = World::new(2);
    let s = w.open(in_parallel(2));
    w.submit(s, vec![order(1); 3]);
    w.submit(s, [order(2)]);
    w.running.clear();
    w.take_over();
    w.commands([]);
    let lost = explain(&mut w, s, 1);
    assert!(matches!(lost.state, TaskState::Running { .. }));
    assert_eq!((lost.blockers, lost.ahead), (vec![Blocker::InDoubt], None));
    let limit = Blocker::Limit {
        max: 2,
        running: 2,
        in_doubt: 2,
    };
    let lower = lower(1, 3, &[1, 2, 3]);
    assert_eq!(blockers(&mut w, s, 4), [lower, limit.clone()]);
    assert_eq!(blockers(&mut w, s, 3), [limit]);
}

#[test]
fn a_lost_attempt_that_may_have_committed_says_that_its_target_is_asked() {
    let mut w = World::new(1);
    let s = w.open(plain);
    let once = |o: &mut TaskOptions| o.delivery = Some(Delivery::ExactlyOnce);
    w.submit(s, [order(1).with(once), order(2)]);
    w.report(s, 1, Report::Lost);
    assert_eq!(blockers(&mut w, s, 1), [Blocker::Resolving]);
    assert_eq!(blockers(&mut w, s, 2), [lower(1, 1, &[1])]);
}

#[test]
fn what_runs_is_blocked_by_nothing_and_what_has_ended_is_not_explained() {
    let mut w = World::new(2);
    let s = w.open(plain);
    w.submit(s, [free(), free()]);
    w.succeed(s, [2]);
    w.cancel(s, 1);
    let running = explain(&mut w, s, 1);
    assert_eq!((running.blockers, running.stopping), (vec![], true));
    let place = |seq| TaskRef {
        seq: Seq(seq),
        order: None,
    };
    let ended = w.call(s, Verb::Explain(place(2)));
    assert!(matches!(ended, Reply::Explained(None)), "{ended:?}");
    for seq in [0, 3] {
        let nothing = w.call(s, Verb::Explain(place(seq)));
        assert!(matches!(nothing, Reply::Rejected(Reject::UnknownTask)));
    }
}

#[test]
fn its_place_counts_what_is_handed_out_before_it() {
    let mut w = World::new(1);
    let s = w.open(plain);
    // 1 runs.
    w.submit(s, [order(5), free(), order(5), free(), order(6), free()]);
    let mut ahead = |seq| explain(&mut w, s, seq).ahead.expect("it waits").tasks;
    assert_eq!([2, 3, 4, 5, 6].map(&mut ahead), [0, 1, 2, 2, 3]);
}

#[test]
fn an_answer_costs_the_same_however_much_waits() {
    let mut w = World::new(1);
    let s = w.open(plain);
    let unlike = |at: u64| free().with(move |o| o.timeout = Some(Duration::from_secs(1 + at)));
    let steps_of_last = |w: &mut World| {
        let last = w.shard.schedulers.expect(s).highest_seq.0;
        let mut ahead = None;
        let steps = steps_of(|| ahead = explain(w, s, last).ahead);
        (steps, ahead.expect("it waits"))
    };
    // Ten million alike are one span.
    for _ in 0..1_000 {
        w.submit(s, vec![free(); 10_000]);
    }
    let (steps, ahead) = steps_of_last(&mut w);
    assert!(steps < 100, "{steps} steps");
    let expected = Ahead {
        tasks: 9_999_998,
        exact: true,
        in_lower_orders: 0,
    };
    assert_eq!(ahead, expected);
    // Of those that are not alike so many are counted.
    for at in 0..20 {
        w.submit(s, (0..1_000).map(|one| unlike(at * 1_000 + one)));
    }
    let (steps, ahead) = steps_of_last(&mut w);
    let limit = Limits::DEFAULT.listing_steps as u64;
    assert!(steps < 2 * limit, "{steps} steps");
    assert!(!ahead.exact && ahead.tasks > 10_000_000, "{ahead:?}");
}
