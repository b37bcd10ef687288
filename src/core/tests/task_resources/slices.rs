//! Orders with as many lines as tasks: they join and leave a few at a time, and no more of them
//! stand there than there are tasks.

use super::{PERMIT, WRITER, needs};
use crate::core::{
    Handle, ReleaseMode, Verb,
    model::limits::Limits,
    scheduler::queue::step_counter::steps_of,
    tests::{
        resources::settings,
        world::{NONE, Task, World, free, order, plain},
    },
};

const SLICE: u32 = 20;

/// A world with small slices.
fn sliced(slots: u32) -> (World, Handle) {
    let limits = Limits {
        slice: SLICE,
        ..Limits::default()
    };
    let mut w = World::limited(slots, limits);
    w.define("key/*", settings(1));
    w.define("pool", settings(1_000));
    let s = w.open(plain);
    (w, s)
}

/// Tasks that want a resource of their own each, and one that all want.
fn with_keys(task: Task, keys: i64) -> impl Iterator<Item = Task> {
    (0..keys).map(move |n| {
        let key = format!("key/{n}");
        needs(task.clone(), &[(key.as_str(), WRITER), ("pool", PERMIT)])
    })
}

/// Settles until nothing is due, in batches of a few steps each.
fn settle_in_short_batches(w: &mut World) {
    while w.shard.next_due() <= w.now + Limits::DEFAULT.slice_pause {
        w.now = w.now.max(w.shard.next_due());
        in_a_short_batch(|| drop(w.commands([])));
    }
}

fn in_a_short_batch(work: impl FnOnce()) {
    let steps = steps_of(work);
    assert!(steps <= 200, "{steps} steps in one batch");
}

fn resume() -> Verb {
    let ignore_failures = false;
    Verb::Resume { ignore_failures }
}

/// Lines that count for their scheduler and could have what they want.
fn ready(w: &World, s: Handle) -> i64 {
    let lines = &w.shard.schedulers.expect(s).lines;
    lines.ready_counts().map(|(_, count)| count).sum()
}

/// All lines, those too that are to leave.
fn all_lines(w: &mut World) -> usize {
    w.resource("pool").lines
}

#[test]
fn lines_join_and_leave_a_few_at_a_time() {
    let (mut w, s) = sliced(0);
    w.call(s, Verb::Pause);
    w.submit(s, with_keys(free(), 1_000));
    in_a_short_batch(|| drop(w.call(s, resume())));
    assert!((1..1_000).contains(&ready(&w, s)));
    settle_in_short_batches(&mut w);
    assert_eq!(ready(&w, s), 1_000);
    in_a_short_batch(|| drop(w.call(s, Verb::Pause)));
    w.set_slots(1_000);
    assert!(w.running.is_empty(), "it is paused, whoever still leaves");
    // Those that are to leave do, and the others are new.
    w.set_slots(0);
    w.call(s, resume());
    settle_in_short_batches(&mut w);
    assert_eq!(ready(&w, s), 1_000);
    w.set_slots(2_000);
    assert_eq!(w.running(s).len(), 1_000);
}

#[test]
fn lines_of_new_tasks_join_a_few_at_a_time_beside_those_that_stand_there() {
    let (mut w, s) = sliced(0);
    w.submit(s, with_keys(free(), 1));
    assert_eq!(ready(&w, s), 1);
    w.submit(s, with_keys(free(), 1_000));
    assert!((2..1_000).contains(&ready(&w, s)));
    settle_in_short_batches(&mut w);
    assert_eq!(
        ready(&w, s),
        1_000,
        "two tasks stand in the line of the first key"
    );
    w.set_slots(2_000);
    assert_eq!(w.running(s).len(), 1_000);
    w.submit(s, with_keys(free(), 2));
    w.succeed(s, [1, 3]);
    let running = w.running(s);
    assert!(running.contains(&2) && running.contains(&1_003));
}

#[test]
fn who_pauses_and_resumes_has_no_more_lines_than_tasks() {
    let (mut w, s) = sliced(0);
    w.submit(s, with_keys(free(), 300));
    settle_in_short_batches(&mut w);
    assert_eq!(all_lines(&mut w), 300);
    for _ in 0..100 {
        let in_one_batch = vec![Verb::Pause, resume(), Verb::Pause, resume()];
        for batch in [in_one_batch, vec![Verb::Pause], vec![resume()]] {
            // So that each has a slice.
            w.now = w.now + Limits::DEFAULT.slice_pause;
            w.commands(batch.into_iter().map(|verb| World::say(s, verb)));
        }
        let lines = all_lines(&mut w);
        assert!(lines <= 300 + 2 * SLICE as usize, "{lines} lines");
    }
    w.call(s, Verb::Pause);
    settle_in_short_batches(&mut w);
    assert_eq!(all_lines(&mut w), 0);
    w.call(s, resume());
    settle_in_short_batches(&mut w);
    assert_eq!((all_lines(&mut w), ready(&w, s)), (300, 300));
}

#[test]
fn lines_of_a_scheduler_that_has_ended_leave_too() {
    let (mut w, s) = sliced(0);
    w.submit(s, with_keys(order(1), 300));
    settle_in_short_batches(&mut w);
    w.release(s, ReleaseMode::Cancel);
    w.seconds(1.0);
    assert_eq!((w.outcomes(s).len(), all_lines(&mut w)), (300, 0));
}

#[test]
fn lines_that_wait_under_a_pattern_follow_its_definition_a_few_at_a_time() {
    let (mut w, s) = sliced(0);
    w.resize("key/*", 0);
    w.submit(s, with_keys(free(), 1_000));
    settle_in_short_batches(&mut w);
    assert_eq!((all_lines(&mut w), ready(&w, s)), (1_000, 0));
    in_a_short_batch(|| w.resize("key/*", 1));
    assert!((1..1_000).contains(&ready(&w, s)));
    settle_in_short_batches(&mut w);
    assert_eq!(ready(&w, s), 1_000);
}

#[test]
fn an_order_of_many_lines_begins_with_its_first_tasks() {
    let (mut w, s) = sliced(1);
    w.submit(s, [order(1)]);
    w.submit(s, with_keys(order(2), 1_000));
    in_a_short_batch(|| w.succeed(s, [1]));
    for seq in 2..=1_001 {
        assert_eq!(w.running(s), [seq]);
        in_a_short_batch(|| w.succeed(s, [seq]));
    }
    assert_eq!(w.running(s), NONE);
}
