//! Cron expressions: five fields as masks of bits, expanded into local times. Time zones are none
//! of its business.

use super::{
    cron_days::{self, MonthDays, WeekDays},
    cron_field::{HOUR, MINUTE, MONTH},
};
use jiff::{
    ToSpan,
    civil::{Date, DateTime, date},
};
use std::{fmt, str::FromStr};

/// A cron expression that names at least one local time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    text: String,
    minutes: u64,
    hours: u32,
    days: Option<MonthDays>,
    months: u16,
    weekdays: Option<WeekDays>,
}

/// The longest expression, in bytes: every number of every field fits.
const LONGEST: usize = 512;
const EVERY_HOUR: u32 = (1 << 24) - 1;

impl FromStr for Cron {
    type Err = String;

    /// Reads `minute hour day-of-month month day-of-week`, or a name like `@daily`.
    fn from_str(text: &str) -> Result<Cron, String> {
        if text.len() > LONGEST {
            return Err(format!("it is longer than {LONGEST} bytes"));
        }
        let fields: Vec<&str> = match text.trim() {
            name if name.starts_with('@') => named(name)?,
            text => text,
        }
        .split_whitespace()
        .collect();
        let [minute, hour, day, month, weekday] = *fields else {
            return Err(wrong_count(fields.len()));
        };
        let cron = Cron {
            text: text.trim().to_owned(),
            minutes: MINUTE.mask(minute)?,
            hours: HOUR.mask(hour)? as u32,
            days: MonthDays::parse(day)?,
            months: MONTH.mask(month)? as u16,
            weekdays: WeekDays::parse(weekday)?,
        };
        match cron.has_a_day() {
            true => Ok(cron),
            false => Err(format!(
                "never fires: no month of field 4 (`{month}`) has a day like field 3 (`{day}`); \
                 `L` is the last day of a month"
            )),
        }
    }
}

/// The five fields that a name stands for.
fn named(name: &str) -> Result<&'static str, String> {
    match name.to_ascii_lowercase().as_str() {
        "@yearly" | "@annually" => Ok("0 0 1 1 *"),
        "@monthly" => Ok("0 0 1 * *"),
        "@weekly" => Ok("0 0 * * 0"),
        "@daily" | "@midnight" => Ok("0 0 * * *"),
        "@hourly" => Ok("0 * * * *"),
        "@reboot" => Err(
            "`@reboot` is no time: a service that is replicated has no boot; use \
                          another schedule"
                .to_owned(),
        ),
        _ => Err(format!(
            "`{name}` is unknown: it may be @hourly, @daily, @weekly, @monthly or @yearly"
        )),
    }
}

fn wrong_count(count: usize) -> String {
    let more = match count {
        6 => ". Seconds are no field: use an interval, as in `interval.every = \"10s\"`",
        _ => "",
    };
    format!(
        "it has {count} fields instead of 5: write `minute hour day-of-month month \
         day-of-week`, as in `30 2 * * *`{more}"
    )
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Cron {
    /// The first local time it names, of those from `from` on and before `before`.
    pub(super) fn next(&self, from: DateTime, before: DateTime) -> Option<DateTime> {
        let from = up_to_minute(from)?;
        let mut date = from.date();
        let mut least = (from.hour(), from.minute());
        while date.at(0, 0, 0, 0) < before {
            let days = self.days_of(date) & u32::MAX << date.day();
            if days == 0 {
                date = first_of_next_month(date)?;
                least = (0, 0);
                continue;
            }
            let day = days.trailing_zeros() as i8;
            if day != date.day() {
                date = Date::new(date.year(), date.month(), day).ok()?;
                least = (0, 0);
            }
            if let Some((hour, minute)) = self.time(least) {
                let found = date.at(hour, minute, 0, 0);
                return (found < before).then_some(found);
            }
            date = date.tomorrow().ok()?;
            least = (0, 0);
        }
        None
    }

    /// It names a time in every hour of a day.
    pub(super) fn is_every_hour(&self) -> bool {
        self.hours == EVERY_HOUR
    }

    /// The days of the month of `date`, as bits.
    fn days_of(&self, date: Date) -> u32 {
        match self.months & 1 << date.month() {
            0 => 0,
            _ => cron_days::of_month(self.days, self.weekdays, date),
        }
    }

    /// The first time of a day, as hour and minute, from `least` on.
    fn time(&self, (hour, minute): (i8, i8)) -> Option<(i8, i8)> {
        let minutes = self.minutes & u64::MAX << minute;
        if self.hours & 1 << hour != 0 && minutes != 0 {
            return Some((hour, minutes.trailing_zeros() as i8));
        }
        let hours = self.hours & u32::MAX << (hour + 1);
        let first = || self.minutes.trailing_zeros() as i8;
        (hours != 0).then(|| (hours.trailing_zeros() as i8, first()))
    }

    /// The calendar repeats itself after 400 years, so this is exact.
    fn has_a_day(&self) -> bool {
        let months = (2000..2400).flat_map(|year| (1..=12).map(move |month| date(year, month, 1)));
        let mut days = months.map(|first| self.days_of(first));
        days.any(|days| days != 0)
    }
}

/// The first whole minute from this time on.
fn up_to_minute(time: DateTime) -> Option<DateTime> {
    let floor = time.date().at(time.hour(), time.minute(), 0, 0);
    match floor == time {
        true => Some(time),
        false => floor.checked_add(1.minute()).ok(),
    }
}

fn first_of_next_month(date: Date) -> Option<Date> {
    date.first_of_month().checked_add(1.month()).ok()
}
