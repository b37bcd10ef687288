//! The due times that have passed since somebody looked: the newest one by one, those before as a
//! range. A year of due times a second apart costs as much as an hour of them.

use super::{DueTime, Schedule};
use jiff::{SignedDuration, Timestamp};

/// How many due times of a range are counted: the number of a longer one is this.
pub const COUNTED: usize = 10_000;

/// Due times that have passed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Those before `newest`.
    pub earlier: Option<Range>,
    /// The newest ones, ascending.
    pub newest: Vec<DueTime>,
}

/// Consecutive due times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first.
    pub first: Timestamp,
    /// The last.
    pub last: Timestamp,
    /// How many; of more than [`COUNTED`], so many.
    pub count: usize,
}

/// How far a new release of the time zones may move a due time: across the date line.
const LONGEST_MOVE: SignedDuration = SignedDuration::from_hours(26);

impl Passed {
    /// The first of all.
    pub fn first(&self) -> Option<Timestamp> {
        let newest = self.newest.first();
        let range = self.earlier.map(|range| range.first);
        range.or(newest.map(|due| due.at))
    }

    /// Adds one that comes before all others.
    pub fn put_first(&mut self, due: DueTime) {
        match &mut self.earlier {
            Some(range) => {
                range.first = due.at;
                range.count = COUNTED.min(range.count + 1);
            }
            None => self.newest.insert(0, due),
        }
    }
}

impl Schedule {
    /// The due time that takes the place of one that another release of the time zones has named:
    /// the nearest. `None`: there is none so near.
    pub fn moved(&self, due: Timestamp) -> Option<DueTime> {
        let from = due.checked_sub(LONGEST_MOVE).unwrap_or(due);
        let until = due.checked_add(LONGEST_MOVE).unwrap_or(due);
        let earlier = self.passed(from, due, 1).newest.pop();
        let later = self.next(due).filter(|later| later.at <= until);
        match (earlier, later) {
            (Some(earlier), Some(later)) => {
                let is_nearer = due.duration_since(earlier.at) < later.at.duration_since(due);
                Some(if is_nearer { earlier } else { later })
            }
            (earlier, later) => earlier.or(later),
        }
    }

    /// What is left of a due time that another release of the time zones has named, and this one
    /// does not. If the one in its place is earlier, it had passed before anybody knew: then it is
    /// due as it was named. `None`: the one in its place is later.
    pub fn overtaken(&self, due: Timestamp) -> Option<DueTime> {
        let earlier = self.moved(due).filter(|moved| moved.at < due)?;
        Some(DueTime { at: due, ..earlier })
    }

    /// The due times from `from` to `until`, both included, of which the newest `most` (at least 1)
    /// are told one by one.
    pub fn passed(&self, from: Timestamp, until: Timestamp, most: usize) -> Passed {
        let within = |from| {
            let times = self.due_times(from).filter(DueTime::is_due);
            times.take_while(move |time| time.at <= until)
        };
        let all: Vec<DueTime> = within(from).take(most + 1).collect();
        if all.len() <= most {
            return Passed {
                earlier: None,
                newest: all,
            };
        }
        // One more than is told: the last one of the range.
        let mut newest = self.newest(from, until, most + 1);
        let last = newest.remove(0).at;
        let counted = within(from).take_while(|time| time.at <= last);
        let range = Range {
            first: all[0].at,
            last,
            count: counted.take(COUNTED).count(),
        };
        Passed {
            earlier: Some(range),
            newest,
        }
    }

    /// The newest `most` due times, of which there are more, found by looking further and further
    /// back.
    fn newest(&self, from: Timestamp, until: Timestamp, most: usize) -> Vec<DueTime> {
        let mut back = SignedDuration::from_secs(most as i64);
        loop {
            let start = until.checked_sub(back).unwrap_or(from).max(from);
            let times = self.due_times(start).filter(DueTime::is_due);
            let mut found: Vec<DueTime> = times.take_while(|time| time.at <= until).collect();
            if found.len() >= most || start == from {
                return found.split_off(found.len().saturating_sub(most));
            }
            back = back.checked_mul(2).unwrap_or(SignedDuration::MAX);
        }
    }
}
