//! The tasks of one order.

use super::{
    lane::Lane,
    resource_lanes::{LaneKey, ResourceLanes},
    span::Span,
};
use crate::core::{Seq, fairness::slot_kinds::KindId, scheduler::queue::found_range::FoundRange};

/// Tasks by descending number.
pub(crate) type NewestFirst<'a> = Box<dyn Iterator<Item = FoundRange> + 'a>;

/// The tasks of one order, or those without one.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Tasks without an outcome, waiting or running.
    pub unfinished: i64,
    /// Tasks in the lanes.
    pub waiting: i64,
    /// Waiting tasks by kind, each lane by ascending number: what runs next follows from the
    /// unfinished set alone.
    lanes: Vec<Lane>,
    /// Those that need resources besides. Boxed: few groups have any.
    claimed: Option<Box<ResourceLanes>>,
}

impl Group {
    fn lane(&mut self, kind: KindId) -> &mut Lane {
        let at = self
            .lanes
            .iter()
            .position(|lane| lane.kind == kind)
            .unwrap_or_else(|| {
                // There are many groups, and few of them have a second kind.
                self.lanes.reserve_exact(1);
                self.lanes.push(Lane::new(kind));
                self.lanes.len() - 1
            });
        &mut self.lanes[at]
    }

    /// Takes in tasks newer than all others here.
    pub(crate) fn push_back(&mut self, span: Span) {
        self.waiting += i64::from(span.count);
        match span.needs_resources() {
            true => self.claimed.get_or_insert_default().push_back(span),
            false => self.lane(span.kind).push_back(span),
        }
    }

    /// Takes in tasks that may be older than others here.
    pub(crate) fn insert(&mut self, span: Span) {
        self.waiting += i64::from(span.count);
        match span.needs_resources() {
            true => self.claimed.get_or_insert_default().insert(span),
            false => self.lane(span.kind).insert(span),
        }
    }

    /// Its lanes of tasks that need resources.
    pub(crate) fn claimed(&self) -> Option<&ResourceLanes> {
        self.claimed.as_deref()
    }

    pub(crate) fn claimed_mut(&mut self) -> Option<&mut ResourceLanes> {
        self.claimed.as_deref_mut()
    }

    /// Takes the first task of a lane of those that need resources.
    pub(crate) fn take_claimed(&mut self, key: &LaneKey) -> Option<Span> {
        let span = self.claimed.as_mut()?.take(key)?;
        self.waiting -= i64::from(span.count);
        Some(span)
    }

    /// The first waiting tasks of a kind that need no resources.
    pub(crate) fn front(&self, kind: KindId) -> Option<&Span> {
        self.lanes.iter().find(|lane| lane.kind == kind)?.front()
    }

    /// The first waiting tasks of each kind that need no resources.
    pub(crate) fn fronts(&self) -> impl Iterator<Item = &Span> {
        self.lanes.iter().filter_map(Lane::front)
    }

    /// How many tasks of each kind wait here that need no resources.
    pub(crate) fn plain_counts(&self) -> impl Iterator<Item = (KindId, i64)> {
        self.lanes.iter().map(|lane| (lane.kind, lane.count()))
    }

    /// The span in which a task waits here.
    pub(crate) fn span_of(&self, seq: Seq) -> Option<&Span> {
        let plain = self.lanes.iter().find_map(|lane| lane.span_of(seq));
        plain.or_else(|| self.claimed.as_ref()?.span_of(seq))
    }

    /// How many tasks of a kind wait here before `seq`, and whether all were counted: those among
    /// the first `most` spans, of which some that need resources may be of another kind.
    pub(crate) fn count_before(&self, kind: KindId, seq: Seq, most: usize) -> (i64, bool) {
        let claimed = self.claimed.iter().flat_map(|lanes| lanes.spans());
        let claimed = claimed.take_while(|span| span.first < seq);
        let plain = self.spans_of(kind).take_while(|span| span.first < seq);
        let mut before = plain.chain(claimed);
        let counted = before.by_ref().take(most);
        let counted = counted.filter(|span| span.kind == kind);
        let tasks = counted.map(|span| i64::from(span.parts(seq, span.last()).0));
        (tasks.sum(), before.next().is_none())
    }

    /// What waits up to `newest`, newest first: of each kind, and of all that needs resources.
    pub(crate) fn newest(&self, newest: Seq) -> impl Iterator<Item = NewestFirst<'_>> {
        let claimed = self.claimed.iter();
        let claimed = claimed.map(move |lanes| Box::new(lanes.newest(newest)) as NewestFirst<'_>);
        let plain = self.lanes.iter();
        let plain = plain.map(move |lane| Box::new(lane.newest(newest)) as NewestFirst<'_>);
        plain.chain(claimed)
    }

    pub(crate) fn spans(&self) -> impl Iterator<Item = &Span> {
        let claimed = self.claimed.iter().flat_map(|lanes| lanes.spans());
        self.lanes.iter().flat_map(Lane::spans).chain(claimed)
    }

    /// The spans that have a task above `seq`.
    pub(crate) fn spans_above(&self, seq: Seq) -> impl Iterator<Item = &Span> {
        self.spans_among(seq.plus(1), Seq(i64::MAX))
    }

    /// The spans that have a task among `first..=last`.
    pub(crate) fn spans_among(&self, first: Seq, last: Seq) -> impl Iterator<Item = &Span> {
        let claimed = self.claimed.iter();
        let claimed = claimed.flat_map(move |lanes| lanes.spans_among(first, last));
        let plain = self.lanes.iter();
        let plain = plain.flat_map(move |lane| lane.spans_among(first, last));
        plain.chain(claimed)
    }

    /// The first `most` spans of each kind, and the first ones of as many sets of resources.
    pub(crate) fn first_spans(&self, most: usize) -> impl Iterator<Item = &Span> {
        let claimed = self.claimed.iter();
        let claimed = claimed.flat_map(move |lanes| lanes.first_spans(most));
        let plain = self.lanes.iter();
        let plain = plain.flat_map(move |lane| lane.spans().take(most));
        plain.chain(claimed)
    }

    /// The waiting tasks of a kind that need no resources.
    pub(crate) fn spans_of(&self, kind: KindId) -> impl Iterator<Item = &Span> {
        let lane = self.lanes.iter().find(|lane| lane.kind == kind);
        lane.into_iter().flat_map(Lane::spans)
    }

    /// Takes up to `max` tasks of a kind, those with the lowest numbers.
    pub(crate) fn take(&mut self, kind: KindId, max: u32) -> Option<Span> {
        let span = self.lane(kind).take(max)?;
        self.waiting -= i64::from(span.count);
        Some(span)
    }

    /// Takes out the waiting tasks among `first..=last`.
    pub(crate) fn remove(&mut self, first: Seq, last: Seq, out: &mut Vec<Span>) {
        let from = out.len();
        self.lanes
            .iter_mut()
            .for_each(|lane| lane.remove(first, last, out));
        if let Some(claimed) = &mut self.claimed {
            claimed.remove(first, last, out);
        }
        self.waiting -= out[from..]
            .iter()
            .map(|span| i64::from(span.count))
            .sum::<i64>();
    }

    /// Takes up to `max` waiting tasks with a number up to `up_to`, lowest lanes first.
    pub(crate) fn drain(&mut self, up_to: Seq, max: u32, out: &mut Vec<Span>) -> u32 {
        let mut taken = 0;
        for lane in &mut self.lanes {
            while taken < max
                && let Some(front) = lane.front()
                && front.first <= up_to
            {
                let (_, reach) = front.parts(front.first, up_to);
                let Some(span) = lane.take(reach.min(max - taken)) else {
                    break;
                };
                taken += span.count;
                out.push(span);
            }
        }
        if let Some(claimed) = &mut self.claimed {
            taken += claimed.drain(up_to, max - taken, out);
        }
        self.waiting -= i64::from(taken);
        taken
    }
}
