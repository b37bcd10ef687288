//! Time as it really passes, by which leases count. The time of the service follows the clock of
//! its database gradually, and so may run at half or at double speed for a while: a lease must not
//! be over earlier for that.

use crate::core::Time;
use std::{ops::Add, time::Duration};

/// A point of time as it passes, since the core is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Steady(i64);

impl Steady {
    pub(crate) const NEVER: Steady = Steady(i64::MAX);
}

impl Add<Duration> for Steady {
    type Output = Steady;

    fn add(self, time: Duration) -> Steady {
        let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        Steady(self.0.saturating_add(micros))
    }
}

/// How the time of the service has run beside time as it passes. A new core begins anew.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// As it was said last.
    lead: Option<i64>,
    /// By how much it has grown.
    gained: i64,
}

impl Pace {
    /// By how many microseconds the time of the service leads that which has passed, from any
    /// moment on.
    pub(crate) fn set_lead(&mut self, lead: i64) {
        let before = self.lead.replace(lead);
        self.gained += before.map_or(0, |before| lead - before);
    }

    pub(crate) fn steady(&self, time: Time) -> Steady {
        match time {
            Time::NEVER => Steady::NEVER,
            Time(time) => Steady(time.saturating_sub(self.gained)),
        }
    }

    /// When that will be by the time of the service, if it runs as fast as time passes.
    pub(crate) fn time(&self, steady: Steady) -> Time {
        match steady {
            Steady::NEVER => Time::NEVER,
            Steady(steady) => Time(steady.saturating_add(self.gained)),
        }
    }
}
