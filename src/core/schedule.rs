//! When a recurring job is due: a pure calendar.
//!
//! A [`Schedule`] is a rule (cron, interval, once in a period, after another job) with a time zone
//! and the choices that go with it. It yields due times, strictly ascending, each once. It reads no
//! clock, and the time zones are handed in ([`TimeZones`]): the same schedule on the same release
//! of the database of time zones has the same due times everywhere and always.

mod cron;
mod cron_days;
mod cron_field;
mod due_times;
mod exclusion;
mod fault;
mod interval;
mod jitter;
mod moment;
mod passed;
mod settings;
mod text;
mod window;
mod zone;

pub use cron::Cron;
pub use due_times::DueTimes;
pub use exclusion::Exclusion;
pub use fault::ScheduleFault;
pub use interval::Interval;
pub use moment::Moment;
pub use passed::{COUNTED, Passed, Range};
pub use settings::{Recurrence, ScheduleSettings};
pub use text::{RuleText, ScheduleText};
pub use window::{Period, PeriodPoint, Window};
pub use zone::{TimeZones, Zone};

use jiff::{Timestamp, civil::DateTime};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// When a job is due. Made by [`ScheduleSettings::check`], so it makes sense.
#[derive(Clone, Debug)]
pub struct Schedule {
    recurrence: Recurrence,
    zone: Zone,
    dst_gap: DstGap,
    dst_fold: DstFold,
    jitter: Duration,
    start: Option<Timestamp>,
    end: Option<Timestamp>,
    exclude: Vec<Exclusion>,
}

/// What becomes of a local time that a change of the clocks leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DstGap {
    /// It is due at the first moment after the gap. Several such times are due once.
    NextValid,
    /// It is not due that day.
    Skip,
}

/// What becomes of a local time that a change of the clocks brings twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DstFold {
    /// It is due the first time only.
    First,
    /// It is due the second time only.
    Second,
    /// It is due both times.
    Both,
}

/// A time at which a job is due, or would be but for a change of the clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueTime {
    /// The moment. It names the run: a job has one run per moment.
    pub at: Timestamp,
    /// The local time that the schedule names. For an interval, the local time of the moment.
    pub local: DateTime,
    /// When the window closes, for a schedule that has windows: a run must start before.
    pub closes: Option<Timestamp>,
    /// How a change of the clocks affects it; `None`: it does not.
    pub dst: Option<DstEffect>,
}

/// How a change of the clocks affects a due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DstEffect {
    /// Its local time is left out, so it is due after the gap ([`DstGap::NextValid`]). So are as
    /// many local times of the schedule.
    Shifted(u32),
    /// Its local time is left out, so it is *not* due ([`DstGap::Skip`]). So are as many local
    /// times of the schedule.
    Skipped(u32),
    /// Its local time comes twice, and this is the first time.
    FirstOfTwo,
    /// Its local time comes twice, and this is the second time.
    SecondOfTwo,
}

impl DueTime {
    /// The job is due at this time. Else it is named only to say that it is left out.
    pub fn is_due(&self) -> bool {
        !matches!(self.dst, Some(DstEffect::Skipped(_)))
    }
}

impl Schedule {
    /// The first due time later than `after`; `None`: there is none within 40 years.
    pub fn next(&self, after: Timestamp) -> Option<DueTime> {
        let mut times = self.due_times(after);
        times.find(|time| time.is_due() && time.at > after)
    }

    /// The due times from `from` on, ascending, `from` included, for 40 years. With them come those
    /// that a change of the clocks leaves out ([`DueTime::is_due`]).
    pub fn due_times(&self, from: Timestamp) -> DueTimes<'_> {
        DueTimes::new(self, from)
    }

    /// How long after a due time the job of this name starts: less than or as long as the jitter,
    /// and the same at each due time.
    pub fn delay(&self, job: &str) -> Duration {
        jitter::delay(job, self.jitter)
    }

    /// The rule.
    pub fn recurrence(&self) -> &Recurrence {
        &self.recurrence
    }

    /// The time zone, in which local times, periods and windows count.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The choice in force for local times that are left out.
    pub fn dst_gap(&self) -> DstGap {
        self.dst_gap
    }

    /// The choice in force for local times that come twice.
    pub fn dst_fold(&self) -> DstFold {
        self.dst_fold
    }

    /// It names local times in some hours of the day only. Else what a change of the clocks does is
    /// no surprise: it goes on by the clock, hour by hour.
    pub fn names_hours(&self) -> bool {
        match &self.recurrence {
            Recurrence::Cron(cron) => !cron.is_every_hour(),
            Recurrence::OncePer(_) => true,
            Recurrence::Interval(_) | Recurrence::After(_) => false,
        }
    }
}

#[cfg(test)]
mod tests;
