//! The unfinished tasks of one scheduler that wait: by order, as spans. A waiting task costs an element of a span and a
//! counter, never a slot (design 5.2).
//!
//! A group exists while it has unfinished tasks, whether they wait here or run; so the lowest key of `ordered` is the
//! current order, a function of the unfinished set alone.

use super::{KindId, Order, Seq, Spec, Time};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Consecutive waiting tasks that are alike.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub first: Seq,
    pub count: u32,
    pub order: Option<Order>,
    pub kind: KindId,
    pub spec: Arc<Spec>,
    pub submitted_at: Time,
    /// Read back from the journal: may have been running when the last owner died.
    pub recovered: bool,
}

/// The tasks of one order.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Tasks without an outcome, waiting or running.
    pub unfinished: i64,
    /// Waiting tasks by kind, each lane by ascending number: what runs next follows from the unfinished set alone.
    lanes: Vec<(KindId, VecDeque<Span>)>,
}

/// A span that waits for a time.
#[derive(Debug)]
pub(super) struct Delayed {
    pub span: Span,
    /// It waits for its next attempt, not for its `not_before`.
    pub retry: bool,
}

/// Which groups may start tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// The current order and the tasks without order.
    Open,
    /// As `Open`, but no order above this one.
    UpTo(Order),
    /// None.
    Shut,
}

/// All waiting tasks of a scheduler.
#[derive(Debug, Default)]
pub(super) struct Queue {
    free: Group,
    ordered: BTreeMap<Order, Group>,
    delayed: BTreeMap<(Time, Seq), Delayed>,
}

impl Span {
    /// The last task.
    pub fn last(&self) -> Seq {
        self.first.plus(self.count - 1)
    }

    /// Cuts the first `count` tasks off; `self` keeps the rest.
    fn cut(&mut self, count: u32) -> Span {
        let head = Span { count, ..self.clone() };
        self.first = self.first.plus(count);
        self.count -= count;
        head
    }

    fn continues(&self, next: &Span) -> bool {
        self.first.plus(self.count) == next.first
            && self.submitted_at.day() == next.submitted_at.day()
            && self.recovered == next.recovered
            && self.spec.options.deadline.is_none()
            && (Arc::ptr_eq(&self.spec, &next.spec) || self.spec == next.spec)
    }

    /// Splits into what lies before, inside and after `first..=last`.
    fn split(mut self, first: Seq, last: Seq) -> [Option<Span>; 3] {
        let before = (self.first < first).then(|| {
            let count = (first.0.min(self.last().0 + 1) - self.first.0) as u32;
            if count == self.count { std::mem::replace(&mut self, empty()) } else { self.cut(count) }
        });
        let inside = (self.count > 0 && self.first <= last).then(|| {
            let count = (last.0.min(self.last().0) - self.first.0 + 1) as u32;
            if count == self.count { std::mem::replace(&mut self, empty()) } else { self.cut(count) }
        });
        [before, inside, (self.count > 0).then_some(self)]
    }
}

fn empty() -> Span {
    static WORK: std::sync::LazyLock<Arc<Spec>> =
        std::sync::LazyLock::new(|| Arc::new(Spec { work: super::Work::Noop, options: Default::default() }));
    Span { first: Seq(0), count: 0, order: None, kind: KindId(0), spec: WORK.clone(), submitted_at: Time(0), recovered: false }
}

impl Group {
    fn lane(&mut self, kind: KindId) -> &mut VecDeque<Span> {
        let at = self.lanes.iter().position(|(k, _)| *k == kind).unwrap_or_else(|| {
            self.lanes.push((kind, VecDeque::new()));
            self.lanes.len() - 1
        });
        &mut self.lanes[at].1
    }

    fn push_back(&mut self, span: Span) {
        let lane = self.lane(span.kind);
        match lane.back_mut() {
            Some(back) if back.continues(&span) => back.count += span.count,
            _ => lane.push_back(span),
        }
    }

    /// Takes in tasks that may be older than others here.
    fn insert(&mut self, span: Span) {
        let lane = self.lane(span.kind);
        let at = lane.partition_point(|other| other.first < span.first);
        lane.insert(at, span);
    }

    fn front(&self, kind: KindId) -> Option<&Span> {
        self.lanes.iter().find(|(k, _)| *k == kind)?.1.front()
    }

    fn take(&mut self, kind: KindId, max: u32) -> Option<Span> {
        let lane = self.lane(kind);
        let front = lane.front_mut()?;
        if front.count > max { Some(front.cut(max)) } else { lane.pop_front() }
    }

    fn spans(&self) -> impl Iterator<Item = &Span> {
        self.lanes.iter().flat_map(|(_, lane)| lane)
    }

    fn waiting(&self) -> i64 {
        self.spans().map(|span| i64::from(span.count)).sum()
    }

    /// Takes out the waiting tasks among `first..=last`.
    fn remove(&mut self, first: Seq, last: Seq, out: &mut Vec<Span>) {
        for (_, lane) in &mut self.lanes {
            let touched = |span: &Span| span.first <= last && first <= span.last();
            if !lane.iter().any(touched) {
                continue;
            }
            for span in std::mem::take(lane) {
                if !touched(&span) {
                    lane.push_back(span);
                    continue;
                }
                let [before, inside, after] = span.split(first, last);
                lane.extend(before);
                out.extend(inside);
                lane.extend(after);
            }
        }
    }

    /// Takes up to `max` waiting tasks with a number up to `up_to`, lowest lanes first.
    fn drain(&mut self, up_to: Seq, max: u32, out: &mut Vec<Span>) -> u32 {
        let mut taken = 0;
        for (_, lane) in &mut self.lanes {
            while taken < max
                && let Some(front) = lane.front_mut()
                && front.first <= up_to
            {
                let count = (up_to.0 - front.first.0 + 1).min(i64::from(front.count)).min(i64::from(max - taken)) as u32;
                out.push(front.cut(count));
                taken += count;
                if lane.front().is_some_and(|span| span.count == 0) {
                    lane.pop_front();
                }
            }
        }
        taken
    }
}

impl Queue {
    /// The lowest order with unfinished tasks.
    pub fn current_order(&self) -> Option<Order> {
        self.ordered.keys().next().copied()
    }

    /// Distinct orders with unfinished tasks.
    pub fn orders(&self) -> usize {
        self.ordered.len()
    }

    /// Counts `span` as unfinished and lets it wait for its turn.
    pub fn add(&mut self, span: Span) {
        let group = self.group(span.order);
        group.unfinished += i64::from(span.count);
        group.push_back(span);
    }

    /// Counts `span` as unfinished and lets it wait for `at` first.
    pub fn add_delayed(&mut self, at: Time, span: Span) {
        self.group(span.order).unfinished += i64::from(span.count);
        self.delayed.insert((at, span.first), Delayed { span, retry: false });
    }

    /// Counts `span` as unfinished and lets it wait for its next attempt.
    pub fn add_retrying(&mut self, at: Time, span: Span) {
        self.group(span.order).unfinished += i64::from(span.count);
        self.put_back_delayed(at, span);
    }

    /// Lets a task that was taken wait again: for its next attempt.
    pub fn put_back_delayed(&mut self, at: Time, span: Span) {
        self.delayed.insert((at, span.first), Delayed { span, retry: true });
    }

    /// Lets tasks that were taken wait again, in the place of their number.
    pub fn put_back(&mut self, span: Span) {
        self.group(span.order).insert(span);
    }

    /// Takes out what was delayed until `now` and lets it wait for its turn.
    pub fn wake(&mut self, now: Time) {
        while let Some(entry) = self.delayed.first_entry()
            && entry.key().0 <= now
        {
            let span = entry.remove().span;
            self.put_back(span);
        }
    }

    /// When the next delayed task is due.
    pub fn next_delayed(&self) -> Option<Time> {
        self.delayed.keys().next().map(|(at, _)| *at)
    }

    /// Counts `count` tasks of `order` as finished.
    pub fn finished(&mut self, order: Option<Order>, count: u32) {
        let group = self.group(order);
        group.unfinished -= i64::from(count);
        let empty = group.unfinished == 0;
        if let (Some(order), true) = (order, empty) {
            self.ordered.remove(&order);
        }
    }

    /// Kinds with a task that may start through `gate`.
    pub fn ready_kinds(&self, gate: Gate) -> impl Iterator<Item = KindId> {
        self.open_groups(gate).flat_map(|group| &group.lanes).filter(|(_, lane)| !lane.is_empty()).map(|(kind, _)| *kind)
    }

    /// Takes up to `max` consecutive tasks of `kind`: those with the lowest numbers that may start through `gate`.
    pub fn take(&mut self, kind: KindId, gate: Gate, max: u32) -> Option<Span> {
        let order = self.open_groups(gate).filter_map(|group| group.front(kind)).min_by_key(|span| span.first)?.order;
        self.group(order).take(kind, max)
    }

    /// Takes out the waiting tasks among `first..=last`, delayed ones included.
    pub fn remove(&mut self, first: Seq, last: Seq) -> Vec<Span> {
        let mut out = Vec::new();
        self.free.remove(first, last, &mut out);
        for group in self.ordered.values_mut() {
            group.remove(first, last, &mut out);
        }
        let touched = |d: &Delayed| d.span.first <= last && first <= d.span.last();
        let keys: Vec<_> = self.delayed.iter().filter(|(_, d)| touched(d)).map(|(key, _)| *key).collect();
        for key in keys {
            let Delayed { span, retry } = self.delayed.remove(&key).expect("just found");
            let [before, inside, after] = span.split(first, last);
            out.extend(inside);
            for span in [before, after].into_iter().flatten() {
                self.delayed.insert((key.0, span.first), Delayed { span, retry });
            }
        }
        out
    }

    /// Takes up to `max` waiting tasks above `above` (`None`: any) with a number up to `up_to`.
    pub fn drain(&mut self, above: Option<Order>, up_to: Seq, max: u32) -> Vec<Span> {
        let mut out = Vec::new();
        let hit = |order: Option<Order>| above.is_none_or(|above| order.is_some_and(|order| order > above));
        let delayed: Vec<_> = (self.delayed.iter())
            .filter(|(_, d)| d.span.first <= up_to && hit(d.span.order))
            .map(|(key, d)| (*key, d.span.count))
            .take(max as usize)
            .collect();
        let mut taken = 0;
        for (key, count) in delayed {
            let (left, reach) = (max - taken, (up_to.0 - key.1.0 + 1).min(i64::from(count)) as u32);
            let Delayed { mut span, retry } = self.delayed.remove(&key).expect("just found");
            taken += reach.min(left);
            out.push(span.cut(reach.min(left)));
            if span.count > 0 {
                self.delayed.insert((key.0, span.first), Delayed { span, retry });
            }
            if taken == max {
                break;
            }
        }
        if above.is_none() && taken < max {
            taken += self.free.drain(up_to, max - taken, &mut out);
        }
        for (order, group) in self.ordered.iter_mut().rev() {
            if taken >= max || !hit(Some(*order)) {
                break;
            }
            taken += group.drain(up_to, max - taken, &mut out);
        }
        out
    }

    /// Every waiting span that is not delayed, with whether it may start through `gate`.
    pub fn waiting(&self, gate: Gate) -> impl Iterator<Item = (&Span, bool)> {
        let current = self.current_order();
        let ordered = self.ordered.iter().flat_map(move |(order, group)| {
            let open = current == Some(*order) && admits(gate, *order);
            group.spans().map(move |span| (span, open))
        });
        self.free.spans().map(move |span| (span, gate != Gate::Shut)).chain(ordered)
    }

    /// Every delayed span, with its time.
    pub fn delayed(&self) -> impl Iterator<Item = (Time, &Delayed)> {
        self.delayed.iter().map(|((at, _), delayed)| (*at, delayed))
    }

    /// Unfinished tasks, and of them those in orders up to `order`.
    pub fn unfinished_up_to(&self, order: Order) -> i64 {
        self.ordered.range(..=order).map(|(_, group)| group.unfinished).sum()
    }

    /// Unfinished tasks in orders above `order`.
    pub fn unfinished_above(&self, order: Order) -> i64 {
        self.ordered.range(Order(order.0 + 1)..).map(|(_, group)| group.unfinished).sum()
    }

    /// Tasks that may start through `gate` now.
    pub fn startable(&self, gate: Gate) -> i64 {
        self.open_groups(gate).map(Group::waiting).sum()
    }

    fn group(&mut self, order: Option<Order>) -> &mut Group {
        match order {
            None => &mut self.free,
            Some(order) => self.ordered.entry(order).or_default(),
        }
    }

    fn open_groups(&self, gate: Gate) -> impl Iterator<Item = &Group> {
        let free = (gate != Gate::Shut).then_some(&self.free);
        let current = self.ordered.iter().next().filter(|(order, _)| admits(gate, **order)).map(|(_, group)| group);
        free.into_iter().chain(current)
    }
}

fn admits(gate: Gate, order: Order) -> bool {
    match gate {
        Gate::Open => true,
        Gate::UpTo(limit) => order <= limit,
        Gate::Shut => false,
    }
}
