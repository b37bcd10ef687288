//! Where single tasks wait, and the newest ones of a sort. Nothing here looks through all that
//! waits: an order leads to its group, and a number to its place there.

use super::{Queue, StartLimit, admits, delayed::Delayed, group::Group};
use crate::core::{Order, Seq, Time, scheduler::queue::found_range::FoundRange};

impl Queue {
    /// Whether tasks of `order` may start within `start_limit`.
    pub(crate) fn opens(&self, start_limit: StartLimit, order: Option<Order>) -> bool {
        match order {
            None => start_limit != StartLimit::Shut,
            Some(order) => self.current_order() == Some(order) && admits(start_limit, order),
        }
    }

    /// Whether a task of `order` waits for its turn.
    pub(crate) fn waits(&self, order: Option<Order>, seq: Seq) -> bool {
        self.group_of(order).is_some_and(|group| group.holds(seq))
    }

    /// A delayed task, and its time.
    pub(crate) fn delayed_of(&self, seq: Seq) -> Option<(Time, &Delayed)> {
        self.delayed.get(seq)
    }

    /// What waits for its turn in one group up to `newest`, for each kind newest first.
    pub(crate) fn newest_of(
        &self,
        order: Option<Order>,
        newest: Seq,
    ) -> impl Iterator<Item = impl Iterator<Item = FoundRange>> {
        self.group_of(order)
            .into_iter()
            .flat_map(move |group| group.newest(newest))
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
