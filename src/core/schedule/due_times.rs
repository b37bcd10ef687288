//! The due times of a schedule, one after the other.
//!
//! A zone is cut into segments of constant offset. Within one, local time and elapsed time run side
//! by side, so what an expression names is mapped by a subtraction, and is in ascending order by
//! itself. All that a change of the clocks does happens at the edges: local times before the first
//! of a segment were left out, and those that the segments on both sides hold come twice.

use super::{
    DstEffect, DstFold, DstGap, DueTime, Period, Recurrence, Schedule, cron::Cron, zone::Segment,
};
use jiff::{
    SignedDuration, Timestamp, ToSpan,
    civil::{Date, DateTime},
};

/// How far it looks ahead of where it begins. In 40 years every date has been every weekday, also
/// a 29 February across 2100.
const HORIZON: SignedDuration = SignedDuration::from_hours(40 * 366 * 24);

/// Due times in ascending order.
#[derive(Clone, Debug)]
pub struct DueTimes<'a> {
    schedule: &'a Schedule,
    /// Everything before has been yielded.
    from: Timestamp,
    horizon: Timestamp,
    segment: Segment,
    /// What was left out as the segment began has been yielded.
    is_gap_passed: bool,
}

impl Iterator for DueTimes<'_> {
    type Item = DueTime;

    fn next(&mut self) -> Option<DueTime> {
        let schedule = self.schedule;
        let due = match &schedule.recurrence {
            Recurrence::Cron(cron) => self.cron(cron),
            Recurrence::Interval(_) => self.interval(),
            Recurrence::OncePer(window) => {
                let is_excluded = |date| schedule.excludes(date);
                window.first(&schedule.zone, schedule.dst_fold, self.from, is_excluded)
            }
            Recurrence::After(_) => None,
        };
        let due = due.filter(|due| due.at < self.horizon)?;
        if schedule.end.is_some_and(|end| due.at >= end) {
            return None;
        }
        if due.is_due() {
            // No rule counts in less than seconds.
            self.from = later(due.at, SignedDuration::from_secs(1));
        }
        Some(due)
    }
}

impl<'a> DueTimes<'a> {
    pub(super) fn new(schedule: &'a Schedule, from: Timestamp) -> Self {
        let from = schedule.start.map_or(from, |start| start.max(from));
        DueTimes {
            schedule,
            from,
            horizon: later(from, HORIZON),
            segment: schedule.zone.segment(from),
            is_gap_passed: false,
        }
    }

    fn cron(&mut self, cron: &Cron) -> Option<DueTime> {
        while self.from < self.horizon {
            if !self.segment.holds(self.from) {
                self.segment = self.schedule.zone.segment(self.from);
                self.is_gap_passed = false;
            }
            let due = self.left_out(cron).or_else(|| self.in_segment(cron));
            if due.is_some() {
                return due;
            }
            self.from = self.segment.end;
        }
        None
    }

    /// The local times that were left out as the segment began.
    fn left_out(&mut self, cron: &Cron) -> Option<DueTime> {
        if self.is_gap_passed || self.from != self.segment.start {
            return None;
        }
        self.is_gap_passed = true;
        let (from, before) = self.segment.gap()?;
        let first = self.local_time(cron, from, before)?;
        let next = |last: &DateTime| self.local_time(cron, next_minute(*last)?, before);
        let count = std::iter::successors(Some(first), next).count() as u32;
        Some(DueTime {
            at: self.segment.start,
            local: first,
            closes: None,
            dst: Some(match self.schedule.dst_gap {
                DstGap::NextValid => DstEffect::Shifted(count),
                DstGap::Skip => DstEffect::Skipped(count),
            }),
        })
    }

    /// The first due time in what is left of the segment.
    fn in_segment(&self, cron: &Cron) -> Option<DueTime> {
        let segment = &self.segment;
        let mut from = segment.local(self.from);
        let before = segment.local(segment.end.min(self.horizon));
        loop {
            let local = self.local_time(cron, from, before)?;
            let dst = segment.effect(local);
            let is_other = match dst {
                Some(DstEffect::FirstOfTwo) => self.schedule.dst_fold == DstFold::Second,
                Some(DstEffect::SecondOfTwo) => self.schedule.dst_fold == DstFold::First,
                _ => false,
            };
            if !is_other {
                return Some(DueTime {
                    at: segment.moment(local),
                    local,
                    closes: None,
                    dst,
                });
            }
            from = next_minute(local)?;
        }
    }

    /// The first local time that an expression names, from `from` on and before `before`, on a date
    /// that is not excluded.
    fn local_time(&self, cron: &Cron, mut from: DateTime, before: DateTime) -> Option<DateTime> {
        loop {
            let local = cron.next(from, before)?;
            if !self.schedule.excludes(local.date()) {
                return Some(local);
            }
            from = local.date().tomorrow().ok()?.at(0, 0, 0, 0);
        }
    }

    fn interval(&self) -> Option<DueTime> {
        let Recurrence::Interval(interval) = &self.schedule.recurrence else {
            return None;
        };
        let zone = &self.schedule.zone;
        let mut from = self.from;
        while from < self.horizon {
            let at = interval.first(from)?;
            let local = zone.local(at);
            if !self.schedule.excludes(local.date()) {
                return Some(DueTime {
                    at,
                    local,
                    closes: None,
                    dst: None,
                });
            }
            let tomorrow = local.date().tomorrow().ok()?.at(0, 0, 0, 0);
            // Midnight may come twice, and be of the day before it the first time.
            from = zone
                .first(tomorrow)
                .max(later(at, SignedDuration::from_secs(1)));
        }
        None
    }
}

impl Schedule {
    fn excludes(&self, date: Date) -> bool {
        self.exclude.iter().any(|excluded| excluded.holds(date))
    }

    /// The period in each of which it is due once; `None`: it has no windows.
    pub fn period(&self) -> Option<Period> {
        match &self.recurrence {
            Recurrence::OncePer(window) => Some(window.period),
            _ => None,
        }
    }

    /// The first day of the period that holds this moment; `None`: it has no windows.
    pub fn first_day_of_period(&self, at: Timestamp) -> Option<Date> {
        let date = self.zone.local(at).date();
        self.period().map(|period| period.first_day(date))
    }
}

fn next_minute(local: DateTime) -> Option<DateTime> {
    local.checked_add(1.minute()).ok()
}

fn later(at: Timestamp, duration: SignedDuration) -> Timestamp {
    at.checked_add(duration).unwrap_or(Timestamp::MAX)
}
