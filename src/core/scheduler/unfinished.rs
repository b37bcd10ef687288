//! The unfinished tasks of a scheduler as ranges of their numbers, updated task by task, so that a
//! checkpoint costs what it writes and not what waits.
//!
//! Invariant: the tasks of a range were submitted on one day, so that the ranges tell how old the
//! oldest row is that recovery needs.

use crate::core::{Day, Seq};
use std::collections::BTreeMap;

/// Inclusive ranges: first → last, and the day of submission.
#[derive(Debug, Default)]
pub(crate) struct Unfinished(BTreeMap<Seq, (Seq, Day)>);

impl Unfinished {
    /// Ranges of which nothing is known but that they were not submitted before `day`.
    pub(crate) fn since(day: Day, ranges: &[(Seq, Seq)]) -> Self {
        Unfinished(
            ranges
                .iter()
                .map(|(first, last)| (*first, (*last, day)))
                .collect(),
        )
    }

    /// Adds tasks with higher numbers than all others.
    pub(crate) fn add(&mut self, first: Seq, last: Seq, day: Day) {
        if let Some(mut end) = self.0.last_entry()
            && end.get().0.plus(1) == first
            && end.get().1 == day
        {
            end.get_mut().0 = last;
            return;
        }
        self.0.insert(first, (last, day));
    }

    /// Takes `first..=last` out.
    pub(crate) fn remove(&mut self, first: Seq, last: Seq) {
        loop {
            let Some((from, (to, day))) = self.overlapping(first, last).next() else {
                return;
            };
            self.0.remove(&from);
            if from < first {
                self.0.insert(from, (Seq(first.0 - 1), day));
            }
            if to > last {
                self.0.insert(last.plus(1), (to, day));
            }
        }
    }

    /// The parts of `first..=last` that are in.
    pub(crate) fn within(&self, first: Seq, last: Seq) -> Vec<(Seq, Seq)> {
        self.overlapping(first, last)
            .map(|(from, (to, _))| (from.max(first), to.min(last)))
            .collect()
    }

    /// The parts up to `newest`, newest first.
    pub(crate) fn up_to(&self, newest: Seq) -> impl Iterator<Item = (Seq, Seq)> {
        self.0
            .range(..=newest)
            .rev()
            .map(move |(first, (last, _))| (*first, (*last).min(newest)))
    }

    /// The parts above `seq`, newest first.
    pub(crate) fn above(&self, seq: Seq) -> impl Iterator<Item = (Seq, Seq)> {
        let ranges = self
            .0
            .iter()
            .rev()
            .map(|(first, (last, _))| (*first, *last));
        ranges
            .take_while(move |(_, last)| *last > seq)
            .map(move |(first, last)| (first.max(seq.plus(1)), last))
    }

    /// How many ranges there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// All ranges, joined where they meet.
    pub(crate) fn ranges(&self) -> Vec<(Seq, Seq)> {
        let mut ranges: Vec<(Seq, Seq)> = Vec::with_capacity(self.0.len());
        for (first, (last, _)) in &self.0 {
            match ranges.last_mut() {
                Some(end) if end.1.plus(1) == *first => end.1 = *last,
                _ => ranges.push((*first, *last)),
            }
        }
        ranges
    }

    /// The earliest day on which one of them was submitted: not always that of the first one, as a
    /// clock may have been ahead.
    pub(crate) fn first_day(&self) -> Option<Day> {
        self.0.values().map(|(_, day)| *day).min()
    }

    fn overlapping(&self, first: Seq, last: Seq) -> impl Iterator<Item = (Seq, (Seq, Day))> {
        let before = self
            .0
            .range(..first)
            .next_back()
            .filter(|(_, (to, _))| *to >= first);
        before
            .into_iter()
            .chain(self.0.range(first..=last))
            .map(|(from, range)| (*from, *range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(ranges: Vec<(Seq, Seq)>) -> Vec<(i64, i64)> {
        ranges
            .into_iter()
            .map(|(first, last)| (first.0, last.0))
            .collect()
    }

    #[test]
    fn ranges_lose_what_is_removed_and_nothing_else() {
        let mut unfinished = Unfinished::since(Day(0), &[(Seq(1), Seq(10)), (Seq(20), Seq(30))]);
        unfinished.remove(Seq(5), Seq(5));
        unfinished.remove(Seq(9), Seq(22));
        let within = |first, last| pairs(unfinished.within(Seq(first), Seq(last)));
        assert_eq!(within(0, 100), [(1, 4), (6, 8), (23, 30)]);
        assert_eq!(within(3, 7), [(3, 4), (6, 7)]);
        assert_eq!(within(9, 22), []);
    }

    #[test]
    fn tasks_of_several_days_are_one_range_and_the_oldest_day_is_known() {
        let mut unfinished = Unfinished::default();
        for (first, last, day) in [(1, 4, 7), (5, 9, 7), (10, 12, 8)] {
            unfinished.add(Seq(first), Seq(last), Day(day));
        }
        unfinished.remove(Seq(3), Seq(3));
        assert_eq!(
            (unfinished.count(), unfinished.first_day()),
            (3, Some(Day(7)))
        );
        assert_eq!(pairs(unfinished.ranges()), [(1, 2), (4, 12)]);
        unfinished.remove(Seq(1), Seq(9));
        assert_eq!(
            (pairs(unfinished.ranges()), unfinished.first_day()),
            (vec![(10, 12)], Some(Day(8)))
        );
        unfinished.remove(Seq(10), Seq(12));
        assert_eq!((unfinished.count(), unfinished.first_day()), (0, None));
    }
}
