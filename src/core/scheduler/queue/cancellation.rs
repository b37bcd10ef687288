//! An incremental cancellation under way: which waiting tasks it covers, and how far it has come.
//!
//! While it lasts no order above it starts tasks, and when it began none of them was running: so
//! what it covers only waits, in front of what was submitted later. Such tasks end whatever happens
//! and count for no barrier: what a call means does not depend on how far the cancellation has
//! come. It passes over every group and every delayed span once, however much of them it leaves
//! alone.

use super::{Queue, span::Span, step_counter::step};
use crate::core::{Order, Seq};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound::{Excluded, Unbounded},
};

#[derive(Debug)]
pub(crate) struct Cancellation {
    /// It covers tasks of orders above this one; `None`: all tasks.
    above: Option<Order>,
    /// It covers tasks up to this one.
    up_to: Seq,
    /// Unfinished tasks that were submitted later, by their orders above `above`.
    later: BTreeMap<Order, i64>,
    /// The groups of this order and of higher ones are drained.
    drained_from: Option<Order>,
    /// Groups among them in which covered tasks wait again.
    refilled: BTreeSet<Order>,
    /// Delayed tasks with lower numbers are drained.
    delayed_from: Seq,
}

/// What one slice of a cancellation takes out.
#[derive(Debug, Default)]
pub(crate) struct Drained {
    pub spans: Vec<Span>,
    /// Tasks taken, and groups and spans looked at in vain.
    pub steps: u32,
    /// Nothing is left that it covers.
    pub over: bool,
}

impl Cancellation {
    fn covers_order(&self, order: Option<Order>) -> bool {
        self.above
            .is_none_or(|above| order.is_some_and(|order| order > above))
    }

    /// The lowest order that counts, when `lowest` is the lowest one with unfinished tasks.
    pub(super) fn current_order(&self, lowest: Order) -> Option<Order> {
        match self.above {
            Some(above) if lowest > above => self.later.keys().next().copied(),
            _ => Some(lowest),
        }
    }

    /// Counts tasks that begin (`sign` 1) or cease (-1) to be unfinished.
    pub(super) fn count(&mut self, span: &Span, sign: i64) {
        let (Some(order), Some(above)) = (span.order, self.above) else {
            return;
        };
        let (covered, _) = span.parts(self.up_to.plus(1), span.last());
        let later = i64::from(span.count - covered);
        if order <= above || later == 0 {
            return;
        }
        let sum = self.later.entry(order).or_default();
        *sum += sign * later;
        if *sum == 0 {
            self.later.remove(&order);
        }
    }

    /// Tasks wait for their turn again.
    pub(super) fn refill(&mut self, span: &Span) {
        let passed = |order: &Order| self.drained_from.is_some_and(|from| *order >= from);
        if let Some(order) = span.order.filter(passed)
            && span.first <= self.up_to
        {
            self.refilled.insert(order);
        }
    }

    /// Tasks wait for a time again.
    pub(super) fn delay(&mut self, span: &Span) {
        self.delayed_from = self.delayed_from.min(span.first);
    }
}

impl Queue {
    /// Whether an incremental cancellation is under way that lets no task of this order start.
    pub(crate) fn holds_back(&self, order: Option<Order>) -> bool {
        let cancellation = self.cancellation.as_ref();
        cancellation.is_some_and(|cancellation| cancellation.covers_order(order))
    }

    /// Cancels the waiting tasks above `above` (`None`: all) with a number up to `up_to`. It takes
    /// the place of the cancellation under way, which covers nothing else.
    pub(crate) fn cancel(&mut self, above: Option<Order>, up_to: Seq) {
        let present = self.cancellation.take();
        if present
            .as_ref()
            .is_some_and(|c| (c.above, c.up_to) == (above, up_to))
        {
            self.cancellation = present;
            return;
        }
        let same_orders = present.filter(|present| present.above == above);
        self.cancellation = Some(Box::new(Cancellation {
            above,
            up_to,
            later: BTreeMap::new(),
            drained_from: None,
            refilled: BTreeSet::new(),
            delayed_from: same_orders.map_or(Seq(0), |present| present.delayed_from),
        }));
    }

    /// Takes out what the cancellation under way covers, in about `most` steps. Higher orders come
    /// first, and what waits for a time last.
    pub(crate) fn drain(&mut self, most: u32) -> Drained {
        let mut drained = Drained::default();
        while drained.steps < most {
            let from = drained.spans.len();
            let looked = self
                .drain_group(most - drained.steps, &mut drained.spans)
                .or_else(|| self.drain_delayed(most - drained.steps, &mut drained.spans));
            if looked.is_none() {
                self.cancellation = None;
                drained.over = true;
                break;
            }
            let taken: u32 = drained.spans[from..].iter().map(|span| span.count).sum();
            drained.steps += taken.max(1);
        }
        drained
    }

    /// Takes up to `most` tasks out of the next group; `None`: there is none.
    fn drain_group(&mut self, most: u32, out: &mut Vec<Span>) -> Option<()> {
        let cancellation = self.cancellation.as_mut()?;
        let up_to = cancellation.up_to;
        if cancellation.above.is_none() && self.free.drain(up_to, most, out) > 0 {
            return Some(());
        }
        let refilled = cancellation.refilled.pop_last();
        let lower = cancellation.above.map_or(Unbounded, Excluded);
        let upper = cancellation.drained_from.map_or(Unbounded, Excluded);
        let order = refilled.or_else(|| {
            let (order, _) = self.ordered.range((lower, upper)).next_back()?;
            Some(*order)
        })?;
        step();
        let group = self.ordered.get_mut(&order);
        let taken = group.map_or(0, |group| group.drain(up_to, most, out));
        match refilled {
            Some(order) if taken == most => drop(cancellation.refilled.insert(order)),
            None if taken < most => cancellation.drained_from = Some(order),
            _ => {}
        }
        Some(())
    }

    /// Takes up to `most` tasks of the next delayed span, or passes over it; `None`: there is none.
    fn drain_delayed(&mut self, most: u32, out: &mut Vec<Span>) -> Option<()> {
        let cancellation = self.cancellation.as_mut()?;
        let span = self.delayed.first_from(cancellation.delayed_from)?;
        let first = span.first;
        if first > cancellation.up_to {
            return None;
        }
        let (_, within) = span.parts(first, cancellation.up_to);
        if !cancellation.covers_order(span.order) {
            cancellation.delayed_from = span.end();
            return Some(());
        }
        let count = within.min(most);
        cancellation.delayed_from = first.plus(count);
        out.extend(self.delayed.remove(first, first.plus(count - 1)));
        Some(())
    }
}
