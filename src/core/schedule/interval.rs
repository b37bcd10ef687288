//! Intervals: equal distances in elapsed time, which no change of the clocks moves.

use super::fault::ScheduleFault;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// Due every so often. Due times are counted from 1970-01-01 00:00 UTC, so they do not depend on
/// when the job was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The distance: 1 s to 366 days, in whole seconds.
    pub every: Duration,
    /// How much later than the multiples of the distance: less than it, in whole seconds.
    pub phase: Duration,
}

const LONGEST: Duration = Duration::from_secs(366 * 86_400);

impl Interval {
    pub(super) fn faults(&self) -> Vec<ScheduleFault> {
        let mut faults = Vec::new();
        let is_whole = |duration: Duration| duration.subsec_nanos() == 0;
        if self.every < Duration::from_secs(1) || self.every > LONGEST || !is_whole(self.every) {
            let what = "must be 1s to 366 days, in whole seconds";
            faults.push(ScheduleFault::new("interval.every", what));
        } else if self.phase >= self.every || !is_whole(self.phase) {
            let what = "must be less than `every`, in whole seconds";
            faults.push(ScheduleFault::new("interval.phase", what));
        }
        faults
    }

    /// The first due time from `from` on.
    pub(super) fn first(&self, from: Timestamp) -> Option<Timestamp> {
        let (every, phase) = (self.every.as_secs() as i64, self.phase.as_secs() as i64);
        let whole = Timestamp::from_second(from.as_second()).ok()?;
        let from = from.as_second() + i64::from(whole < from);
        let passed = (from - phase).rem_euclid(every);
        let wait = if passed == 0 { 0 } else { every - passed };
        Timestamp::from_second(from)
            .ok()?
            .checked_add(SignedDuration::from_secs(wait))
            .ok()
    }
}
