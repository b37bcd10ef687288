//! The days that a cron expression names: those of a month and those of a week, and which days of a
//! given month they are.

use super::cron_field::{DAY, WEEKDAY};
use jiff::civil::{Date, date};

/// Days of a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MonthDays {
    /// Bit 1 is the first.
    days: u32,
    /// `L`: the last one.
    is_last: bool,
    /// `15W`: the days whose nearest working day is meant, as bits.
    nearest: u32,
    /// `LW`: the last working day.
    is_last_workday: bool,
}

/// Days of a week, as bits from Sunday on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WeekDays {
    /// In every week.
    every: u8,
    /// `FRI#2`: in the first to the fifth week only.
    nth: [u8; 5],
    /// `FRIL`: for the last time in the month.
    last: u8,
}

impl MonthDays {
    /// `None`: every day.
    pub(super) fn parse(text: &str) -> Result<Option<MonthDays>, String> {
        let mut days = MonthDays {
            days: 0,
            is_last: false,
            nearest: 0,
            is_last_workday: false,
        };
        for item in text.split(',') {
            let upper = item.to_ascii_uppercase();
            match upper.strip_suffix('W') {
                _ if item == "?" => days.days |= DAY.mask("*")? as u32,
                _ if upper == "L" => days.is_last = true,
                Some("L") => days.is_last_workday = true,
                Some(day) => days.nearest |= 1 << DAY.number(day)?,
                None => days.days |= DAY.item(item)? as u32,
            }
        }
        Ok((days.days != DAY.mask("*")? as u32).then_some(days))
    }

    /// The days of this month, as bits.
    fn of(self, month: Month) -> u32 {
        let mut days = self.days;
        if self.is_last {
            days |= 1 << month.length;
        }
        if self.is_last_workday {
            days |= 1 << month.nearest_workday(month.length);
        }
        for day in 1..=month.length {
            if self.nearest & 1 << day != 0 {
                days |= 1 << month.nearest_workday(day);
            }
        }
        days & month.days()
    }
}

impl WeekDays {
    /// `None`: every day.
    pub(super) fn parse(text: &str) -> Result<Option<WeekDays>, String> {
        let mut days = WeekDays {
            every: 0,
            nth: [0; 5],
            last: 0,
        };
        for item in text.split(',') {
            if let Some((day, nth)) = item.split_once('#') {
                let nth = nth.parse().ok().filter(|nth| (1..=5).contains(nth));
                let nth: usize = nth.ok_or_else(|| {
                    WEEKDAY.fault(format!("`{item}`: write `{day}#1` to `{day}#5`"))
                })?;
                days.nth[nth - 1] |= 1 << (WEEKDAY.number(day)? % 7);
            } else if let Some(day) = item.strip_suffix(['L', 'l']) {
                days.last |= 1 << (WEEKDAY.number(day)? % 7);
            } else if item == "?" {
                days.every = EVERY;
            } else {
                let mask = WEEKDAY.item(item)?;
                days.every |= (mask | mask >> 7) as u8 & EVERY;
            }
        }
        Ok((days.every != EVERY).then_some(days))
    }

    /// The days of this month, as bits.
    fn of(self, month: Month) -> u32 {
        let is_one = |day: &u32| {
            let weekday = 1 << month.weekday(*day);
            let nth = self.nth[(*day as usize - 1) / 7];
            let last = if day + 7 > month.length { self.last } else { 0 };
            (self.every | nth | last) & weekday != 0
        };
        (1..=month.length)
            .filter(is_one)
            .fold(0, |days, day| days | 1 << day)
    }
}

const EVERY: u8 = 0x7f;

/// The days of this month, as bits: of both when both are restricted (as in every crontab).
pub(super) fn of_month(days: Option<MonthDays>, weekdays: Option<WeekDays>, first: Date) -> u32 {
    let month = Month::of(first);
    match (days, weekdays) {
        (None, None) => month.days(),
        (Some(days), None) => days.of(month),
        (None, Some(weekdays)) => weekdays.of(month),
        (Some(days), Some(weekdays)) => days.of(month) | weekdays.of(month),
    }
}

#[derive(Clone, Copy)]
struct Month {
    /// Number of days.
    length: u32,
    /// Weekday of the first, from Sunday.
    first: u32,
}

impl Month {
    fn of(day: Date) -> Month {
        let first = date(day.year(), day.month(), 1);
        Month {
            length: u32::from(first.days_in_month().unsigned_abs()),
            first: u32::from(first.weekday().to_sunday_zero_offset().unsigned_abs()),
        }
    }

    fn days(self) -> u32 {
        ((1u64 << (self.length + 1)) - 2) as u32
    }

    fn weekday(self, day: u32) -> u32 {
        (self.first + day - 1) % 7
    }

    /// Monday to Friday, in the same month.
    fn nearest_workday(self, day: u32) -> u32 {
        match self.weekday(day) {
            0 if day == self.length => day - 2,
            0 => day + 1,
            6 if day == 1 => 3,
            6 => day - 1,
            _ => day,
        }
    }
}
