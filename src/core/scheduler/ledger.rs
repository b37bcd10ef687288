//! The unfinished tasks of a scheduler, counted every way that is asked for. Tasks enter with `add`
//! and leave with `end`, whether they wait or run in between.
//!
//! Not here: the counts by order, because the queue's groups decide by them which order is current
//! (`Queue::add` and `Queue::finished`); the quotas, which belong to a namespace (`add` and `end`
//! return what they take and give back); and the shard's sums, which are derived from schedulers.

use super::{
    body_sizes::Sizes,
    deadlines::Deadlines,
    queue::{span::Span, step_counter::step},
    unfinished::Unfinished,
};
use crate::core::{Seq, fairness::quota::Usage};

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// How many there are.
    pub count: i64,
    /// Their numbers.
    pub ranges: Unfinished,
    pub deadlines: Deadlines,
    /// Bytes of their bodies.
    sizes: Sizes,
}

impl Ledger {
    /// Adds tasks with higher numbers than all others, each of `blocks` blocks. Returns what they
    /// take of a quota.
    pub(crate) fn add(&mut self, span: &Span, blocks: u32) -> Usage {
        let tasks = i64::from(span.count);
        self.count += tasks;
        self.ranges
            .add(span.first, span.last(), span.submitted_at.day());
        self.deadlines.add(span);
        let bytes = self.sizes.add(span.first, span.count, blocks);
        Usage { tasks, bytes }
    }

    /// How many there are up to `last_seq`. Adds up the ranges on the side of it on which there are
    /// fewer.
    pub(crate) fn up_to(&self, last_seq: Seq) -> i64 {
        let tasks = |(first, last): (Seq, Seq)| last.0 - first.0 + 1;
        let mut older = self.ranges.up_to(last_seq).map(tasks);
        let mut newer = self.ranges.above(last_seq).map(tasks);
        let (mut up_to, mut above) = (0, 0);
        loop {
            step();
            match older.next() {
                Some(count) => up_to += count,
                None => return up_to,
            }
            match newer.next() {
                Some(count) => above += count,
                None => return self.count - above,
            }
        }
    }

    /// Removes tasks that have ended. Returns what they give back.
    pub(crate) fn end(&mut self, span: &Span) -> Usage {
        let tasks = i64::from(span.count);
        self.count -= tasks;
        self.ranges.remove(span.first, span.last());
        self.deadlines.end(span);
        let bytes = self.sizes.remove(span.first, span.last());
        Usage { tasks, bytes }
    }
}
