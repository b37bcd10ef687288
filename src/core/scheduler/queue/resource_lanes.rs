//! Waiting tasks of one order that need resources besides a slot: a lane for each kind of slot and
//! set of resources, so that those that cannot have theirs keep no others waiting.
//!
//! Within a lane tasks start by their number. Whoever follows the lanes is told which of them have
//! another first task than before, and after which task new ones begin. There may be as many lanes
//! as tasks, so nothing is noted while nobody follows them, and all spans are in one map besides:
//! what is asked about a task must not ask every lane.

use super::{found_range::FoundRange, span::Span, step_counter::step};
use crate::core::{Seq, Want, fairness::slot_kinds::KindId};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound::{Excluded, Unbounded},
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
    /// Everything that waits here, by the first task of each span.
    spans: Spans,
    lanes: BTreeMap<LaneKey, Lane>,
    /// The lanes by their first task.
    fronts: BTreeMap<Seq, LaneKey>,
    is_followed: bool,
    /// Lanes that have got another first task, or lost their last one, since they are followed.
    changed: BTreeSet<LaneKey>,
    /// The first task of the earliest lane that has begun behind all others since then: one call
    /// may bring as many lanes as tasks, so they are not noted one by one.
    begun: Option<Seq>,
}

type Spans = BTreeMap<Seq, Span>;

/// The first tasks of a lane's spans.
type Lane = BTreeSet<Seq>;

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
    pub(crate) fn push_back(&mut self, mut span: Span) {
        self.change(&LaneKey::of(&span), |lane, spans| {
            if let Some(back) = lane.last().and_then(|last| spans.get_mut(last)) {
                if back.join(&span) {
                    return;
                }
                if back.alike(&span.spec) {
                    span.spec = back.spec.clone();
                }
            }
            put(lane, spans, span);
        });
    }

    /// Takes in tasks that may be older than others here.
    pub(crate) fn insert(&mut self, span: Span) {
        self.change(&LaneKey::of(&span), |lane, spans| put(lane, spans, span));
    }

    /// Takes the first task of a lane.
    pub(crate) fn take(&mut self, key: &LaneKey) -> Option<Span> {
        self.lanes.get(key)?;
        self.change(key, |lane, spans| take_front(lane, spans, 1))
    }

    /// The first waiting tasks of a lane.
    pub(crate) fn front(&self, key: &LaneKey) -> Option<&Span> {
        self.spans.get(self.lanes.get(key)?.first()?)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// The lanes whose first task comes after `after`, by that task.
    pub(crate) fn fronts_after(&self, after: Seq) -> impl Iterator<Item = (Seq, &LaneKey)> {
        let fronts = self.fronts.range((Excluded(after), Unbounded));
        fronts.map(|(seq, key)| (*seq, key))
    }

    /// The span with the lowest number.
    pub(crate) fn first(&self) -> Option<&Span> {
        self.spans.values().next()
    }

    /// They are followed from now on. Returns the number after which those come that were not, if
    /// there are any.
    pub(crate) fn follow(&mut self) -> Option<Seq> {
        match std::mem::replace(&mut self.is_followed, true) {
            true => self.begun.take().map(|first| Seq(first.0 - 1)),
            false => (!self.is_empty()).then_some(Seq(0)),
        }
    }

    /// They are followed no more.
    pub(crate) fn unfollow(&mut self) {
        self.is_followed = false;
        self.changed.clear();
        self.begun = None;
    }

    /// Takes the lanes whose first task is another one, or gone.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<LaneKey> {
        std::mem::take(&mut self.changed)
    }

    pub(crate) fn span_of(&self, seq: Seq) -> Option<&Span> {
        self.spans_among(seq, seq).next()
    }

    pub(crate) fn spans(&self) -> impl Iterator<Item = &Span> {
        self.spans.values().inspect(|_| step())
    }

    /// Its tasks up to `newest`, newest first.
    pub(crate) fn newest(&self, newest: Seq) -> impl Iterator<Item = FoundRange> {
        let spans = self.newest_spans(newest);
        spans.map(move |span| FoundRange::new(span.first, span.last().min(newest)))
    }

    /// The spans that have a task among `first..=last`, newest first.
    pub(crate) fn spans_among(&self, first: Seq, last: Seq) -> impl Iterator<Item = &Span> {
        self.newest_spans(last)
            .take_while(move |span| span.last() >= first)
    }

    /// The spans that begin at `newest` or before, newest first.
    fn newest_spans(&self, newest: Seq) -> impl Iterator<Item = &Span> {
        let spans = self.spans.range(..=newest).rev();
        spans.map(|(_, span)| span).inspect(|_| step())
    }

    /// The first spans of the first `most` lanes.
    pub(crate) fn first_spans(&self, most: usize) -> impl Iterator<Item = &Span> {
        let fronts = self.fronts.iter().take(most);
        fronts.filter_map(|(seq, _)| self.spans.get(seq))
    }

    /// Takes out the waiting tasks among `first..=last`, by ascending number.
    pub(crate) fn remove(&mut self, first: Seq, last: Seq, out: &mut Vec<Span>) {
        let from = out.len();
        while let Some((key, start)) = self.place_among(first, last) {
            self.change(&key, |lane, spans| {
                lane.remove(&start);
                let Some(mut span) = spans.remove(&start) else {
                    return;
                };
                let (before, inside) = span.parts(first, last);
                if before > 0 {
                    put(lane, spans, span.cut(before));
                }
                out.push(span.cut(inside));
                if span.count > 0 {
                    put(lane, spans, span);
                }
            });
        }
        out[from..].reverse();
    }

    /// A span that has a task among `first..=last`.
    fn place_among(&self, first: Seq, last: Seq) -> Option<(LaneKey, Seq)> {
        let found = self.spans_among(first, last).next()?;
        Some((LaneKey::of(found), found.first))
    }

    /// Takes up to `max` waiting tasks with a number up to `up_to`, lowest lanes first.
    pub(crate) fn drain(&mut self, up_to: Seq, max: u32, out: &mut Vec<Span>) -> u32 {
        let mut taken = 0;
        while taken < max
            && let Some((first, key)) = self.fronts.first_key_value()
            && *first <= up_to
        {
            let (first, key) = (*first, key.clone());
            let span = self.change(&key, |lane, spans| {
                let (_, reach) = spans.get(&first)?.parts(first, up_to);
                take_front(lane, spans, reach.min(max - taken))
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
    fn change<T>(&mut self, key: &LaneKey, change: impl FnOnce(&mut Lane, &mut Spans) -> T) -> T {
        step();
        let lane = self.lanes.entry(key.clone()).or_default();
        let before = lane.first().copied();
        let changed = change(lane, &mut self.spans);
        let after = lane.first().copied();
        if after.is_none() {
            self.lanes.remove(key);
        }
        if before != after {
            before.map(|seq| self.fronts.remove(&seq));
            if self.is_followed {
                self.note(key, before, after);
            }
            self.fronts.extend(after.map(|seq| (seq, key.clone())));
        }
        changed
    }

    /// Notes that a lane, which is not among the fronts now, has another first task than before.
    fn note(&mut self, key: &LaneKey, before: Option<Seq>, after: Option<Seq>) {
        let last = self.fronts.last_key_value().map(|(seq, _)| *seq);
        match after.filter(|_| before.is_none()) {
            Some(first) if last < Some(first) => {
                self.begun = Some(self.begun.map_or(first, |begun| begun.min(first)));
            }
            _ => {
                self.changed.insert(key.clone());
            }
        }
    }
}

fn put(lane: &mut Lane, spans: &mut Spans, span: Span) {
    lane.insert(span.first);
    spans.insert(span.first, span);
}

/// Takes up to `max` tasks from the front of a lane.
fn take_front(lane: &mut Lane, spans: &mut Spans, max: u32) -> Option<Span> {
    let mut span = spans.remove(&lane.pop_first()?)?;
    if span.count <= max {
        return Some(span);
    }
    let taken = span.cut(max);
    put(lane, spans, span);
    Some(taken)
}
