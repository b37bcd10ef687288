//! Which tasks start next. The loop reads their bodies ahead; nothing here changes anything.

use crate::core::{
    Handle, Order, Seq, Shard,
    fairness::slot_kinds::KindId,
    scheduler::queue::{Queue, StartLimit, span::Span},
};
use std::collections::BTreeMap;

/// Consecutive tasks of one scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeqRange {
    /// Which scheduler.
    pub handle: Handle,
    /// The first task.
    pub first: Seq,
    /// The last task.
    pub last: Seq,
    /// The order of the first one.
    pub order: Option<Order>,
}

impl Shard {
    /// Schedulers whose turn comes next on slots that run bodies, about `most` per kind; the first
    /// ones of every namespace.
    pub fn in_line(&self, most: usize) -> Vec<Handle> {
        let kinds = self.fair.slots.kinds();
        kinds
            .filter(|kind| self.fair.slots[*kind].work.has_session())
            .flat_map(|kind| self.fair.in_line(kind, most))
            .collect()
    }

    /// The next waiting tasks of a scheduler that have bodies, about `tasks` of each kind, from at
    /// most `spans` spans of each: those that may start first, then those of the orders that
    /// follow. None that waits for a time, a halt or an incremental cancellation. By kind, so that
    /// tasks that cannot run hide none that can.
    pub fn upcoming(&self, handle: Handle, tasks: u32, spans: usize) -> Vec<SeqRange> {
        let Some(scheduler) = self.schedulers.get(handle) else {
            return Vec::new();
        };
        let mut ranges: Vec<SeqRange> = Vec::new();
        let mut left_of: BTreeMap<KindId, u32> = BTreeMap::new();
        for span in scheduler.queue.ahead(scheduler.start_limit(), spans) {
            let left = left_of.entry(span.kind).or_insert(tasks);
            if *left == 0 {
                continue;
            }
            let range = range(handle, span, *left);
            *left -= span.count.min(*left);
            match ranges.last_mut() {
                Some(last) if last.last.plus(1) == range.first => last.last = range.last,
                _ => ranges.push(range),
            }
        }
        ranges
    }
}

impl Queue {
    /// About `most` waiting spans of each kind with a session, in the order in which `start_limit`
    /// lets them start. Looks no further than at `most` later orders, and as many spans of them.
    fn ahead(&self, start_limit: StartLimit, most: usize) -> Vec<&Span> {
        let with_body = |span: &&Span| span.spec.work.has_session();
        let mut startable: Vec<&Span> = self
            .startable_spans(start_limit, most)
            .filter(with_body)
            .collect();
        startable.sort_unstable_by_key(|span| span.first);
        let left = most.saturating_sub(startable.len());
        let later = self.later_spans(start_limit, left).take(left);
        startable.extend(later.filter(with_body));
        startable
    }
}

fn range(handle: Handle, span: &Span, most: u32) -> SeqRange {
    let last = span.first.plus(span.count.min(most) - 1);
    SeqRange {
        handle,
        first: span.first,
        last,
        order: span.order,
    }
}
