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

    /// When it is due next, now that this definition takes the place of the one before. What is due
    /// once in a period stays due once in it: where the window moves, the present period has had
    /// its due time, or has it in the new window, which may be open already.
    pub(super) fn due_after_change(&self, before: &Job, now: Time) -> Option<Time> {
        let decided = before.decided_until(now);
        let (Some(old), Some(new)) = (&before.schedule, &self.schedule) else {
            return self.due_after(decided);
        };
        if new.period().is_none() || new.period() != old.period() {
            return self.due_after(match before.was_passed_over(old, decided) {
                true => now,
                false => decided,
            });
        }
        let is_next = |due: &DueTime| {
            let is_ahead = time_of(due.at) > decided;
            match old.due_in_period_of(due.local.date()) {
                // Before there was the job, it was not due.
                Some(had) if time_of(had.at) <= decided => {
                    is_ahead && time_of(had.at) < self.image.created_at
                }
                Some(_) => due.closes.is_none_or(|closes| time_of(closes) > decided),
                None => is_ahead,
            }
        };
        let from = timestamp(decided).checked_sub(LONGEST_PERIOD);
        let mut times = new.due_times(from.unwrap_or(Timestamp::MIN));
        times.find(is_next).map(|due| time_of(due.at))
    }

    /// Whether a due time counts as had because this definition came when its period had had one:
    /// no other rule is to wait for it.
    fn was_passed_over(&self, schedule: &Schedule, due: Time) -> bool {
        let changed_at = timestamp(self.image.changed_at);
        let of_then = schedule.due_in_period_of(schedule.zone().local(changed_at).date());
        of_then.is_some_and(|of_then| time_of(of_then.at) == due) && self.image.changed_at < due
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
