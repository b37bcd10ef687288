//! Where the tasks of a scheduler wait for resources: each lane of the queue whose order may start
//! tasks has a line there (`core/resources/task_lines.rs`).

use super::{
    Scheduler,
    queue::{
        open_lanes::{LanePlace, OpenOrders},
        resource_lanes::LaneKey,
    },
};
use crate::core::{
    ClaimNo, Order, Seq,
    fairness::slot_kinds::KindId,
    resources::{Resources, task_lines::TaskLine},
};
use std::collections::{BTreeMap, BTreeSet};

/// The lines of a scheduler.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    open: OpenOrders,
    places: BTreeMap<Option<Order>, BTreeMap<LaneKey, ClaimNo>>,
    all: BTreeMap<ClaimNo, Line>,
    /// Lines that could have what they want now, by their first task.
    ready: BTreeMap<KindId, BTreeSet<(Seq, ClaimNo)>>,
}

#[derive(Debug)]
struct Line {
    lane: LanePlace,
    front: Seq,
    ready: bool,
}

impl Lines {
    /// Kinds of slots for which a line is ready.
    pub(crate) fn ready_kinds(&self) -> impl Iterator<Item = KindId> {
        self.ready.keys().copied()
    }

    /// How many lines are ready, by kind of slot.
    pub(crate) fn ready_counts(&self) -> impl Iterator<Item = (KindId, i64)> {
        let ready = self.ready.iter();
        ready.map(|(kind, lines)| (*kind, lines.len() as i64))
    }

    /// The line whose first task is next; only if that comes before `before`.
    pub(crate) fn next(&self, kind: KindId, before: Option<Seq>) -> Option<ClaimNo> {
        let (seq, no) = self.ready.get(&kind)?.first()?;
        before.is_none_or(|before| *seq < before).then_some(*no)
    }

    /// The line of a lane.
    pub(crate) fn of(&self, lane: &LanePlace) -> Option<ClaimNo> {
        self.places.get(&lane.0)?.get(&lane.1).copied()
    }

    /// The lane of a line.
    pub(crate) fn lane(&self, no: ClaimNo) -> Option<&LanePlace> {
        self.all.get(&no).map(|line| &line.lane)
    }

    /// A line is ready, or is not any more.
    pub(crate) fn set_ready(&mut self, no: ClaimNo, ready: bool) {
        let Some(line) = self.all.get_mut(&no) else {
            return;
        };
        line.ready = ready;
        let (kind, entry) = (line.lane.1.kind, (line.front, no));
        if ready {
            self.ready.entry(kind).or_default().insert(entry);
            return;
        }
        if let Some(lines) = self.ready.get_mut(&kind) {
            lines.remove(&entry);
            if lines.is_empty() {
                self.ready.remove(&kind);
            }
        }
    }

    fn insert(&mut self, no: ClaimNo, lane: LanePlace, front: Seq) {
        let (order, key) = lane.clone();
        self.places.entry(order).or_default().insert(key, no);
        let line = Line {
            lane,
            front,
            ready: false,
        };
        self.all.insert(no, line);
    }

    pub(crate) fn remove(&mut self, no: ClaimNo) {
        self.set_ready(no, false);
        let Some(Line {
            lane: (order, key), ..
        }) = self.all.remove(&no)
        else {
            return;
        };
        if let Some(lanes) = self.places.get_mut(&order) {
            lanes.remove(&key);
            if lanes.is_empty() {
                self.places.remove(&order);
            }
        }
    }

    fn set_front(&mut self, no: ClaimNo, front: Seq) {
        let Some(ready) = self.all.get(&no).map(|line| line.ready) else {
            return;
        };
        self.set_ready(no, false);
        if let Some(line) = self.all.get_mut(&no) {
            line.front = front;
        }
        self.set_ready(no, ready);
    }
}

impl Scheduler {
    /// Has its lines follow what has become of the queue.
    pub(crate) fn follow_lanes(&mut self, resources: &mut Resources) {
        let open = self.queue.open_orders(self.start_limit());
        let before = std::mem::replace(&mut self.lines.open, open);
        if open == before {
            for (front, lane) in self.queue.take_changed_lanes(open) {
                self.follow_lane(resources, front, lane);
            }
            return;
        }
        let closed = before.without(open).iter();
        let closed = closed.filter_map(|order| self.lines.places.get(&order));
        let closed: Vec<ClaimNo> = closed.flat_map(BTreeMap::values).copied().collect();
        for no in closed {
            resources.leave_line(no);
            self.lines.remove(no);
        }
        // Those of an order that has just been opened are new, whatever has changed.
        for (front, lane) in self.queue.take_changed_lanes(open) {
            self.follow_lane(resources, front, lane);
        }
        for (front, lane) in self.queue.open_lanes(open.without(before)) {
            self.follow_lane(resources, Some(front), lane);
        }
    }

    /// Keeps what a line wants, at the end of every queue: before those who stand there it might
    /// close a circle that nobody looks for.
    pub(crate) fn keep_for_line(&mut self, resources: &mut Resources, no: ClaimNo) {
        let Some(line) = self
            .lines
            .all
            .get(&no)
            .filter(|_| !resources.is_kept_for(no))
        else {
            return;
        };
        let (lane, front) = (line.lane.clone(), line.front);
        self.follow_lane(resources, None, lane.clone());
        self.follow_lane(resources, Some(front), lane.clone());
        if let Some(last) = self.lines.of(&lane) {
            resources.reserve(last);
        }
    }

    fn follow_lane(&mut self, resources: &mut Resources, front: Option<Seq>, lane: LanePlace) {
        match (self.lines.of(&lane), front) {
            (Some(no), Some(front)) => {
                if self.lines.all[&no].front != front {
                    resources.set_front(no, front);
                    self.lines.set_front(no, front);
                }
            }
            (Some(no), None) => {
                resources.leave_line(no);
                self.lines.remove(no);
            }
            (None, Some(front)) => {
                let namespace = self.image.namespace.clone();
                let line = TaskLine::new(
                    self.handle(),
                    lane.1.kind,
                    namespace,
                    lane.1.wants.clone(),
                    front,
                );
                let (no, ready) = resources.join_line(line);
                self.lines.insert(no, lane, front);
                self.lines.set_ready(no, ready);
            }
            (None, None) => {}
        }
    }
}
