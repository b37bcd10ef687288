//! Waiting tasks that may not start before a time: their `not_before`, or the next attempt after a
//! failed one. They count in their order's group, but stand in none of its lanes.

use super::{span::Span, step_counter::step};
use crate::core::{Seq, Time};
use std::collections::BTreeMap;

/// A span that waits for a time.
#[derive(Debug)]
pub(crate) struct Delayed {
    pub span: Span,
    /// It waits for its next attempt, not for its `not_before`.
    pub retry: bool,
}

/// All delayed spans of a scheduler, by time and by number.
#[derive(Debug, Default)]
pub(crate) struct DelayedSpans {
    by_time: BTreeMap<(Time, Seq), Delayed>,
    /// When each span is due, by its first task.
    due: BTreeMap<Seq, Time>,
    /// Tasks that wait for their next attempt.
    retrying: i64,
    /// All tasks.
    tasks: i64,
}

impl DelayedSpans {
    pub(crate) fn insert(&mut self, at: Time, delayed: Delayed) {
        self.retrying += delayed.retrying();
        self.tasks += i64::from(delayed.span.count);
        self.due.insert(delayed.span.first, at);
        self.by_time.insert((at, delayed.span.first), delayed);
    }

    fn take(&mut self, key: (Time, Seq)) -> Option<Delayed> {
        step();
        let delayed = self.by_time.remove(&key)?;
        self.due.remove(&key.1);
        self.retrying -= delayed.retrying();
        self.tasks -= i64::from(delayed.span.count);
        Some(delayed)
    }

    /// Takes out the first span that is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Span> {
        let (key, _) = self.by_time.first_key_value()?;
        let key = Some(*key).filter(|(at, _)| *at <= now)?;
        Some(self.take(key)?.span)
    }

    /// The first span that begins at `from` or later.
    pub(crate) fn first_from(&self, from: Seq) -> Option<&Span> {
        step();
        let (first, at) = self.due.range(from..).next()?;
        Some(&self.by_time[&(*at, *first)].span)
    }

    /// When the next span is due.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.by_time.keys().next().map(|(at, _)| *at)
    }

    /// Tasks that wait for their next attempt.
    pub(crate) fn retrying(&self) -> i64 {
        self.retrying
    }

    /// Tasks that wait for their `not_before`.
    pub(crate) fn not_before(&self) -> i64 {
        self.tasks - self.retrying
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Time, &Delayed)> {
        let all = self.by_time.iter().inspect(|_| step());
        all.map(|((at, _), delayed)| (*at, delayed))
    }

    /// The span that holds a task, and when it is due.
    pub(crate) fn get(&self, seq: Seq) -> Option<(Time, &Delayed)> {
        let found = self.newest(seq).next()?;
        (seq <= found.1.span.last()).then_some(found)
    }

    /// Spans that begin at `newest` or before, newest first.
    pub(crate) fn newest(&self, newest: Seq) -> impl Iterator<Item = (Time, &Delayed)> {
        let keys = self.due.range(..=newest).rev().inspect(|_| step());
        keys.map(|(first, at)| (*at, &self.by_time[&(*at, *first)]))
    }

    /// Takes out the tasks among `first..=last`.
    pub(crate) fn remove(&mut self, first: Seq, last: Seq) -> Vec<Span> {
        let mut out = Vec::new();
        let before = self.due.range(..first).next_back();
        let keys: Vec<_> = before
            .into_iter()
            .chain(self.due.range(first..=last))
            .map(|(seq, at)| (*at, *seq))
            .collect();
        for key in keys {
            let Some(Delayed { mut span, retry }) = self.take(key) else {
                continue;
            };
            let (before, inside) = span.parts(first, last);
            if before > 0 {
                let span = span.cut(before);
                self.insert(key.0, Delayed { span, retry });
            }
            if inside > 0 {
                out.push(span.cut(inside));
            }
            if span.count > 0 {
                self.insert(key.0, Delayed { span, retry });
            }
        }
        out
    }
}

impl Delayed {
    fn retrying(&self) -> i64 {
        if self.retry {
            i64::from(self.span.count)
        } else {
            0
        }
    }
}
