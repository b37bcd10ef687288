//! When a crontab's own cron would run a line: each minute of the wall clock compared with the
//! fields, as Vixie's cron and its heirs (cronie, Debian's cron, pg_cron) do between changes of the
//! clocks. An expansion of its own, so that it can contradict ours.

use crate::core::schedule::Zone;
use jiff::Timestamp;

/// A line's five fields as sets of numbers.
pub(super) struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// A field that begins with `*` does not restrict days.
    any_day: bool,
    any_weekday: bool,
    /// Days must meet both of their fields, whatever these begin with.
    by_and: bool,
    /// The last day of a month, whichever that is, in place of `days`.
    last_day: bool,
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Fields {
    /// Reads five fields; `None`: cron would refuse them.
    pub(super) fn parse(text: &str) -> Option<Fields> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return None;
        };
        let weekdays = set(weekday, 0, 7, &WEEKDAYS, 0)?;
        Some(Fields {
            minutes: set(minute, 0, 59, &[], 0)?,
            hours: set(hour, 0, 23, &[], 0)?,
            days: set(day, 1, 31, &[], 0)?,
            months: set(month, 1, 12, &MONTHS, 1)?,
            // 0 and 7 are Sunday.
            weekdays: (weekdays | weekdays >> 7) & 0x7f,
            any_day: day.starts_with('*'),
            any_weekday: weekday.starts_with('*'),
            by_and: false,
            last_day: false,
        })
    }

    /// Minutes, hours, days of the month, months and days of the week as bits; days must meet both
    /// of theirs. `last_day`: the last one of a month, in place of numbers.
    pub(super) fn of_sets(
        [minutes, hours, days, months, weekdays]: [u64; 5],
        last_day: bool,
    ) -> Fields {
        Fields {
            minutes,
            hours,
            days,
            months,
            weekdays,
            any_day: false,
            any_weekday: false,
            by_and: true,
            last_day,
        }
    }

    /// Days must meet both of their fields.
    pub(super) fn joined_by_and(self) -> Fields {
        Fields {
            by_and: true,
            ..self
        }
    }

    /// Not every day of the month meets the one field, and not every day of the week the other.
    pub(super) fn restricts_both_days(&self) -> bool {
        self.days != 0xffff_fffe && self.weekdays != 0x7f
    }

    /// The whole minutes from one time to another at which it would run.
    pub(super) fn firings(&self, zone: &Zone, from: Timestamp, days: i64) -> Vec<Timestamp> {
        let first = from.as_second().div_euclid(60) + 1;
        let minutes = first..first + days * 24 * 60;
        let times = minutes.filter_map(|minute| Timestamp::from_second(minute * 60).ok());
        times.filter(|at| self.fires(zone, *at)).collect()
    }

    fn fires(&self, zone: &Zone, at: Timestamp) -> bool {
        let local = zone.local(at);
        let has = |set: u64, number: i8| set >> number & 1 == 1;
        let weekday = local.date().weekday().to_sunday_zero_offset();
        let day = match self.last_day {
            true => local.date() == local.date().last_of_month(),
            false => has(self.days, local.day()),
        };
        let weekday = has(self.weekdays, weekday);
        let is_day = match self.by_and || self.any_day || self.any_weekday {
            true => day && weekday,
            false => day || weekday,
        };
        has(self.minutes, local.minute())
            && has(self.hours, local.hour())
            && has(self.months, local.month())
            && is_day
    }

    /// Days are restricted by both of their fields, of which one begins with `*`: there the crons
    /// differ.
    pub(super) fn joins_days_by_and(&self) -> bool {
        (self.any_day || self.any_weekday) && !self.by_and && self.restricts_both_days()
    }
}

/// The numbers of a field, as bits. `base`: the number of the first name.
fn set(text: &str, low: u32, high: u32, names: &[&str], base: u32) -> Option<u64> {
    let number = |text: &str| {
        let name = names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(text));
        let name = name.map(|at| at as u32 + base);
        name.or_else(|| text.parse().ok())
            .filter(|number| (low..=high).contains(number))
    };
    let mut bits = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse().ok().filter(|step| *step > 0)?),
            None => (part, 1),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (low, high),
            Some((from, to)) => (number(from)?, number(to)?),
            // A step behind a single number goes on to the end.
            None if part.contains('/') => (number(range)?, high),
            None => (number(range)?, number(range)?),
        };
        if from > to {
            return None;
        }
        (from..=to)
            .step_by(step)
            .for_each(|number| bits |= 1 << number);
    }
    Some(bits)
}
