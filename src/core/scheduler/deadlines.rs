//! Total deadlines of a scheduler's unfinished tasks, by time: one entry for the tasks of a call
//! that were submitted with one, and more when tasks between them have ended.
//!
//! An entry is taken out when its deadline passes, also while its tasks run. Those whose orders an
//! incremental cancellation holds back are postponed until it is over: they are cancelled by then,
//! or their failure comes after it, however long it takes.

use super::queue::{span::Span, step_counter::step};
use crate::core::{Order, Seq, Time};
use std::collections::BTreeMap;

/// Time and first task → last task and order.
type Entries = BTreeMap<(Time, Seq), (Seq, Option<Order>)>;

#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    by_time: Entries,
    postponed: Entries,
    /// Those that were postponed until now.
    resumed: Entries,
}

/// Consecutive tasks whose deadline has passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overdue {
    pub at: Time,
    pub first: Seq,
    pub last: Seq,
    pub order: Option<Order>,
}

impl Deadlines {
    pub(crate) fn add(&mut self, span: &Span) {
        if let Some(deadline) = span.deadline() {
            let entry = (span.last(), span.order);
            self.by_time.insert((deadline, span.first), entry);
        }
    }

    /// Forgets tasks that have ended.
    pub(crate) fn end(&mut self, span: &Span) {
        if let Some(at) = span.deadline() {
            for entries in [&mut self.by_time, &mut self.postponed, &mut self.resumed] {
                cut(entries, at, span.first, span.last());
            }
        }
    }

    /// The next deadline.
    pub(crate) fn next(&self) -> Time {
        let first = |entries: &Entries| entries.keys().next().map(|(at, _)| *at);
        let firsts = [first(&self.resumed), first(&self.by_time)];
        let next = firsts.into_iter().flatten().min();
        next.unwrap_or(Time::NEVER)
    }

    /// Takes out up to `most` tasks whose deadline has passed.
    pub(crate) fn pop_overdue(&mut self, now: Time, most: u32) -> Option<Overdue> {
        let first = self.resumed.keys().next();
        let entries = match first.is_some_and(|(at, _)| *at <= now) {
            true => &mut self.resumed,
            false => &mut self.by_time,
        };
        let entry = entries.first_entry();
        let entry = entry.filter(|entry| entry.key().0 <= now)?;
        let ((at, first), (end, order)) = entry.remove_entry();
        let last = end.min(first.plus(most - 1));
        if last < end {
            entries.insert((at, last.plus(1)), (end, order));
        }
        Some(Overdue {
            at,
            first,
            last,
            order,
        })
    }

    /// Leaves tasks whose deadline has passed until [`Deadlines::resume`].
    pub(crate) fn postpone(&mut self, overdue: Overdue) {
        let key = (overdue.at, overdue.first);
        self.postponed.insert(key, (overdue.last, overdue.order));
    }

    /// What was postponed is overdue again. There may be as many as tasks, on either side.
    pub(crate) fn resume(&mut self) {
        match self.resumed.is_empty() {
            true => std::mem::swap(&mut self.resumed, &mut self.postponed),
            false => self.resumed.append(&mut self.postponed),
        }
    }

    /// First and last task and time of every entry later than `now`.
    pub(crate) fn after(&self, now: Time) -> impl Iterator<Item = (Seq, Seq, Time)> {
        self.by_time
            .iter()
            .filter(move |((at, _), _)| *at > now)
            .map(|((at, first), (last, _))| (*first, *last, *at))
    }

    /// How many entries there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.by_time.len() + self.postponed.len() + self.resumed.len()
    }
}

/// Takes the tasks `first..=last` out of the entries of a deadline.
fn cut(entries: &mut Entries, at: Time, first: Seq, last: Seq) {
    if entries.is_empty() {
        return;
    }
    while let Some(from) = touching(entries, at, first, last)
        && let Some((to, order)) = entries.remove(&(at, from))
    {
        if from < first {
            entries.insert((at, from), (Seq(first.0 - 1), order));
        }
        if to > last {
            entries.insert((at, last.plus(1)), (to, order));
        }
    }
}

/// Where an entry of a deadline begins that has a task among `first..=last`.
fn touching(entries: &Entries, at: Time, first: Seq, last: Seq) -> Option<Seq> {
    step();
    let before = entries.range((at, Seq(0))..(at, first)).next_back();
    let before = before.filter(|(_, (to, _))| *to >= first);
    let found = before.or_else(|| entries.range((at, first)..=(at, last)).next());
    found.map(|((_, from), _)| *from)
}
