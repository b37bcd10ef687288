//! Total deadlines of a scheduler's unfinished tasks, by time: one entry for the tasks of a call
//! that were submitted with one.
//!
//! An entry whose tasks have ended out of order stays until its deadline; who takes it out must
//! expect tasks that are gone.

use super::queue::span::Span;
use crate::core::{Order, Seq, Time};
use std::collections::BTreeMap;

/// First task → last task and order.
#[derive(Debug, Default)]
pub(crate) struct Deadlines(BTreeMap<(Time, Seq), (Seq, Option<Order>)>);

/// Consecutive tasks whose deadline has passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overdue {
    pub first: Seq,
    pub last: Seq,
    pub order: Option<Order>,
}

impl Deadlines {
    pub(crate) fn add(&mut self, span: &Span) {
        if let Some(deadline) = span.deadline() {
            self.0
                .insert((deadline, span.first), (span.last(), span.order));
        }
    }

    /// Forgets tasks that have ended; of a call's tasks those in front.
    pub(crate) fn end(&mut self, span: &Span) {
        let Some(deadline) = span.deadline() else {
            return;
        };
        if let Some((last, order)) = self.0.remove(&(deadline, span.first))
            && last > span.last()
        {
            self.0.insert((deadline, span.end()), (last, order));
        }
    }

    /// The next deadline.
    pub(crate) fn next(&self) -> Time {
        self.0.keys().next().map_or(Time::NEVER, |(at, _)| *at)
    }

    /// Takes out up to `most` tasks whose deadline has passed.
    pub(crate) fn pop_overdue(&mut self, now: Time, most: u32) -> Option<Overdue> {
        let entry = self.0.first_entry().filter(|entry| entry.key().0 <= now)?;
        let ((at, first), (end, order)) = entry.remove_entry();
        let last = end.min(first.plus(most - 1));
        if last < end {
            self.0.insert((at, last.plus(1)), (end, order));
        }
        Some(Overdue { first, last, order })
    }

    /// First and last task and time of every entry later than `now`.
    pub(crate) fn after(&self, now: Time) -> impl Iterator<Item = (Seq, Seq, Time)> {
        self.0
            .iter()
            .filter(move |((at, _), _)| *at > now)
            .map(|((at, first), (last, _))| (*first, *last, *at))
    }
}
