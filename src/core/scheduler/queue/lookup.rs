//! Where single tasks wait, and the newest ones of a sort. Nothing here looks through all that
//! waits: an order leads to its group, and a number to its place there.

use super::{
    Queue, StartLimit, admits,
    delayed::Delayed,
    group::{Group, NewestFirst},
    span::Span,
};
use crate::core::{Order, Seq, Time, scheduler::queue::found_range::FoundRange};

impl StartLimit {
    /// Whether it lets tasks of `order` start when it is their turn.
    pub(crate) fn lets_start(self, order: Option<Order>) -> bool {
        match order {
            None => self != StartLimit::Shut,
            Some(order) => admits(self, order),
        }
    }
}

impl Queue {
    /// Whether tasks of `order` may start within `start_limit`.
    pub(crate) fn opens(&self, start_limit: StartLimit, order: Option<Order>) -> bool {
        let is_its_turn = order.is_none() || order == self.current_order();
        is_its_turn && start_limit.lets_start(order)
    }

    /// Whether a task of `order` waits for its turn.
    pub(crate) fn waits(&self, order: Option<Order>, seq: Seq) -> bool {
        self.waiting_span(order, seq).is_some()
    }

    /// The span in which a task of `order` waits for its turn.
    pub(crate) fn waiting_span(&self, order: Option<Order>, seq: Seq) -> Option<&Span> {
        self.group_of(order)?.span_of(seq)
    }

    /// How many tasks are handed out before the task `seq` of `span`, when all of them may start,
    /// and whether all were counted: in each of two groups those of the first `most` spans.
    pub(crate) fn ahead_of(
        &self,
        span: &Span,
        seq: Seq,
        start_limit: StartLimit,
        most: usize,
    ) -> (i64, bool) {
        let current = self.current_order();
        let rival = match span.order {
            Some(_) => Some(&self.free),
            None => current
                .filter(|order| admits(start_limit, *order))
                .and_then(|order| self.ordered.get(&order)),
        };
        let groups = self.group_of(span.order).into_iter().chain(rival);
        groups.fold((0, true), |(sum, exact), group| {
            let (tasks, all) = group.count_before(span.kind, seq, most);
            (sum + tasks, exact && all)
        })
    }

    /// Unfinished tasks of one order.
    pub(crate) fn unfinished_of(&self, order: Order) -> i64 {
        let group = self.ordered.get(&order);
        group.map_or(0, |group| group.unfinished)
    }

    /// The first `most` spans of each kind that wait in one order.
    pub(crate) fn first_spans_of(&self, order: Order, most: usize) -> impl Iterator<Item = &Span> {
        let group = self.ordered.get(&order).into_iter();
        group.flat_map(move |group| group.first_spans(most))
    }

    /// A delayed task, and its time.
    pub(crate) fn delayed_of(&self, seq: Seq) -> Option<(Time, &Delayed)> {
        self.delayed.get(seq)
    }

    /// What waits for its turn in one group up to `newest`, newest first: of each kind, and of all
    /// that needs resources.
    pub(crate) fn newest_of(
        &self,
        order: Option<Order>,
        newest: Seq,
    ) -> impl Iterator<Item = NewestFirst<'_>> {
        self.group_of(order)
            .into_iter()
            .flat_map(move |group| group.newest(newest))
    }

    /// How many of the tasks among `first..=last`, which are of this order, wait: delayed ones
    /// included.
    pub(crate) fn count_of(&self, order: Option<Order>, first: Seq, last: Seq) -> u32 {
        let delayed = self.delayed.newest(last).map(|(_, delayed)| &delayed.span);
        let delayed = delayed.take_while(|span| span.last() >= first);
        let group = self.group_of(order).into_iter();
        let waiting = group.flat_map(|group| group.spans_among(first, last));
        let count = |span: &Span| span.parts(first, last).1;
        delayed.map(count).sum::<u32>() + waiting.map(count).sum::<u32>()
    }

    /// Delayed tasks up to `newest`, newest first; of those that are not `wanted` the places.
    pub(crate) fn newest_delayed(
        &self,
        newest: Seq,
        wanted: impl Fn(&Delayed) -> bool,
    ) -> impl Iterator<Item = FoundRange> {
        self.delayed.newest(newest).map(move |(_, delayed)| {
            let span = &delayed.span;
            if wanted(delayed) {
                FoundRange::new(span.first, span.last().min(newest))
            } else {
                FoundRange::empty(span.first)
            }
        })
    }

    fn group_of(&self, order: Option<Order>) -> Option<&Group> {
        order.map_or(Some(&self.free), |order| self.ordered.get(&order))
    }
}
