//! The unfinished tasks of one scheduler that wait: by order, as spans. A waiting task costs an
//! element of a span and a counter, never a slot.
//!
//! There are two waiting places: the lanes of a group hold what may start when its order is
//! current, `delayed` what may not start before a time. What needs resources besides a slot has
//! lanes of its own there (`resource_lanes.rs`).
//!
//! A group exists while it has unfinished tasks, whether they wait here or run; so the lowest key
//! of `ordered` is the current order, unless an incremental cancellation covers it: a function of
//! the unfinished set and the rows alone. What is asked for every task costs the same however much
//! waits: counts are maintained, never computed by walking.

pub(crate) mod cancellation;
pub(crate) mod copied;
pub(crate) mod delayed;
pub(crate) mod found_range;
pub(crate) mod group;
pub(crate) mod lane;
pub(crate) mod lookup;
pub(crate) mod open_lanes;
mod order_sums;
pub(crate) mod resource_lanes;
pub(crate) mod span;
pub(crate) mod step_counter;

use crate::core::{Order, Seq, Time, fairness::slot_kinds::KindId};
use cancellation::Cancellation;
use delayed::{Delayed, DelayedSpans};
use group::Group;
use order_sums::OrderSums;
use span::Span;
use std::collections::BTreeMap;

/// Which groups may start tasks. Of several limits the least one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StartLimit {
    /// None.
    Shut,
    /// As `Open`, but no order above this one.
    UpTo(Order),
    /// The current order and the tasks without order.
    Open,
}

/// All waiting tasks of a scheduler.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    free: Group,
    ordered: BTreeMap<Order, Group>,
    /// Of the unfinished tasks of `ordered`.
    sums: OrderSums,
    delayed: DelayedSpans,
    /// Boxed: few schedulers have one.
    cancellation: Option<Box<Cancellation>>,
    /// Unfinished tasks with an order.
    in_orders: i64,
    /// An order, and the unfinished tasks above it.
    above: Option<(Order, i64)>,
}

impl Queue {
    /// The lowest order with unfinished tasks that are not being cancelled.
    pub(crate) fn current_order(&self) -> Option<Order> {
        let lowest = self.ordered.keys().next().copied();
        match &self.cancellation {
            None => lowest,
            Some(cancellation) => cancellation.current_order(lowest?),
        }
    }

    /// Distinct orders with unfinished tasks.
    pub(crate) fn orders(&self) -> usize {
        self.ordered.len()
    }

    /// Whether an order has unfinished tasks.
    pub(crate) fn has(&self, order: Order) -> bool {
        self.ordered.contains_key(&order)
    }

    /// Counts `span` as unfinished and lets it wait for its turn.
    pub(crate) fn add(&mut self, span: Span) {
        self.count(&span, 1);
        self.group(span.order).push_back(span);
    }

    /// Counts `span` as unfinished and lets it wait for `at` first.
    pub(crate) fn add_delayed(&mut self, at: Time, span: Span) {
        self.count(&span, 1);
        self.delayed.insert(at, Delayed { span, retry: false });
    }

    /// Counts `span` as unfinished and lets it wait for its next attempt.
    pub(crate) fn add_retrying(&mut self, at: Time, span: Span) {
        self.count(&span, 1);
        self.put_back_delayed(at, span);
    }

    /// Lets a task that was taken wait again: for its next attempt.
    pub(crate) fn put_back_delayed(&mut self, at: Time, span: Span) {
        if let Some(cancellation) = &mut self.cancellation {
            cancellation.delay(&span);
        }
        self.delayed.insert(at, Delayed { span, retry: true });
    }

    /// Lets tasks that were taken wait again, in the place of their number.
    pub(crate) fn put_back(&mut self, span: Span) {
        if let Some(cancellation) = &mut self.cancellation {
            cancellation.refill(&span);
        }
        self.group(span.order).insert(span);
    }

    /// Takes out up to `most` spans that were delayed until `now` and lets them wait for their
    /// turn. Returns how many there were.
    pub(crate) fn wake(&mut self, now: Time, most: usize) -> usize {
        let mut woken = 0;
        while woken < most
            && let Some(span) = self.delayed.pop_due(now)
        {
            self.put_back(span);
            woken += 1;
        }
        woken
    }

    /// When the next delayed task is due.
    pub(crate) fn next_delayed(&self) -> Option<Time> {
        self.delayed.next_due()
    }

    /// Counts `span` as finished.
    pub(crate) fn finished(&mut self, span: &Span) {
        self.count(span, -1);
        if let Some(order) = span.order
            && self.group(span.order).unfinished == 0
        {
            self.ordered.remove(&order);
            self.sums.end(order, &self.ordered);
        }
    }

    /// Kinds with a task that needs no resources and may start within `start_limit`.
    pub(crate) fn ready_kinds(&self, start_limit: StartLimit) -> impl Iterator<Item = KindId> {
        self.open_groups(start_limit)
            .flat_map(Group::fronts)
            .map(|span| span.kind)
    }

    /// How many tasks of each kind may start within `start_limit` that need no resources; a kind
    /// may come twice.
    pub(crate) fn plain_counts(
        &self,
        start_limit: StartLimit,
    ) -> impl Iterator<Item = (KindId, i64)> {
        self.open_groups(start_limit).flat_map(Group::plain_counts)
    }

    /// When the oldest task was submitted that may start within `start_limit`.
    pub(crate) fn oldest(&self, start_limit: StartLimit) -> Option<Time> {
        let fronts = |group| {
            let claimed = Group::claimed(group).and_then(|lanes| lanes.first());
            group.fronts().chain(claimed)
        };
        self.open_groups(start_limit)
            .flat_map(fronts)
            .map(|span| span.submitted_at)
            .min()
    }

    /// The span whose first task is the next one of `kind` that needs no resources and may start
    /// within `start_limit`: the one with the lowest number.
    pub(crate) fn next(&self, kind: KindId, start_limit: StartLimit) -> Option<&Span> {
        self.open_groups(start_limit)
            .filter_map(|group| group.front(kind))
            .min_by_key(|span| span.first)
    }

    /// Takes up to `max` consecutive tasks of `kind` from the next one on that needs no resources.
    pub(crate) fn take(&mut self, kind: KindId, start_limit: StartLimit, max: u32) -> Option<Span> {
        let order = self.next(kind, start_limit)?.order;
        self.group(order).take(kind, max)
    }

    /// The first `most` tasks of a kind in each group that may start within `start_limit`, without
    /// those that are `known`, and those that had to wait for a time or for resources.
    pub(crate) fn first_of<T>(
        &self,
        kind: KindId,
        start_limit: StartLimit,
        most: u32,
        known: &BTreeMap<Seq, T>,
    ) -> Vec<(Option<Order>, Seq)> {
        let first_of_group = |group: &Group| {
            let spans = group.spans_of(kind);
            let plain = spans.filter(|span| span.spec.options.not_before.is_none());
            let tasks =
                plain.flat_map(|span| (0..span.count).map(|at| (span.order, span.first.plus(at))));
            tasks
                .filter(|(_, seq)| !known.contains_key(seq))
                .take(most as usize)
                .collect::<Vec<_>>()
        };
        self.open_groups(start_limit)
            .flat_map(first_of_group)
            .collect()
    }

    /// Counts `span` as unfinished; it does not wait here.
    pub(crate) fn count_running(&mut self, span: &Span) {
        self.count(span, 1);
    }

    /// Takes out the waiting tasks among `first..=last` of this order, delayed ones included.
    pub(crate) fn remove_of(&mut self, order: Option<Order>, first: Seq, last: Seq) -> Vec<Span> {
        let mut out = self.delayed.remove(first, last);
        match order {
            None => self.free.remove(first, last, &mut out),
            Some(order) => {
                let group = self.ordered.get_mut(&order);
                group
                    .into_iter()
                    .for_each(|group| group.remove(first, last, &mut out))
            }
        }
        out
    }

    /// Every span that waits for its turn.
    pub(crate) fn spans(&self) -> impl Iterator<Item = &Span> {
        let groups = [&self.free].into_iter().chain(self.ordered.values());
        groups.flat_map(Group::spans)
    }

    /// Every span that waits for a time.
    pub(crate) fn delayed(&self) -> impl Iterator<Item = (Time, &Delayed)> {
        self.delayed.iter()
    }

    /// Unfinished tasks of each order that has any.
    pub(crate) fn unfinished_by_order(&self) -> BTreeMap<Option<Order>, i64> {
        let ordered = self
            .ordered
            .iter()
            .map(|(order, group)| (Some(*order), group));
        let groups = [(None, &self.free)].into_iter().chain(ordered);
        groups
            .map(|(order, group)| (order, group.unfinished))
            .filter(|(_, unfinished)| *unfinished != 0)
            .collect()
    }

    /// Every waiting span in orders up to `order` that has a task above `seq`.
    pub(crate) fn newer_spans(&self, order: Order, seq: Seq) -> impl Iterator<Item = &Span> {
        let groups = self.sums.newer(order, seq, &self.ordered);
        let delayed = self.delayed.newest(Seq(i64::MAX));
        let delayed = delayed
            .map(|(_, delayed)| &delayed.span)
            .take_while(move |span| span.last() > seq)
            .filter(move |span| span.order.is_some_and(|of| of <= order));
        groups
            .flat_map(move |group| group.spans_above(seq))
            .chain(delayed)
    }

    /// The first `most` spans of each kind that may start within `start_limit`.
    pub(crate) fn startable_spans(
        &self,
        start_limit: StartLimit,
        most: usize,
    ) -> impl Iterator<Item = &Span> {
        self.open_groups(start_limit)
            .flat_map(move |group| group.first_spans(most))
    }

    /// The spans that `start_limit` allows to start when the current order is done, by order: those
    /// of `most` orders, some of which may have none.
    pub(crate) fn later_spans(
        &self,
        start_limit: StartLimit,
        most: usize,
    ) -> impl Iterator<Item = &Span> {
        let later = self
            .ordered
            .iter()
            .skip(1)
            .take(most)
            .take_while(move |(order, _)| admits(start_limit, **order));
        later.flat_map(|(_, group)| group.spans())
    }

    /// Tasks that wait for their next attempt.
    pub(crate) fn retrying(&self) -> i64 {
        self.delayed.retrying()
    }

    /// Tasks that wait for their `not_before`.
    pub(crate) fn not_before(&self) -> i64 {
        self.delayed.not_before()
    }

    /// Unfinished tasks in orders up to `order`.
    pub(crate) fn unfinished_up_to(&self, order: Order) -> i64 {
        self.sums.up_to(order, &self.ordered)
    }

    /// Whether there are unfinished tasks in orders above `order`.
    pub(crate) fn goes_above(&self, order: Order) -> bool {
        self.ordered
            .keys()
            .next_back()
            .is_some_and(|last| *last > order)
    }

    /// Maintains the sum of unfinished tasks above this order from now on.
    pub(crate) fn track_above(&mut self, order: Option<Order>) {
        if self.above.map(|(order, _)| order) != order {
            self.above = order.map(|order| (order, self.unfinished_above(order)));
        }
    }

    /// Unfinished tasks in orders above `order`: quick for the one whose sum is maintained.
    pub(crate) fn unfinished_above(&self, order: Order) -> i64 {
        match self.above {
            Some((limit, sum)) if limit == order => sum,
            _ => self.in_orders - self.unfinished_up_to(order),
        }
    }

    /// Tasks that may start within `start_limit` now.
    pub(crate) fn startable(&self, start_limit: StartLimit) -> i64 {
        self.open_groups(start_limit)
            .map(|group| group.waiting)
            .sum()
    }

    /// Counts the tasks of `span` as unfinished (`sign` 1) or not any more (-1).
    fn count(&mut self, span: &Span, sign: i64) {
        let delta = sign * i64::from(span.count);
        self.in_orders += if span.order.is_some() { delta } else { 0 };
        if let (Some(order), Some((limit, sum))) = (span.order, &mut self.above)
            && order > *limit
        {
            *sum += delta;
        }
        if let Some(cancellation) = &mut self.cancellation {
            cancellation.count(span, sign);
        }
        let group = self.group(span.order);
        group.unfinished += delta;
        let is_first = group.unfinished == delta;
        if let Some(order) = span.order {
            self.sums.count(order, delta, span.last());
            if is_first {
                self.sums.begin(order, &self.ordered);
            }
        }
    }

    fn group(&mut self, order: Option<Order>) -> &mut Group {
        match order {
            None => &mut self.free,
            Some(order) => self.ordered.entry(order).or_default(),
        }
    }

    fn open_groups(&self, start_limit: StartLimit) -> impl Iterator<Item = &Group> {
        let free = (start_limit != StartLimit::Shut).then_some(&self.free);
        let current = self
            .ordered
            .iter()
            .next()
            .filter(|(order, _)| admits(start_limit, **order))
            .map(|(_, group)| group);
        free.into_iter().chain(current)
    }
}

fn admits(start_limit: StartLimit, order: Order) -> bool {
    match start_limit {
        StartLimit::Open => true,
        StartLimit::UpTo(limit) => order <= limit,
        StartLimit::Shut => false,
    }
}
