//! Windows: once in each day, week or month of the schedule's zone, not before one point of it and
//! not behind another.

use super::{
    DstFold, DueTime,
    cron_field::{WEEKDAY, WEEKDAYS},
    fault::ScheduleFault,
    zone::Zone,
};
use jiff::{
    Span, Timestamp, ToSpan,
    civil::{Date, DateTime, Time},
};
use serde::{Deserialize, Serialize};

/// Once per period, due when the window opens. The run may start until it closes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The period of which each has one due time.
    pub period: Period,
    /// When it opens; `None`: with the period.
    pub opens: Option<PeriodPoint>,
    /// When it closes; `None`: with the period. A point that is not later than the one at which it
    /// opens is of the next period.
    pub closes: Option<PeriodPoint>,
}

/// A period, by the calendar of the schedule's zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Period {
    /// From midnight to midnight.
    Day,
    /// From Monday to Sunday.
    Week,
    /// From the first to the last.
    Month,
}

/// A point of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeriodPoint {
    /// Days after the first day of the period. In a month that is too short, its last day.
    day: u8,
    time: Time,
}

/// Periods that are looked at, so that a search among excluded dates ends: days of 40 years.
const PERIODS: usize = 40 * 366;

impl Window {
    /// Reads the points as they are written: `13:00` of a day, `MON 13:00` of a week, `15 13:00`
    /// of a month.
    pub fn parse(
        period: Period,
        after: Option<&str>,
        before: Option<&str>,
    ) -> Result<Window, Vec<ScheduleFault>> {
        let mut faults = Vec::new();
        let mut point = |field, text: Option<&str>| {
            let point = PeriodPoint::parse(period, text?);
            let fault = |what| faults.push(ScheduleFault::new(field, what));
            point.map_err(fault).ok()
        };
        let opens = point("once_per.after", after);
        let closes = point("once_per.before", before);
        match faults.is_empty() {
            true => Ok(Window {
                period,
                opens,
                closes,
            }),
            false => Err(faults),
        }
    }

    /// The window of the period that begins at `first`: the local times at which it opens and at
    /// which it closes.
    fn local(&self, first: Date) -> Option<(DateTime, DateTime)> {
        let midnight = |date: Date| date.at(0, 0, 0, 0);
        let point = |point: PeriodPoint, first| point.of(self.period, first);
        let next = self.period.next(first)?;
        let opens = match self.opens {
            Some(opens) => point(opens, first)?,
            None => midnight(first),
        };
        let closes = match self.closes {
            None => midnight(next),
            // By the points as they are written: both may be the last day of a short month.
            Some(closes) if self.opens.is_none_or(|opens| closes > opens) => {
                match point(closes, first)? {
                    closes if closes > opens => closes,
                    _ => midnight(next),
                }
            }
            Some(closes) => point(closes, next)?,
        };
        Some((opens, closes))
    }

    /// The first window that opens at `from` or later, on a date that is not excluded.
    pub(super) fn first(
        &self,
        zone: &Zone,
        fold: DstFold,
        from: Timestamp,
        is_excluded: impl Fn(Date) -> bool,
    ) -> Option<DueTime> {
        // The one before opens now when a gap delays it past the end of its period.
        let today = self.period.first_day(zone.local(from).date());
        let before = self.period.previous(today)?;
        let next = |first: &Date| self.period.next(*first);
        std::iter::successors(Some(before), next)
            .take(PERIODS)
            .map_while(|first| self.local(first))
            .filter(|(opens, _)| !is_excluded(opens.date()))
            .map(|window| due_time(window, zone, fold))
            .find(|time| time.at >= from)
    }
}

fn due_time((opens, closes): (DateTime, DateTime), zone: &Zone, fold: DstFold) -> DueTime {
    let (at, dst) = zone.resolve(opens, fold);
    let (end, _) = zone.resolve(closes, fold);
    // A gap may swallow a window whole. It opens behind the gap then, as long as ever.
    let length = closes.duration_since(opens);
    let stretched = || at.checked_add(length).unwrap_or(Timestamp::MAX);
    DueTime {
        at,
        local: opens,
        closes: Some(if end > at { end } else { stretched() }),
        dst,
    }
}

impl Period {
    /// The first day of the period that holds this date.
    pub(super) fn first_day(self, date: Date) -> Date {
        match self {
            Period::Day => date,
            Period::Week => {
                let days = i64::from(date.weekday().to_monday_zero_offset());
                date.checked_sub(days.days()).unwrap_or(date)
            }
            Period::Month => date.first_of_month(),
        }
    }

    fn length(self) -> Span {
        match self {
            Period::Day => 1.day(),
            Period::Week => 7.days(),
            Period::Month => 1.month(),
        }
    }

    fn next(self, first: Date) -> Option<Date> {
        first.checked_add(self.length()).ok()
    }

    fn previous(self, first: Date) -> Option<Date> {
        first.checked_sub(self.length()).ok()
    }
}

impl PeriodPoint {
    fn parse(period: Period, text: &str) -> Result<PeriodPoint, String> {
        let (form, example) = match period {
            Period::Day => ("a time", "13:00"),
            Period::Week => ("a weekday and a time", "MON 13:00"),
            Period::Month => ("a day of the month and a time", "15 13:00"),
        };
        let wrong = || format!("`{text}` is not {form}: write it like \"{example}\"");
        let words: Vec<&str> = text.split_whitespace().collect();
        let (day, time) = match (period, &*words) {
            (Period::Day, [time]) => (0, time),
            (Period::Week, [day, time]) => {
                let is_name = |name: &&str| name.eq_ignore_ascii_case(day);
                let known = WEEKDAYS.iter().any(is_name);
                let day = WEEKDAY.number(day).ok().filter(|_| known);
                // From Monday on.
                (day.map(|day| (day + 6) % 7).ok_or_else(wrong)?, time)
            }
            (Period::Month, [day, time]) => {
                let day = day.parse().ok().filter(|day| (1..=31).contains(day));
                (day.map(|day: u8| day - 1).ok_or_else(wrong)?, time)
            }
            _ => return Err(wrong()),
        };
        let time: Time = time.parse().map_err(|_| wrong())?;
        let is_minute = time.second() == 0 && time.subsec_nanosecond() == 0;
        match is_minute {
            true => Ok(PeriodPoint { day, time }),
            false => Err(wrong()),
        }
    }

    /// The local time of this point of the period that begins at `first`.
    fn of(self, period: Period, first: Date) -> Option<DateTime> {
        let mut day = i64::from(self.day);
        if period == Period::Month {
            day = day.min(i64::from(first.days_in_month()) - 1);
        }
        Some(first.checked_add(day.days()).ok()?.to_datetime(self.time))
    }
}
