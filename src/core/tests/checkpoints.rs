//! How much a recovery has to read again, and what it costs to keep that small.

use super::world::{World, free, order, plain};
use crate::core::{Command, Handle, Seq, Verb, model::limits::Limits};

/// Events after the checkpoints of all schedulers.
fn read_again(w: &World) -> u64 {
    w.remembered
        .recovered()
        .iter()
        .flat_map(|one| &one.outcomes)
        .map(|outcome| u64::from(outcome.count))
        .sum()
}

/// Everything that runs succeeds, and what follows, until nothing runs.
fn finish_all(w: &mut World, s: Handle) {
    while let Some(running) = w.running.first() {
        let first = running.first.0;
        w.succeed(s, [first]);
    }
}

#[test]
fn the_finished_work_of_all_schedulers_together_that_recovery_reads_is_bounded() {
    let mut w = World::new(0);
    let each = Limits::DEFAULT.checkpoint_tasks as usize / 4;
    for _ in 0..2 * Limits::DEFAULT.checkpoint_total / each as u64 {
        let s = w.open(plain);
        w.submit(s, vec![free().noop(); each]);
        finish_all(&mut w, s);
    }
    assert!(
        read_again(&w) <= Limits::DEFAULT.checkpoint_total,
        "{}",
        read_again(&w)
    );
    let before = w.remembered.checkpoints;
    w.crash();
    w.commands([]);
    assert!(
        w.remembered.checkpoints - before < 100,
        "a new owner knows how much finished work has no checkpoint"
    );
}

#[test]
fn a_new_owner_catches_up_with_what_an_earlier_one_left() {
    let mut w = World::new(0);
    let each = Limits::DEFAULT.checkpoint_tasks as usize / 4;
    for _ in 0..Limits::DEFAULT.checkpoint_total / each as u64 / 2 {
        let s = w.open(plain);
        w.submit(s, vec![free().noop(); each]);
        finish_all(&mut w, s);
    }
    let left = read_again(&w);
    w.crash();
    for _ in 0..Limits::DEFAULT.checkpoint_total / each as u64 / 2 + 10 {
        let s = w.open(plain);
        w.submit(s, vec![free().noop(); each]);
        finish_all(&mut w, s);
    }
    assert!(
        left > Limits::DEFAULT.checkpoint_total / 4
            && read_again(&w) <= Limits::DEFAULT.checkpoint_total,
        "{left} {}",
        read_again(&w)
    );
}

#[test]
fn schedulers_that_fall_idle_after_each_task_write_no_checkpoints() {
    let mut w = World::new(1);
    let few = 255 / (Limits::DEFAULT.row_cost + 1);
    for _ in 0..2 * Limits::DEFAULT.checkpoint_total / 255 {
        let s = w.open(plain);
        for task in 1..=i64::from(few) {
            w.submit(s, [free()]);
            w.succeed(s, [task]);
        }
    }
    assert_eq!(w.remembered.checkpoints, 0);
}

#[test]
fn a_ragged_backlog_is_not_written_again_and_again() {
    let mut w = World::new(0);
    let s = w.open(plain);
    let calls = 3_000;
    for _ in 0..calls {
        w.submit(s, [order(1).noop(), order(2).noop(), order(3).noop()]);
    }
    finish_all(&mut w, s);
    let work = 3 * calls * (1 + Limits::DEFAULT.row_cost as usize);
    assert!(w.remembered.checkpoints > 2, "{}", w.remembered.checkpoints);
    assert!(
        w.remembered.ranges * Limits::DEFAULT.range_cost as usize <= work,
        "{} ranges",
        w.remembered.ranges
    );
}

#[test]
fn only_a_checkpoint_says_what_is_unfinished() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, vec![free(); 3]);
    w.succeed(s, [1]);
    w.commands([Command::Checkpoint(vec![s]), World::say(s, Verb::Pause)]);
    assert_eq!(
        (w.remembered.checkpoints, w.remembered.ranges),
        (1, 1),
        "with a pause in the same batch"
    );
    w.call(
        s,
        Verb::Resume {
            ignore_failures: false,
        },
    );
    assert_eq!(w.remembered.checkpoints, 1);
    assert_eq!(
        w.remembered.image(s).checkpoint.unfinished,
        [(Seq(2), Seq(3))]
    );
    assert!(!w.remembered.image(s).paused);
}

#[test]
fn recovery_looks_no_further_back_than_the_oldest_unfinished_task() {
    let mut w = World::new(3);
    let s = w.open(plain);
    let opened = w.now.day();
    w.submit(s, [free(), free()]);
    w.seconds(4.0 * 86_400.0);
    let later = w.now.day();
    w.submit(s, [free()]);
    let first_day = |w: &mut World| {
        w.command(Command::Checkpoint(vec![s]));
        w.remembered.image(s).checkpoint.first_day
    };
    w.succeed(s, [1]);
    assert_eq!(first_day(&mut w), opened);
    w.succeed(s, [2]);
    assert_eq!(first_day(&mut w), later);
    w.crash();
    w.seconds(2.0 * 86_400.0);
    assert_eq!(first_day(&mut w), later, "a new owner knows it too");
    w.succeed(s, [3]);
    assert_eq!(first_day(&mut w), w.now.day());
}

#[test]
fn a_scheduler_that_is_not_in_use_is_quiesced_and_recovery_reads_its_row_alone() {
    let mut w = World::new(2);
    let (s, busy) = (w.open(plain), w.open(plain));
    w.submit(s, [free(), free()]);
    w.submit(busy, [free()]);
    w.succeed(s, [1, 2]);
    w.advance(Limits::DEFAULT.quiesce_after);
    assert!(
        w.remembered.image(s).checkpoint.quiesced && !w.remembered.image(busy).checkpoint.quiesced
    );
    assert_eq!(read_again(&w), 0);
    w.crash();
    assert_eq!(w.submit(s, [free()]), 3);
    assert!(
        !w.remembered.image(s).checkpoint.quiesced,
        "the first task is seen again"
    );
    w.submit(s, [free()]);
    w.crash();
    assert_eq!((w.progress(s).pending, w.progress(s).done_no.0), (2, 2));
}

#[test]
fn schedulers_are_quiesced_a_slice_at_a_time() {
    let mut w = World::new(1);
    let most = Limits::DEFAULT.checkpoint_ranges / 100;
    let schedulers: Vec<Handle> = (0..most + most / 2).map(|_| w.open(plain)).collect();
    w.now = w.now + Limits::DEFAULT.quiesce_after;
    let quiesced = |w: &World| {
        schedulers
            .iter()
            .filter(|s| w.remembered.image(**s).checkpoint.quiesced)
            .count()
    };
    let mut seen = Vec::new();
    while w.shard.next_due() <= w.now {
        w.commands([]);
        seen.push(quiesced(&w));
    }
    assert_eq!(seen, [most, schedulers.len()]);
}
