//! Waiting tasks of one order and kind, by ascending number.
//!
//! Every step costs the logarithm of what waits, wherever it is put in or taken out. Most lanes
//! have one span, and need no map for it.

use super::{span::Span, step_counter::step};
use crate::core::{Seq, fairness::slot_kinds::KindId, scheduler::queue::found_range::FoundRange};
use std::{collections::BTreeMap, mem};

#[derive(Debug)]
pub(crate) struct Lane {
    pub kind: KindId,
    front: Option<Span>,
    /// By their first task; all of them come after `front`.
    rest: BTreeMap<Seq, Span>,
    /// Tasks of all of them.
    count: i64,
}

impl Lane {
    pub(crate) fn new(kind: KindId) -> Self {
        Lane {
            kind,
            front: None,
            rest: BTreeMap::new(),
            count: 0,
        }
    }

    pub(crate) fn front(&self) -> Option<&Span> {
        self.front.as_ref()
    }

    /// How many tasks wait here.
    pub(crate) fn count(&self) -> i64 {
        self.count
    }

    pub(crate) fn spans(&self) -> impl Iterator<Item = &Span> {
        self.front
            .iter()
            .chain(self.rest.values())
            .inspect(|_| step())
    }

    /// The span that holds a task.
    pub(crate) fn span_of(&self, seq: Seq) -> Option<&Span> {
        let last = self.newest_spans(seq).next();
        last.filter(|span| seq <= span.last())
    }

    /// Its tasks up to `newest`, newest first.
    pub(crate) fn newest(&self, newest: Seq) -> impl Iterator<Item = FoundRange> {
        let spans = self.newest_spans(newest);
        spans.map(move |span| FoundRange::new(span.first, span.last().min(newest)))
    }

    /// Its spans that have a task among `first..=last`, newest first.
    pub(crate) fn spans_among(&self, first: Seq, last: Seq) -> impl Iterator<Item = &Span> {
        self.newest_spans(last)
            .take_while(move |span| span.last() >= first)
    }

    /// Its spans that begin at `newest` or before, newest first.
    fn newest_spans(&self, newest: Seq) -> impl Iterator<Item = &Span> {
        let front = self.front.iter().filter(move |span| span.first <= newest);
        let rest = self.rest.range(..=newest).rev().map(|(_, span)| span);
        rest.chain(front).inspect(|_| step())
    }

    /// Takes in tasks newer than all others here.
    pub(crate) fn push_back(&mut self, mut span: Span) {
        step();
        self.count += i64::from(span.count);
        let back = self.rest.last_entry().map(|entry| entry.into_mut());
        let Some(back) = back.or(self.front.as_mut()) else {
            self.front = Some(span);
            return;
        };
        if back.join(&span) {
            return;
        }
        if back.alike(&span.spec) {
            span.spec = back.spec.clone();
        }
        self.rest.insert(span.first, span);
    }

    /// Takes in tasks that may be older than others here.
    pub(crate) fn insert(&mut self, span: Span) {
        step();
        self.count += i64::from(span.count);
        let later = match &mut self.front {
            None => {
                self.front = Some(span);
                return;
            }
            Some(front) if span.first < front.first => mem::replace(front, span),
            Some(_) => span,
        };
        self.rest.insert(later.first, later);
    }

    /// Takes up to `max` tasks from the front.
    pub(crate) fn take(&mut self, max: u32) -> Option<Span> {
        step();
        match &mut self.front {
            Some(front) if front.count > max => {
                self.count -= i64::from(max);
                Some(front.cut(max))
            }
            _ => self.take_front(),
        }
    }

    /// Takes out the tasks among `first..=last`.
    pub(crate) fn remove(&mut self, first: Seq, last: Seq, out: &mut Vec<Span>) {
        while let Some(mut span) = self.take_touching(first, last) {
            let (before, inside) = span.parts(first, last);
            if before > 0 {
                self.insert(span.cut(before));
            }
            out.push(span.cut(inside));
            if span.count > 0 {
                self.insert(span);
            }
        }
    }

    /// Takes out the first span with a task among `first..=last`.
    fn take_touching(&mut self, first: Seq, last: Seq) -> Option<Span> {
        step();
        let touches = |span: &Span| span.first <= last && first <= span.last();
        if self.front.as_ref().is_some_and(touches) {
            return self.take_front();
        }
        let before = self.rest.range(..first).next_back();
        let found = before
            .filter(|(_, span)| touches(span))
            .or_else(|| self.rest.range(first..=last).next());
        let key = *found?.0;
        let span = self.rest.remove(&key)?;
        self.count -= i64::from(span.count);
        Some(span)
    }

    fn take_front(&mut self) -> Option<Span> {
        let next = self.rest.pop_first().map(|(_, span)| span);
        let span = mem::replace(&mut self.front, next)?;
        self.count -= i64::from(span.count);
        Some(span)
    }
}
