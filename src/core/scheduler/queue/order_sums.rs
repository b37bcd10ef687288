//! How many tasks are unfinished up to an order, and which orders have got some of late: by blocks
//! of neighbouring orders, so that the answer costs a look at some hundred orders and blocks,
//! however many there are.
//!
//! Invariant: each order with unfinished tasks is counted in the last block that does not begin
//! above it. Blocks are split when they grow and joined when they shrink, so each but the first one
//! has a few hundred orders.

use super::{group::Group, step_counter::step};
use crate::core::{Order, Seq};
use std::{
    collections::BTreeMap,
    ops::{
        Bound::{Excluded, Included, Unbounded},
        RangeBounds,
    },
};

/// Orders in a block at most; it is split in the middle.
const MOST: usize = 1_024;
/// Orders in a block at least; it is joined to the one before.
const LEAST: usize = MOST / 4;

#[derive(Debug, Default)]
pub(super) struct OrderSums(BTreeMap<Order, Block>);

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    orders: usize,
    tasks: i64,
    /// No task of it has a higher number.
    newest: Seq,
}

impl OrderSums {
    /// Counts tasks of an order, of which `last` has the highest number.
    pub(super) fn count(&mut self, order: Order, tasks: i64, last: Seq) {
        let block = self.block(order);
        block.tasks += tasks;
        block.newest = block.newest.max(last);
    }

    /// An order has its first tasks, which are in `groups` and counted.
    pub(super) fn begin(&mut self, order: Order, groups: &BTreeMap<Order, Group>) {
        let block = self.block(order);
        block.orders += 1;
        if block.orders > MOST {
            self.split(order, groups);
        }
    }

    /// An order has no tasks any more, and is not in `groups`.
    pub(super) fn end(&mut self, order: Order, groups: &BTreeMap<Order, Group>) {
        let block = self.block(order);
        block.orders -= 1;
        if block.orders < LEAST {
            self.join(order);
            if self.block(order).orders > MOST {
                self.split(order, groups);
            }
        }
    }

    /// Unfinished tasks up to an order.
    pub(super) fn up_to(&self, order: Order, groups: &BTreeMap<Order, Group>) -> i64 {
        let Some((first, block)) = self.0.range(..=order).next_back() else {
            return 0;
        };
        let earlier = self.0.range(..first);
        let before: i64 = earlier.inspect(|_| step()).map(|(_, one)| one.tasks).sum();
        let end = self.0.range((Excluded(first), Unbounded)).next();
        let end = end.map_or(Unbounded, |(next, _)| Excluded(*next));
        before + within(block.tasks, (Included(*first), end), order, groups)
    }

    /// The orders up to `order` that may have tasks above `seq`: those of blocks that have one.
    pub(super) fn newer<'a>(
        &'a self,
        order: Order,
        seq: Seq,
        groups: &'a BTreeMap<Order, Group>,
    ) -> impl Iterator<Item = &'a Group> {
        let blocks = self.0.range(..=order).inspect(|_| step());
        let newer = blocks.filter(move |(_, block)| block.newest > seq);
        newer.flat_map(move |(first, _)| {
            let next = self.0.range((Excluded(first), Included(&order))).next();
            let end = next.map_or(Included(order), |(next, _)| Excluded(*next));
            let within = groups.range((Included(*first), end));
            within.map(|(_, group)| group)
        })
    }

    fn block(&mut self, order: Order) -> &mut Block {
        let first = self.0.range(..=order).next_back().map(|(first, _)| *first);
        self.0.entry(first.unwrap_or(Order(i64::MIN))).or_default()
    }

    /// Splits the block of an order in two.
    fn split(&mut self, order: Order, groups: &BTreeMap<Order, Group>) {
        let Some((first, block)) = self.0.range_mut(..=order).next_back() else {
            return;
        };
        let mut later = groups.range(first..).skip(MOST / 2);
        let Some((middle, _)) = later.next() else {
            return;
        };
        let lower = groups.range(first..middle);
        let kept = Block {
            orders: MOST / 2,
            tasks: lower.map(|(_, group)| group.unfinished).sum(),
            newest: block.newest,
        };
        let moved = Block {
            orders: block.orders - kept.orders,
            tasks: block.tasks - kept.tasks,
            newest: block.newest,
        };
        *block = kept;
        self.0.insert(*middle, moved);
    }

    /// Joins the block of an order to the one before, if there is one.
    fn join(&mut self, order: Order) {
        let mut earlier = self.0.range_mut(..=order).rev();
        let (Some((first, block)), Some((_, before))) = (earlier.next(), earlier.next()) else {
            return;
        };
        before.orders += block.orders;
        before.tasks += block.tasks;
        before.newest = before.newest.max(block.newest);
        let first = *first;
        self.0.remove(&first);
    }
}

/// The tasks up to `order` among the `tasks` of a block. Adds up those on the side of it on which
/// there are fewer orders.
fn within(
    tasks: i64,
    block: impl RangeBounds<Order>,
    order: Order,
    groups: &BTreeMap<Order, Group>,
) -> i64 {
    let mut lower = groups.range((block.start_bound().cloned(), Included(order)));
    let mut higher = groups.range((Excluded(order), block.end_bound().cloned()));
    let (mut up_to, mut above) = (0, 0);
    loop {
        step();
        match lower.next() {
            Some((_, group)) => up_to += group.unfinished,
            None => return up_to,
        }
        match higher.next() {
            Some((_, group)) => above += group.unfinished,
            None => return tasks - above,
        }
    }
}
