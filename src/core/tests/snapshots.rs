//! The copy that a forecast starts from: bounded whatever waits, and true as far as it goes.

use super::{
    fairness::executors::submit_in,
    world::{World, free, on_failure, order, plain, slots, sql},
};
use crate::core::{
    Handle, KindSnapshot, OnFailure, Order, Packed, Reply, Run, Seq, Snapshot, Spec, Submit,
    TaskOptions, Verb, Work, scheduler::queue::step_counter::steps_of,
};
use std::sync::Arc;

/// Spans and schedulers that one copy looks at, at most.
const MOST_STEPS: u64 = 40_000;

fn snapshot(w: &mut World, handle: Handle) -> Snapshot {
    snapshot_with(w, handle, &[])
}

fn snapshot_with(w: &mut World, handle: Handle, tasks: &[i64]) -> Snapshot {
    let tasks = tasks.iter().map(|task| Seq(*task)).collect();
    match w.call(handle, Verb::Snapshot(tasks)) {
        Reply::Snapshot(Some(snapshot)) => *snapshot,
        other => panic!("a snapshot was answered with {other:?}"),
    }
}

/// Tasks of these orders in turn: no two neighbours are alike.
fn alternating(orders: &[i64], each: u32, runs: usize) -> Arc<Submit> {
    let spec = Arc::new(Spec {
        work: sql(),
        options: TaskOptions::default(),
        trace: None,
    });
    let run = |at: usize| Run {
        count: each,
        order: Some(Order(orders[at % orders.len()])),
        spec: spec.clone(),
    };
    Arc::new(Submit {
        runs: (0..runs).map(run).collect(),
        bodies: Packed::new(vec![&b"select 1"[..]; runs * each as usize]),
        ..Submit::none()
    })
}

#[test]
fn of_ten_million_queued_tasks_a_bounded_part_is_copied_and_all_are_counted() {
    let mut w = World::new(8);
    let s = w.open(plain);
    // Fifty thousand spans that cannot be joined, and ten million tasks.
    for _ in 0..50 {
        w.call(s, Verb::Submit(alternating(&[1, 2], 200, 1_000)));
    }
    let others: Vec<Handle> = (0..2_000).map(|_| w.open(plain)).collect();
    for other in others {
        w.command(submit_in("default", other, 3));
    }
    let mut copy = None;
    let steps = steps_of(|| copy = Some(snapshot(&mut w, s)));
    let copy = copy.expect("a snapshot");
    assert!(steps <= MOST_STEPS, "{steps} steps");
    let own = &copy.scheduler;
    assert_eq!(own.unfinished, 10_000_000);
    assert!(own.waiting.len() <= 10_010, "{} spans", own.waiting.len());
    let counted: i64 = own.waiting.iter().map(|one| i64::from(one.count)).sum();
    let runs = own.running.len() as i64;
    assert_eq!(counted + runs + own.beyond, 10_000_000);
    assert_eq!(own.beyond, 0, "each order is counted as a whole");
    assert!(own.assumed > 0, "and it says what was not looked at");
    assert!(copy.crowded && copy.others.len() <= 500);
}

#[test]
fn orders_beyond_those_looked_at_are_counted_as_left_out() {
    let mut w = World::new(0);
    let s = w.open(plain);
    let orders: Vec<i64> = (1..=30_000).collect();
    w.call(s, Verb::Submit(alternating(&orders, 1, 30_000)));
    let copy = snapshot_with(&mut w, s, &[1, 30_000]);
    assert!(copy.scheduler.waiting.len() <= 20_000);
    let counted = copy.scheduler.waiting.len() as i64;
    assert_eq!(counted + copy.scheduler.beyond, 30_000);
    assert_eq!(copy.unfinished, [Seq(1), Seq(30_000)], "copied or not");
}

#[test]
fn what_runs_what_waits_and_what_comes_again_is_copied_with_its_attempts() {
    let mut w = World::new(2);
    let s = w.open(on_failure(OnFailure::Halt));
    let twice = order(1).with(|options| options.retry.max_attempts = Some(3));
    w.submit(s, [twice, order(1), order(2), order(2)]);
    w.fail(s, 1);
    let copy = snapshot(&mut w, s).scheduler;
    assert_eq!(copy.unfinished, 4);
    let running: Vec<i64> = copy.running.iter().map(|one| one.first.0).collect();
    assert_eq!(running, [2]);
    let again = copy.waiting.iter().find(|one| one.again_at.is_some());
    let again = again.expect("its next attempt is waited for");
    assert_eq!((again.first.0, again.past.failures), (1, 1));
    assert!(again.again_at > Some(w.now));
    let waiting = copy.waiting.iter().filter(|one| one.again_at.is_none());
    assert_eq!(waiting.map(|one| one.count).sum::<u32>(), 2);
}

#[test]
fn those_who_want_or_have_the_same_slots_are_copied_and_nobody_else() {
    let mut w = World::new(1);
    let (runs, waits, idle) = (w.open(plain), w.open(plain), w.open(plain));
    w.submit(runs, [free()]);
    w.submit(waits, [free()]);
    let s = w.open(plain);
    w.submit(s, [free()]);
    let copy = snapshot(&mut w, s);
    let others: Vec<Handle> = copy.others.iter().map(|one| one.image.handle).collect();
    assert!(others.contains(&runs) && others.contains(&waits));
    assert!(!others.contains(&idle) && !others.contains(&s));
}

#[test]
fn kinds_of_slots_that_only_rivals_need_are_apart_from_its_own() {
    let mut w = World::new(1);
    let secret = Work::Sql {
        target: "secret".into(),
    };
    w.command(slots(secret.clone(), 7));
    let (s, rival) = (w.open(plain), w.open(plain));
    w.submit(rival, [free(), free()]);
    let of_secret = Arc::new(Spec {
        work: secret.clone(),
        options: TaskOptions::default(),
        trace: None,
    });
    let run = Run {
        count: 1,
        order: None,
        spec: of_secret,
    };
    let submit = Submit {
        runs: vec![run],
        bodies: Packed::new(vec![&b"select 1"[..]]),
        ..Submit::none()
    };
    w.call(rival, Verb::Submit(Arc::new(submit)));
    w.submit(s, [free()]);
    let copy = snapshot(&mut w, s);
    let works = |kinds: &[KindSnapshot]| -> Vec<Work> {
        kinds.iter().map(|kind| kind.work.clone()).collect()
    };
    assert_eq!(works(&copy.kinds), [sql()]);
    assert_eq!(works(&copy.other_kinds), [secret]);
    assert_eq!(copy.other_kinds[0].total, 7);
}
