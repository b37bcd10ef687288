//! A moment that a schedule names: a local time of its zone, or the same moment everywhere.

use super::zone::Zone;
use jiff::{Timestamp, civil::DateTime};
use std::str::FromStr;

/// Where a schedule begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A time by the clock of the schedule's zone. One that comes twice is its first time, one that
    /// is left out the first moment after the gap.
    Local(DateTime),
    /// The same moment everywhere.
    Absolute(Timestamp),
}

impl FromStr for Moment {
    type Err = String;

    /// Reads `2026-12-01`, `2026-12-01T08:00` or `2026-12-01T08:00:00+01:00`.
    fn from_str(text: &str) -> Result<Moment, String> {
        let absolute = || text.parse().ok().map(Moment::Absolute);
        // The name of a zone behind the time would have no effect.
        let local = || {
            Some(text)
                .filter(|text| !text.contains('['))?
                .parse::<DateTime>()
                .ok()
        };
        absolute().or_else(|| local().map(Moment::Local)).ok_or_else(|| {
            "not a time: write 2026-12-01, 2026-12-01T08:00:00 (in the zone of the schedule) or \
             2026-12-01T08:00:00Z"
                .to_owned()
        })
    }
}

impl Moment {
    /// The moment, for a schedule of this zone.
    pub fn resolve(self, zone: &Zone) -> Timestamp {
        match self {
            Moment::Local(local) => zone.first(local),
            Moment::Absolute(absolute) => absolute,
        }
    }
}
