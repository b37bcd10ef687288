//! One job: its definition, its calendar, and where it stands.

use crate::core::{
    JobImage, JobState, Time,
    schedule::{DueTime, Schedule, TimeZones},
};
use jiff::{SignedDuration, Timestamp};

/// A window of the present period has opened since then, in whichever time zone.
const LONGEST_PERIOD: SignedDuration = SignedDuration::from_hours(33 * 24);

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

    /// The last due time of a window that has had its fate by this definition, as far as the next
    /// one tells.
    pub(super) fn last_by_definition(&self, now: Time) -> Option<Time> {
        let (schedule, next) = (self.schedule.as_ref()?, self.state.next_due?);
        schedule.period()?;
        let (from, until) = (Time(self.image.changed_at.0 + 1), Time(next.0 - 1));
        let passed = schedule.passed(timestamp(from), timestamp(until), 1);
        let last = passed.newest.last().map(|due| time_of(due.at))?;
        // A window that is still to open was passed over, as its period had had its due time.
        Some(if last > now {
            self.image.changed_at
        } else {
            last
        })
    }

    /// Whether it is due once in a period, and was by the definition before, in one of this length.
    pub(super) fn keeps_periods_of(&self, before: &Job) -> bool {
        let period = |job: &Job| job.schedule.as_ref().and_then(Schedule::period);
        period(self).is_some() && period(self) == period(before)
    }

    /// When it is due next, now that this definition takes the place of the one before. What is due
    /// once in a period stays due once in it: where the window moves, the present period has had
    /// its due time, or has it in the new window, which may be open already. No due time comes
    /// again, also when the clock was set back.
    pub(super) fn due_after_change(&self, before: &Job, now: Time) -> Option<Time> {
        let (last, promised) = (before.state.last_due, before.state.next_due);
        let after = last.map_or(now, |last| last.max(now));
        let (Some(old), Some(new)) = (&before.schedule, &self.schedule) else {
            return self.due_after(after);
        };
        if !self.keeps_periods_of(before) {
            return self.due_after(after);
        }
        let first_day = |schedule: &Schedule, at: Time| schedule.first_day_of_period(timestamp(at));
        // If the same period has one to come, it had the last one by a rule of another kind.
        let counts =
            |last: &Time| promised.is_none_or(|next| first_day(old, *last) != first_day(old, next));
        let had = last.filter(counts);
        let had = had.and_then(|last| first_day(new, last));
        let promised = promised.and_then(|next| first_day(new, next));
        let since = before.state.periods_since.unwrap_or(self.image.created_at);
        let is_next = |due: &DueTime| {
            let at = time_of(due.at);
            let period = first_day(new, at);
            // A window that opened before the job was due once in such a period is none of it,
            // unless its period was to have another one.
            let may_be_past = at >= since || period == promised;
            let is_open = due.closes.is_some_and(|closes| time_of(closes) > now);
            Some(at) > last && period > had && (at > now || (is_open && may_be_past))
        };
        let from = timestamp(now).checked_sub(LONGEST_PERIOD);
        let mut times = new.due_times(from.unwrap_or(Timestamp::MIN));
        times.find(is_next).map(|due| time_of(due.at))
    }

    /// The first due time after this time.
    pub(super) fn due_after(&self, time: Time) -> Option<Time> {
        let next = self.schedule.as_ref()?.next(timestamp(time))?;
        Some(time_of(next.at))
    }
}

/// Whether a schedule may name this due time: those are whole seconds. Those of runs that no
/// schedule names never are.
pub(super) fn may_be_scheduled(due: Time) -> bool {
    due.0 % 1_000_000 == 0
}

/// A time as the calendar has it.
pub(super) fn timestamp(time: Time) -> Timestamp {
    Timestamp::from_microsecond(time.0).unwrap_or(Timestamp::MAX)
}

/// A time of the calendar.
pub(super) fn time_of(at: Timestamp) -> Time {
    Time(at.as_microsecond())
}
