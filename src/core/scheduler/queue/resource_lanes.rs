//! Waiting tasks of one order that need resources besides a slot: a lane for each kind of slot and
//! set of resources, so that those that cannot have theirs keep no others waiting.
//!
//! Within a lane tasks start by their number. Whoever follows the lanes is told which of them have
//! another first task than before.

use super::{lane::Lane, span::Span, step_counter::step};
use crate::core::{Seq, Want, fairness::slot_kinds::KindId};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What the tasks of a lane have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaneKey {
    pub kind: KindId,
    pub wants: Arc<[Want]>,
}

/// The lanes of one order.
#[derive(Debug, Default)]
pub(crate) struct ResourceLanes {
    lanes: BTreeMap<LaneKey, Lane>,
    /// The first task of each lane.
    fronts: BTreeSet<(Seq, LaneKey)>,
    /// Lanes that have got another first task, or lost their last one.
    changed: BTreeSet<LaneKey>,
}

impl LaneKey {
    pub(crate) fn of(span: &Span) -> Self {
        LaneKey {
            kind: span.kind,
            wants: span.spec.options.resources.clone(),
        }
    }
}

impl ResourceLanes {
    /// Takes in tasks newer than all others here.
    pub(crate) fn push_back(&mut self, span: Span) {
        self.change(&LaneKey::of(&span), |lane| lane.push_back(span));
    }

    /// Takes in tasks that may be older than others here.
    pub(crate) fn insert(&mut self, span: Span) {
        self.change(&LaneKey::of(&span), |lane| lane.insert(span));
    }

    /// Takes the first task of a lane.
    pub(crate) fn take(&mut self, key: &LaneKey) -> Option<Span> {
        self.lanes.get(key)?;
        self.change(key, |lane| lane.take(1))
    }

    /// The first waiting tasks of a lane.
    pub(crate) fn front(&self, key: &LaneKey) -> Option<&Span> {
        self.lanes.get(key)?.front()
    }

    /// The first task of each lane.
    pub(crate) fn fronts(&self) -> impl Iterator<Item = (Seq, &LaneKey)> {
        self.fronts.iter().map(|(seq, key)| (*seq, key))
    }

    /// The span with the lowest number.
    pub(crate) fn first(&self) -> Option<&Span> {
        let (_, key) = self.fronts.first()?;
        self.front(key)
    }

    /// Takes the lanes whose first task is another one, or gone.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<LaneKey> {
        std::mem::take(&mut self.changed)
    }

    pub(crate) fn span_of(&self, seq: Seq) -> Option<&Span> {
        self.lanes.values().find_map(|lane| lane.span_of(seq))
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.values()
    }

    pub(crate) fn spans(&self) -> impl Iterator<Item = &Span> {
        self.lanes.values().flat_map(Lane::spans)
    }

    pub(crate) fn spans_among(&self, first: Seq, last: Seq) -> impl Iterator<Item = &Span> {
        let lanes = self.lanes.values();
        lanes.flat_map(move |lane| lane.spans_among(first, last))
    }

    /// The first spans of the first `most` lanes.
    pub(crate) fn first_spans(&self, most: usize) -> impl Iterator<Item = &Span> {
        let fronts = self.fronts.iter().take(most);
        fronts.filter_map(|(_, key)| self.front(key))
    }

    /// The waiting tasks for a kind of slot.
    pub(crate) fn spans_of(&self, kind: KindId) -> impl Iterator<Item = &Span> {
        let of_kind = self.lanes.iter().filter(move |(key, _)| key.kind == kind);
        of_kind.flat_map(|(_, lane)| lane.spans())
    }

    /// Takes out the waiting tasks among `first..=last`.
    pub(crate) fn remove(&mut self, first: Seq, last: Seq, out: &mut Vec<Span>) {
        let has_some = |lane: &Lane| lane.spans_among(first, last).next().is_some();
        let touched = self.lanes.iter().filter(|(_, lane)| has_some(lane));
        let touched: Vec<LaneKey> = touched.map(|(key, _)| key.clone()).collect();
        for key in touched {
            self.change(&key, |lane| lane.remove(first, last, out));
        }
    }

    /// Takes up to `max` waiting tasks with a number up to `up_to`, lowest lanes first.
    pub(crate) fn drain(&mut self, up_to: Seq, max: u32, out: &mut Vec<Span>) -> u32 {
        let mut taken = 0;
        while taken < max
            && let Some((first, key)) = self.fronts.first().cloned()
            && first <= up_to
        {
            let span = self.change(&key, |lane| {
                let (_, reach) = lane.front()?.parts(first, up_to);
                lane.take(reach.min(max - taken))
            });
            let Some(span) = span else {
                break;
            };
            taken += span.count;
            out.push(span);
        }
        taken
    }

    /// Changes a lane, and notes what that does to its first task.
    fn change<T>(&mut self, key: &LaneKey, change: impl FnOnce(&mut Lane) -> T) -> T {
        step();
        let lane = self.lanes.entry(key.clone());
        let lane = lane.or_insert_with(|| Lane::new(key.kind));
        let before = lane.front().map(|span| span.first);
        let changed = change(lane);
        let after = lane.front().map(|span| span.first);
        if after.is_none() {
            self.lanes.remove(key);
        }
        if before != after {
            let gone = before.map(|seq| (seq, key.clone()));
            gone.map(|front| self.fronts.remove(&front));
            self.fronts.extend(after.map(|seq| (seq, key.clone())));
            self.changed.insert(key.clone());
        }
        changed
    }
}
