//! Who gets the next free slot of a target. A pure state: `sql::target_slots` runs it in the
//! server, the simulators in the tests.
//!
//! One rule, whatever has happened: the first in line begins while more slots are free than it is
//! to leave free. The owner of the shard counts slots by the same rule
//! (`core/fairness/slot_kinds.rs`).

use crate::core::Time;
use std::{collections::VecDeque, time::Duration};

/// What was handed out to run on a target, and has no slot yet.
#[derive(Debug)]
pub struct Line<T>(VecDeque<Place<T>>);

#[derive(Debug)]
struct Place<T> {
    who: T,
    /// See [`Dispatch::leaves_free`](crate::executor_protocol::Dispatch::leaves_free).
    leaves_free: Option<u32>,
    since: Time,
}

impl<T> Line<T> {
    /// Has somebody stand in line: before all who are to leave slots free, if it need not.
    pub fn join(&mut self, now: Time, who: T, leaves_free: Option<u32>) {
        let at = match leaves_free {
            None => self.0.partition_point(|place| place.leaves_free.is_none()),
            Some(_) => self.0.len(),
        };
        let place = Place {
            who,
            leaves_free,
            since: now,
        };
        self.0.insert(at, place);
    }

    /// Who begins now, while so many slots are free.
    pub fn next(&mut self, free: usize) -> Option<T> {
        let begins = |place: &mut Place<T>| free > place.leaves_free.unwrap_or(0) as usize;
        self.0.pop_front_if(begins).map(|place| place.who)
    }

    /// Takes somebody out.
    pub fn remove(&mut self, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.0.iter().position(|place| is_it(&place.who))?;
        self.0.remove(at).map(|place| place.who)
    }

    /// Takes out who has stood in line for so long, and all behind them: they have no more to hope
    /// for.
    pub fn leave(&mut self, now: Time, longest: Duration) -> Vec<T> {
        let has_stood = |place: &Place<T>| now.since(place.since) >= longest;
        let first = self.0.iter().position(has_stood).unwrap_or(self.0.len());
        self.0.drain(first..).map(|place| place.who).collect()
    }

    /// Since when somebody has stood there, of all the longest.
    pub fn since(&self) -> Option<Time> {
        self.0.iter().map(|place| place.since).min()
    }

    /// Who stands there, the next one first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|place| &place.who)
    }
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Line(VecDeque::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line in which these stand, each with what it leaves free.
    fn line(places: &[(char, Option<u32>)]) -> Line<char> {
        let mut line = Line::default();
        for (at, (who, leaves_free)) in (0..).zip(places) {
            line.join(Time(at), *who, *leaves_free);
        }
        line
    }

    /// Who begins while slots become free one after the other, up to so many, and none is given
    /// back.
    fn begin(line: &mut Line<char>, free: usize) -> String {
        (1..=free).filter_map(|free| line.next(free)).collect()
    }

    #[test]
    fn who_leaves_none_free_begins_before_all_others() {
        let mut line = line(&[('a', Some(0)), ('b', None), ('c', None), ('d', Some(0))]);
        assert_eq!(begin(&mut line, 5), "bcad");
    }

    #[test]
    fn the_reserve_is_left_free() {
        let mut line = line(&[('a', Some(1)), ('b', Some(1))]);
        assert_eq!((line.next(0), line.next(1)), (None, None));
        assert_eq!((line.next(2), line.next(1)), (Some('a'), None));
        line.join(Time(9), 'c', None);
        assert_eq!((line.next(1), line.next(1)), (Some('c'), None));
    }

    #[test]
    fn who_waits_for_too_long_leaves_with_all_behind() {
        let mut line = line(&[('a', Some(0)), ('b', Some(0)), ('c', Some(0))]);
        line.join(Time(9), 'd', None);
        assert_eq!(line.since(), Some(Time(0)));
        assert!(line.leave(Time(4), Duration::from_micros(5)).is_empty());
        assert_eq!(
            line.leave(Time(5), Duration::from_micros(5)),
            ['a', 'b', 'c']
        );
        assert_eq!(line.iter().collect::<String>(), "d");
        assert_eq!(line.leave(Time(9), Duration::ZERO), ['d']);
        assert_eq!(line.since(), None);
    }

    #[test]
    fn who_is_taken_out_stands_there_no_more() {
        let mut line = line(&[('a', Some(0)), ('b', Some(0))]);
        assert_eq!(line.remove(|who| *who == 'a'), Some('a'));
        assert_eq!(line.remove(|who| *who == 'a'), None);
        assert_eq!(begin(&mut line, 3), "b");
    }
}
