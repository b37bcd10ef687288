//! How long request ids are remembered: [`REQUEST_MEMORY`] of the time that the shard has an owner,
//! across all its owners. So neither a clock that was set while nobody owned the shard nor an
//! outage makes a call that is repeated a new one.

use super::{limits::REQUEST_MEMORY, time::Time};
use std::time::Duration;

/// What an owner goes by. The default is that of a shard that never had another owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestMemory {
    /// When this owner began.
    begun: Time,
    /// By how much its memory then reached further back than [`REQUEST_MEMORY`].
    away: Duration,
}

impl RequestMemory {
    /// That of an owner which begins at `now`, after one that remembered what came since then.
    pub fn inherited(now: Time, since: Time) -> Self {
        RequestMemory {
            begun: now,
            away: (now - REQUEST_MEMORY).since(since),
        }
    }

    /// What came earlier is forgotten by `now`; never earlier than what was said before.
    pub fn since(&self, now: Time) -> Time {
        let usual = now - REQUEST_MEMORY;
        match usual < self.begun {
            true => usual - self.away,
            // All that others accepted has been remembered for as long under this owner alone.
            false => usual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn what_was_remembered_before_an_outage_is_remembered_after_it() {
        let died = Time(1_800_000_000_000_000);
        let known = RequestMemory::default().since(died);
        let begun = died + 24 * HOUR;
        let memory = RequestMemory::inherited(begun, known);
        assert_eq!(memory.since(begun), known);
        let later = Duration::from_secs(60);
        assert_eq!(memory.since(begun + later), known + later);
        assert_eq!(memory.since(begun + REQUEST_MEMORY), begun);
        assert_eq!(memory.since(begun + HOUR), begun + HOUR - REQUEST_MEMORY);
    }

    #[test]
    fn owners_that_follow_soon_upon_each_other_pass_on_what_they_inherited() {
        let died = Time(1_800_000_000_000_000);
        let known = RequestMemory::default().since(died);
        let first = RequestMemory::inherited(died + 24 * HOUR, known);
        let again = died + 24 * HOUR + Duration::from_secs(10);
        let second = RequestMemory::inherited(again, first.since(again));
        assert_eq!(second.since(again), known + Duration::from_secs(10));
    }

    #[test]
    fn a_clock_that_went_back_makes_nothing_old() {
        let now = Time(1_800_000_000_000_000);
        for since in [now + 24 * HOUR, now] {
            let memory = RequestMemory::inherited(now, since);
            assert_eq!(memory.since(now), now - REQUEST_MEMORY, "{since:?}");
        }
    }
}
