//! One job: its definition, its calendar, and where it stands.

use crate::core::{
    JobImage, JobState, Time,
    schedule::{Schedule, TimeZones},
};
use jiff::Timestamp;

#[derive(Debug)]
pub(crate) struct Job {
    pub image: JobImage,
    /// `None`: it makes no sense by the time zones of this program. It is never due.
    pub schedule: Option<Schedule>,
    pub state: JobState,
}

impl Job {
    pub(super) fn new(image: JobImage, state: JobState, zones: &TimeZones) -> Self {
        Job {
            schedule: image.settings.schedule.check(zones).ok(),
            image,
            state,
        }
    }

    /// How much later than its due times it starts.
    pub(super) fn delay(&self) -> std::time::Duration {
        let delay = |schedule: &Schedule| schedule.delay(&self.image.key.name);
        self.schedule.as_ref().map(delay).unwrap_or_default()
    }

    /// When the next due time is to have a fate.
    pub(super) fn fires_at(&self) -> Option<Time> {
        let delay = self.delay();
        self.state.next_due.map(|due| due + delay)
    }

    /// When it is due next by this release of the time zones: the release on record was another
    /// one. What has passed meanwhile is not looked for here: it may have had its run.
    pub(super) fn next_by_other_time_zones(&self, now: Time) -> Option<Time> {
        let Some(due) = self.state.next_due else {
            return self.due_after(now);
        };
        let moved = self.schedule.as_ref()?.moved(timestamp(due));
        let moved = moved.map(|moved| time_of(moved.at));
        Some(
            moved
                .filter(|moved| *moved > now && due > now)
                .unwrap_or(due),
        )
    }

    /// Until when its due times have had their fates: now, or, when the clock was set back, the
    /// last one before that which comes next, or the last one of all.
    pub(super) fn decided_until(&self, now: Time) -> Time {
        let Some(schedule) = &self.schedule else {
            return now;
        };
        let before = match self.state.next_due {
            Some(next) => Time(next.0 - 1),
            None if self.image.settings.schedule.end.is_empty() => now,
            None => Time::NEVER,
        };
        if before <= now {
            return now;
        }
        let passed = schedule.passed(timestamp(now), timestamp(before), 1);
        passed.newest.last().map_or(now, |due| time_of(due.at))
    }

    /// The first due time after this time.
    pub(super) fn due_after(&self, time: Time) -> Option<Time> {
        let next = self.schedule.as_ref()?.next(timestamp(time))?;
        Some(time_of(next.at))
    }
}

/// A time as the calendar has it.
pub(super) fn timestamp(time: Time) -> Timestamp {
    Timestamp::from_microsecond(time.0).unwrap_or(Timestamp::MAX)
}

/// A time of the calendar.
pub(super) fn time_of(at: Timestamp) -> Time {
    Time(at.as_microsecond())
}
