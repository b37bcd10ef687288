//! Time as the core sees it: microseconds by the clock of the database, handed in with every
//! command. The core never reads a clock.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

const DAY_US: i64 = 86_400_000_000;

/// Microseconds since 1970-01-01 UTC, by the clock of the coordination database.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Time(pub i64);

/// Days since 1970-01-01 UTC: the partition a task's rows lie in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Day(pub i32);

impl Time {
    /// Later than anything: "no timer".
    pub const NEVER: Time = Time(i64::MAX);

    /// The UTC day this time lies in.
    pub fn day(self) -> Day {
        Day(self.0.div_euclid(DAY_US) as i32)
    }

    /// Time passed since `earlier`; zero when `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0).max(0) as u64)
    }
}

impl fmt::Display for Time {
    /// As RFC 3339 has it, in UTC: in whole seconds, or with six digits of one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_microsecond(self.0) {
            Ok(time) if time.subsec_nanosecond() == 0 => write!(f, "{time}"),
            Ok(time) => write!(f, "{time:.6}"),
            Err(_) => f.write_str("out of range"),
        }
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, rhs: Duration) -> Time {
        Time(
            self.0
                .saturating_add(i64::try_from(rhs.as_micros()).unwrap_or(i64::MAX)),
        )
    }
}

impl Sub<Duration> for Time {
    type Output = Time;

    fn sub(self, rhs: Duration) -> Time {
        Time(
            self.0
                .saturating_sub(i64::try_from(rhs.as_micros()).unwrap_or(i64::MAX)),
        )
    }
}
