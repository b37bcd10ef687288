//! Whose bodies are read ahead: those of the tasks that may start next, of every kind.

use super::world::{Task, World, free, order, plain};
use crate::core::Work;

/// A task for a target without a slot.
fn elsewhere() -> Task {
    free().work(Work::Sql {
        target: "elsewhere".into(),
    })
}

/// The first and last tasks of the ranges to be read.
fn upcoming(w: &World, handle: crate::core::Handle, tasks: u32, spans: usize) -> Vec<(i64, i64)> {
    w.shard
        .upcoming(handle, tasks, spans)
        .iter()
        .map(|range| (range.first.0, range.last.0))
        .collect()
}

#[test]
fn tasks_that_cannot_run_hide_none_that_can() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, vec![elsewhere(); 50]);
    w.submit(s, vec![free(); 4]);
    assert_eq!(w.running(s), [51]);
    assert_eq!(upcoming(&w, s, 10, 8), [(1, 10), (52, 54)]);
}

#[test]
fn later_orders_follow_the_current_one() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [order(3), order(1), order(1), order(2)]);
    assert_eq!(w.running(s), [2]);
    assert_eq!(upcoming(&w, s, 10, 8), [(3, 4), (1, 1)]);
    assert_eq!(upcoming(&w, s, 2, 8), [(3, 4)]);
}

#[test]
fn a_look_ahead_does_not_walk_through_orders_without_bodies() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [order(1), order(1)]);
    w.submit(s, (2..100).map(|n| order(n).noop()));
    w.submit(s, [order(200)]);
    assert_eq!(upcoming(&w, s, 10, 8), [(2, 2)]);
    assert_eq!(upcoming(&w, s, 10, 200), [(2, 2), (101, 101)]);
}
