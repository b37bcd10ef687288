//! When another cron runs a job, between certain times and but for certain days: minute by minute
//! by the clock on the wall, so that it can contradict our calendar.

use super::vixie::Fields;
use crate::core::schedule::Zone;
use jiff::{
    SignedDuration, Timestamp,
    civil::{Date, Time},
};

/// How long firings are compared.
const DAYS: i64 = 30;

/// When the other cron runs a job.
pub(super) struct Theirs {
    pub fields: Fields,
    /// Not in minutes before.
    pub start: Option<Timestamp>,
    /// Not later.
    pub end: Option<Timestamp>,
    /// Not on this date, or at this time of day; with both, not then.
    pub exceptions: Vec<(Option<Date>, Option<Time>)>,
}

impl Theirs {
    pub(super) fn of(fields: Fields) -> Self {
        Theirs {
            fields,
            start: None,
            end: None,
            exceptions: Vec::new(),
        }
    }

    /// What five fields say to Vixie's cron; `None`: it would refuse them.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Fields::parse(text).map(Theirs::of)
    }

    /// The end of the comparison.
    pub(super) fn end(from: Timestamp) -> Timestamp {
        let days = SignedDuration::from_hours(24 * DAYS);
        from.checked_add(days).unwrap_or(Timestamp::MAX)
    }

    pub(super) fn firings(&self, zone: &Zone, from: Timestamp) -> Vec<Timestamp> {
        let all = self.fields.firings(zone, from, DAYS).into_iter();
        let is_inside = |at: &Timestamp| {
            self.start
                .is_none_or(|start| start.as_second() / 60 * 60 <= at.as_second())
                && self.end.is_none_or(|end| *at <= end)
        };
        let is_excepted = |at: &Timestamp| {
            let local = zone.local(*at);
            let meets = |(date, time): &(Option<Date>, Option<Time>)| {
                date.is_none_or(|date| date == local.date())
                    && time.is_none_or(|time| time == local.time())
                    && (date.is_some() || time.is_some())
            };
            self.exceptions.iter().any(meets)
        };
        all.filter(|at| is_inside(at) && !is_excepted(at)).collect()
    }

    /// Days are restricted by both of their fields, of which one begins with `*`: there the crons
    /// differ.
    pub(super) fn joins_days_by_and(&self) -> bool {
        self.fields.joins_days_by_and()
    }
}
