//! Which failures keep a scheduler halted: each until a retry of it has succeeded.
//!
//! A retry stands for the failure of the task it repeats. When it fails too, that is no second
//! failure; when it is cancelled, the failure remains. Either way the halt names the retry from
//! then on: that is the task to retry now.

use super::{Scheduler, queue::span::Span};
use crate::core::{DoneNo, Halt, HaltFailures, Order, RetryOf, Seq};

/// Tasks of one order that have ended alike.
pub(crate) struct EndedTasks<'a> {
    pub span: &'a Span,
    pub order: Order,
    /// The event of the first one.
    pub event: DoneNo,
    /// The copies among them.
    pub copies: &'a [(Seq, RetryOf)],
}

impl Scheduler {
    /// They failed: later orders stay blocked. Names up to `most` failed tasks.
    pub(crate) fn count_failures(&mut self, failed: &EndedTasks<'_>, most: usize) {
        let stand_ins = self.stand_ins(failed.copies);
        let halt = self.image.halt.get_or_insert_with(|| Halt {
            order: failed.order,
            failed: Vec::new(),
            failures: Some(Box::new(HaltFailures {
                since: failed.event,
                ..HaltFailures::default()
            })),
        });
        rename(halt, &stand_ins);
        let place = |seq: &Seq| stand_ins.binary_search_by_key(seq, |(copy, _)| *copy);
        let is_new = |seq: &Seq| place(seq).is_err();
        let seqs = (0..failed.span.count).map(|at| failed.span.first.plus(at));
        let room = most.saturating_sub(halt.failed.len());
        halt.failed.extend(seqs.filter(is_new).take(room));
        halt.order = halt.order.min(failed.order);
        if let Some(failures) = &mut halt.failures {
            let new = i64::from(failed.span.count) - stand_ins.len() as i64;
            *failures.by_order.entry(failed.order).or_default() += new;
            if failures.by_order.len() > Halt::ORDERS {
                halt.failures = None;
            }
        }
    }

    /// They failed, and that blocks nothing: from now on it cannot be told from its number which
    /// failure a halt counts, so retries do not lift it, unless all of these were retries of what
    /// it counts. Returns whether that changes a halt.
    pub(crate) fn stop_counting(&mut self, failed: &EndedTasks<'_>) -> bool {
        let stand_ins = self.stand_ins(failed.copies);
        let Some(halt) = self.image.halt.as_mut() else {
            return false;
        };
        rename(halt, &stand_ins);
        let is_new = failed.span.count as usize > stand_ins.len();
        let stops = is_new && halt.failures.take().is_some();
        stops || !stand_ins.is_empty()
    }

    /// They were cancelled, and a copy among them makes nothing good. Returns whether that changes
    /// a halt.
    pub(crate) fn keep_failures(&mut self, cancelled: &EndedTasks<'_>) -> bool {
        let stand_ins = self.stand_ins(cancelled.copies);
        if let Some(halt) = self.image.halt.as_mut() {
            rename(halt, &stand_ins);
        }
        !stand_ins.is_empty()
    }

    /// They succeeded: the failures that copies among them stand for are made good. The last one
    /// lifts the halt. Returns whether that changes a halt.
    pub(crate) fn make_good(&mut self, succeeded: &EndedTasks<'_>) -> bool {
        let stand_ins = self.stand_ins(succeeded.copies);
        let Some(halt) = self.image.halt.as_mut().filter(|_| !stand_ins.is_empty()) else {
            return false;
        };
        halt.failed
            .retain(|seq| !stand_ins.iter().any(|(_, of)| of.seq == *seq));
        let by_order = halt
            .failures
            .as_mut()
            .map(|failures| &mut failures.by_order);
        let by_order = by_order.expect("they stand for some of them");
        if let Some(count) = by_order.get_mut(&succeeded.order) {
            *count -= stand_ins.len() as i64;
            if *count <= 0 {
                by_order.remove(&succeeded.order);
            }
        }
        match by_order.keys().next() {
            Some(lowest) => halt.order = *lowest,
            None => self.image.halt = None,
        }
        true
    }

    /// The copies that stand for a failure which the halt in force waits for.
    fn stand_ins(&self, copies: &[(Seq, RetryOf)]) -> Vec<(Seq, RetryOf)> {
        let halt = self.image.halt.as_ref();
        let Some(failures) = halt.and_then(|halt| halt.failures.as_ref()) else {
            return Vec::new();
        };
        let stands_in = |of: &RetryOf| of.failure.is_some_and(|event| event >= failures.since);
        let copies = copies.iter().copied();
        copies.filter(|(_, of)| stands_in(of)).collect()
    }

    /// The order of a retry of a task of this order. It is never late: while the order is current,
    /// still to come, or held by the halt, the retry runs in it, and later orders wait for it. When
    /// the order has passed, the retry runs at once, outside all barriers.
    pub(crate) fn order_of_retry(&self, order: Option<Order>) -> Option<Order> {
        let order = order?;
        let is_held = |halt: &Halt| order >= halt.order;
        let has_passed = self
            .queue
            .current_order()
            .is_some_and(|current| order < current)
            && !self.image.halt.as_ref().is_some_and(is_held);
        (!has_passed).then_some(order)
    }

    /// Takes out the copies among the tasks of `span`.
    pub(crate) fn take_copies(&mut self, span: &Span) -> Vec<(Seq, RetryOf)> {
        let mut copies = Vec::new();
        while let Some((seq, of)) = self.copies.range(span.first..=span.last()).next() {
            let (seq, of) = (*seq, *of);
            self.copies.remove(&seq);
            copies.push((seq, of));
        }
        copies
    }
}

/// Each of these copies takes the place of the task that it repeats.
fn rename(halt: &mut Halt, copies: &[(Seq, RetryOf)]) {
    for (seq, of) in copies {
        let named = halt.failed.iter_mut().find(|named| **named == of.seq);
        named.into_iter().for_each(|named| *named = *seq);
    }
}
