//! The lanes of tasks that need resources, as far as their order may start tasks.

use super::{
    Queue, StartLimit,
    resource_lanes::{LaneKey, ResourceLanes},
    span::Span,
};
use crate::core::{Order, Seq};

/// Orders of which tasks may start: those without one, and the current one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenOrders {
    pub free: bool,
    pub current: Option<Order>,
}

/// A lane in its queue.
pub(crate) type LanePlace = (Option<Order>, LaneKey);

impl OpenOrders {
    pub(crate) fn iter(self) -> impl Iterator<Item = Option<Order>> {
        let free = self.free.then_some(None);
        free.into_iter().chain(self.current.map(Some))
    }

    /// Those that are open here and not there.
    pub(crate) fn without(self, other: OpenOrders) -> OpenOrders {
        OpenOrders {
            free: self.free && !other.free,
            current: self.current.filter(|_| self.current != other.current),
        }
    }
}

impl Queue {
    /// Which orders may start tasks within `start_limit`.
    pub(crate) fn open_orders(&self, start_limit: StartLimit) -> OpenOrders {
        let lowest = self.ordered.keys().next().copied();
        OpenOrders {
            free: start_limit != StartLimit::Shut,
            current: lowest.filter(|order| super::admits(start_limit, *order)),
        }
    }

    /// The lanes of an order are followed from now on. Returns the number after which those come
    /// that were not, if there are any.
    pub(crate) fn follow_lanes(&mut self, order: Option<Order>) -> Option<Seq> {
        self.claimed_mut(order)?.follow()
    }

    /// They are followed no more.
    pub(crate) fn end_lanes(&mut self, order: Option<Order>) {
        if let Some(lanes) = self.claimed_mut(order) {
            lanes.unfollow();
        }
    }

    /// Up to `most` lanes of an order whose first task comes after `after`, by that task.
    pub(crate) fn lanes_after(
        &self,
        order: Option<Order>,
        after: Seq,
        most: usize,
    ) -> Vec<(Seq, LanePlace)> {
        let lanes = self.claimed(order).into_iter();
        let fronts = lanes.flat_map(|lanes| lanes.fronts_after(after));
        let fronts = fronts.map(|(seq, key)| (seq, (order, key.clone())));
        fronts.take(most).collect()
    }

    /// Takes the lanes of the open orders that have another first task, or none: with it.
    pub(crate) fn take_changed_lanes(&mut self, open: OpenOrders) -> Vec<(Option<Seq>, LanePlace)> {
        let mut changed = Vec::new();
        for order in open.iter() {
            let Some(lanes) = self.claimed_mut(order) else {
                continue;
            };
            for key in lanes.take_changed() {
                let front = lanes.front(&key).map(|span| span.first);
                changed.push((front, (order, key)));
            }
        }
        changed
    }

    /// The first waiting tasks of a lane.
    pub(crate) fn lane_front(&self, (order, key): &LanePlace) -> Option<&Span> {
        self.claimed(*order)?.front(key)
    }

    /// Takes the first task of a lane.
    pub(crate) fn take_claimed(&mut self, (order, key): &LanePlace) -> Option<Span> {
        self.group(*order).take_claimed(key)
    }

    fn claimed(&self, order: Option<Order>) -> Option<&ResourceLanes> {
        let group = match order {
            None => Some(&self.free),
            Some(order) => self.ordered.get(&order),
        };
        group?.claimed()
    }

    fn claimed_mut(&mut self, order: Option<Order>) -> Option<&mut ResourceLanes> {
        let group = match order {
            None => Some(&mut self.free),
            Some(order) => self.ordered.get_mut(&order),
        };
        group?.claimed_mut()
    }
}
