//! Where the tasks of a scheduler wait for resources: each lane of the queue whose order may start
//! tasks has a line there (`core/resources/task_lines.rs`).
//!
//! An order may have as many lanes as tasks. When it begins to start tasks, and when new tasks
//! come, they join in slices. When it ceases to, their lines count for nothing here from then on,
//! and leave a few at a time.

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
    /// Those of the open orders.
    orders: BTreeMap<Option<Order>, LinesOfOrder>,
    /// Open orders of which lanes are still to join, those whose first task comes after this one.
    joining: BTreeMap<Option<Order>, Seq>,
}

#[derive(Debug, Default)]
struct LinesOfOrder {
    places: BTreeMap<LaneKey, ClaimNo>,
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
    /// Kinds of slots for which a line is ready; a kind may come twice.
    pub(crate) fn ready_kinds(&self) -> impl Iterator<Item = KindId> {
        self.ready_counts().map(|(kind, _)| kind)
    }

    /// How many lines are ready, by kind of slot; a kind may come twice.
    pub(crate) fn ready_counts(&self) -> impl Iterator<Item = (KindId, i64)> {
        let ready = self.orders.values().flat_map(|lines| &lines.ready);
        ready.map(|(kind, lines)| (*kind, lines.len() as i64))
    }

    /// The line whose first task is next; only if that comes before `before`.
    pub(crate) fn next(&self, kind: KindId, before: Option<Seq>) -> Option<ClaimNo> {
        let orders = self.orders.values();
        let firsts = orders.filter_map(|lines| lines.ready.get(&kind)?.first());
        let (seq, no) = firsts.min()?;
        before.is_none_or(|before| *seq < before).then_some(*no)
    }

    /// The line of a lane.
    pub(crate) fn of(&self, lane: &LanePlace) -> Option<ClaimNo> {
        self.orders.get(&lane.0)?.places.get(&lane.1).copied()
    }

    /// The lane of a line; `None`: its tasks may not start any more.
    pub(crate) fn lane(&self, no: ClaimNo) -> Option<&LanePlace> {
        self.line(no).map(|line| &line.lane)
    }

    /// A line is ready, or is not any more.
    pub(crate) fn set_ready(&mut self, no: ClaimNo, ready: bool) {
        if let Some(lines) = self.with(no) {
            lines.set_ready(no, ready);
        }
    }

    pub(crate) fn remove(&mut self, no: ClaimNo) {
        if let Some(lines) = self.with(no) {
            lines.remove(no);
        }
    }

    /// Whether lanes are still to join.
    pub(crate) fn are_joining(&self) -> bool {
        !self.joining.is_empty()
    }

    fn line(&self, no: ClaimNo) -> Option<&Line> {
        let mut orders = self.orders.values();
        orders.find_map(|lines| lines.all.get(&no))
    }

    /// The lines of the order that this one belongs to.
    fn with(&mut self, no: ClaimNo) -> Option<&mut LinesOfOrder> {
        let mut orders = self.orders.values_mut();
        orders.find(|lines| lines.all.contains_key(&no))
    }

    fn insert(&mut self, no: ClaimNo, lane: LanePlace, front: Seq) {
        let lines = self.orders.entry(lane.0).or_default();
        lines.places.insert(lane.1.clone(), no);
        let line = Line {
            lane,
            front,
            ready: false,
        };
        lines.all.insert(no, line);
    }

    fn set_front(&mut self, no: ClaimNo, front: Seq) {
        if let Some(lines) = self.with(no) {
            lines.set_front(no, front);
        }
    }

    /// The order whose lanes join next: the one that is behind with the numbers of its tasks.
    fn next_joining(&self) -> Option<(Option<Order>, Seq)> {
        let behind = self.joining.iter().min_by_key(|(_, after)| **after);
        behind.map(|(order, after)| (*order, *after))
    }

    /// Whether a lane without a line is one of those that are still to join.
    fn joins_later(&self, lane: &LanePlace, front: Option<Seq>) -> bool {
        let joining = self.joining.get(&lane.0).zip(front);
        joining.is_some_and(|(after, front)| front > *after) && self.of(lane).is_none()
    }
}

impl LinesOfOrder {
    fn set_ready(&mut self, no: ClaimNo, ready: bool) {
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

    fn remove(&mut self, no: ClaimNo) {
        self.set_ready(no, false);
        if let Some(line) = self.all.remove(&no) {
            self.places.remove(&line.lane.1);
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

    /// All of them, none of which counts here any more. There may be as many as tasks, so each
    /// frees its entries when it is taken.
    fn into_lines(self) -> impl ExactSizeIterator<Item = ClaimNo> + Send + Sync {
        let mut places = self.places.into_iter();
        let mut ready = self.ready.into_values().flatten();
        self.all.into_keys().inspect(move |_| {
            places.next();
            ready.next();
        })
    }
}

impl Scheduler {
    /// Has its lines follow what has become of the queue. Of orders that have just been opened, and
    /// of what new tasks have begun, up to `most` lanes join here, and the others with
    /// [`Scheduler::join_lines`]; lines of closed orders leave a few at a time. Returns how many
    /// lanes have joined.
    pub(crate) fn follow_lanes(&mut self, resources: &mut Resources, most: u32) -> u32 {
        let open = self.queue.open_orders(self.start_limit());
        let before = std::mem::replace(&mut self.lines.open, open);
        for order in before.without(open).iter() {
            self.queue.end_lanes(order);
            self.lines.joining.remove(&order);
            if let Some(closed) = self.lines.orders.remove(&order) {
                resources.leave_lines(closed.into_lines());
            }
        }
        let mut begins = false;
        for order in open.iter() {
            if let Some(after) = self.queue.follow_lanes(order) {
                let joined = self.lines.joining.entry(order).or_insert(after);
                *joined = after.min(*joined);
                begins = true;
            }
        }
        for (front, lane) in self.queue.take_changed_lanes(open) {
            if !self.lines.joins_later(&lane, front) {
                self.follow_lane(resources, front, lane);
            }
        }
        match begins {
            true => self.join_lines(resources, most),
            false => 0,
        }
    }

    /// Has up to `most` lanes join that are still to, those of the earliest tasks first. Returns
    /// how many.
    pub(crate) fn join_lines(&mut self, resources: &mut Resources, most: u32) -> u32 {
        let mut left = most;
        while left > 0
            && let Some((order, after)) = self.lines.next_joining()
        {
            let lanes = self.queue.lanes_after(order, after, left as usize);
            let joined = lanes.len() as u32;
            match lanes.last().filter(|_| joined == left) {
                Some((last, _)) => self.lines.joining.insert(order, *last),
                None => self.lines.joining.remove(&order),
            };
            left -= joined;
            for (front, lane) in lanes {
                self.follow_lane(resources, Some(front), lane);
            }
        }
        most - left
    }

    /// Keeps what a line wants, at the end of every queue: before those who stand there it might
    /// close a circle that nobody looks for.
    pub(crate) fn keep_for_line(&mut self, resources: &mut Resources, no: ClaimNo) {
        let line = self.lines.line(no).filter(|_| !resources.is_kept_for(no));
        let Some(line) = line else {
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
                let is_other = |line: &Line| line.front != front;
                if self.lines.line(no).is_some_and(is_other) {
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

#[cfg(test)]
mod tests {
    use super::{LaneKey, Lines};
    use crate::core::{ClaimNo, Mode, Seq, Want, Work, fairness::fair_share::Fair};
    use std::sync::Arc;

    #[test]
    fn what_is_known_of_lines_is_freed_as_they_leave() {
        let kind = Fair::default().kind(&Work::Noop);
        let mut lines = Lines::default();
        let a_writer = |n: i64| -> Arc<[Want]> {
            let (name, mode) = (format!("key/{n:03}").into(), Mode::Exclusive);
            [Want { name, mode }].into()
        };
        let all: Vec<Arc<[Want]>> = (0..100).map(a_writer).collect();
        for (no, wants) in (1..).zip(&all) {
            let wants = wants.clone();
            lines.insert(ClaimNo(no), (None, LaneKey { kind, wants }), Seq(no));
            lines.set_ready(ClaimNo(no), true);
        }
        let known = || {
            let known = all.iter().filter(|wants| Arc::strong_count(wants) > 1);
            known.count()
        };
        assert_eq!(known(), 100);
        let closed = lines.orders.remove(&None).expect("it has lines");
        let mut leaving = closed.into_lines();
        assert_eq!((leaving.len(), known()), (100, 100));
        assert_eq!(leaving.by_ref().take(60).count(), 60);
        assert_eq!((leaving.len(), known()), (40, 40));
    }
}
