//! When a crontab's own cron would run a line: each minute of the wall clock compared with the
//! fields, as Vixie's cron and its heirs (cronie, Debian's cron, pg_cron) do between changes of the
//! clocks. An expansion of its own, so that it can contradict ours.

use crate::core::schedule::Zone;
use jiff::{SignedDuration, Timestamp};

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
        })
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
        let (day, weekday) = (has(self.days, local.day()), has(self.weekdays, weekday));
        let is_day = match self.any_day || self.any_weekday {
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
        let all_days = self.days == 0xffff_fffe;
        let all_weekdays = self.weekdays == 0x7f;
        (self.any_day || self.any_weekday) && !all_days && !all_weekdays
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

/// How long firings are compared.
pub(super) const DAYS: i64 = 30;

/// The end of the comparison.
pub(super) fn end(from: Timestamp) -> Timestamp {
    let days = SignedDuration::from_hours(24 * DAYS);
    from.checked_add(days).unwrap_or(Timestamp::MAX)
}
