//! How old a day is: by how long the service has lived since, not by a clock alone.
//!
//! A clock that jumps makes days old at once. So a day is over when two say so: the calendar, and
//! the time that the service has lived through since it was last on that day or an earlier one.
//! That time is measured by monotonic clocks and recorded by the owner of the shard; of a time
//! without an owner a day is counted at most. Nothing is dropped that one of the two finds young.

use super::Maintenance;
use crate::{
    core::{Day, Time},
    journal::{
        JournalError,
        encoding::{Date, Stamp},
    },
};
use std::time::Duration;

const DAY_US: i64 = 86_400_000_000;
/// Records older than the retention by this are of no use.
const RECORDS_KEPT_US: i64 = 30 * DAY_US;

/// Today, and how long the service had lived when it was last on each day.
#[derive(Clone, Debug)]
pub struct Calendar {
    pub(super) today: Day,
    /// How long it has lived by now, in microseconds.
    lived_us: i64,
    records: Vec<Record>,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    day: Day,
    lived_us: i64,
    at: Time,
}

impl Calendar {
    /// At `now`, when this much time has been observed since the last record. `None`: by nobody who
    /// still knows, and the clock has to do.
    fn new(now: Time, observed: Option<Duration>, records: Vec<Record>) -> Self {
        let last = records.iter().max_by_key(|record| record.lived_us);
        let passed = match (observed, last) {
            (Some(observed), _) => observed.as_micros() as i64,
            (None, Some(last)) => (now.since(last.at).as_micros() as i64).min(DAY_US),
            (None, None) => 0,
        };
        let mut calendar = Calendar {
            today: now.day(),
            lived_us: last.map_or(0, |last| last.lived_us) + passed,
            records,
        };
        let today = Record {
            day: calendar.today,
            lived_us: calendar.lived_us,
            at: now,
        };
        calendar.records.retain(|record| record.day != today.day);
        calendar.records.push(today);
        calendar
    }

    /// Whether `days` have passed since the end of `day`.
    pub(super) fn is_over(&self, day: Day, days: u32) -> bool {
        let last_on_it = self
            .records
            .iter()
            .filter(|record| record.day <= day)
            .map(|record| record.lived_us)
            .max();
        let last_on_it = last_on_it.unwrap_or_else(|| self.before_the_first(day));
        let by_the_calendar = i64::from(self.today.0) - i64::from(day.0) > i64::from(days);
        by_the_calendar && self.lived_us - last_on_it >= i64::from(days) * DAY_US
    }

    /// Up to the first record there is only the calendar.
    fn before_the_first(&self, day: Day) -> i64 {
        let first = self.records.iter().min_by_key(|record| record.day);
        first.map_or(i64::MIN, |first| {
            first.lived_us - i64::from(first.day.0 - day.0) * DAY_US
        })
    }

    /// What was recorded later was recorded by a clock that was ahead.
    pub(super) fn end_of_today(&self) -> Time {
        Time((i64::from(self.today.0) + 1) * DAY_US)
    }

    /// The beginning of the last day that is not over: what lies before may go.
    pub(super) fn begin_of_retained(&self, days: u32) -> Time {
        let mut day = self.today.0.saturating_sub(days as i32);
        while day > 0 && !self.is_over(Day(day - 1), days) {
            day -= 1;
        }
        Time(i64::from(day) * DAY_US)
    }
}

impl Maintenance {
    /// Records that the service lives at `now`, and returns how old its days are; `observed`: the
    /// time since the last record by this process, if the shard has been its own since.
    pub async fn live(
        &self,
        now: Time,
        observed: Option<Duration>,
    ) -> Result<Calendar, JournalError> {
        let mut connection = self.connect().await?;
        let rows: Vec<(Date, i64, Stamp)> = sqlx::query_as(
            "-- lived_days
             select day, lived_us, at
             from lived_day
             where shard = $1",
        )
        .bind(self.shard.0)
        .fetch_all(&mut connection)
        .await?;
        let record = |(day, lived_us, at): (Date, i64, Stamp)| Record {
            day: day.0,
            lived_us,
            at: at.0,
        };
        let calendar = Calendar::new(now, observed, rows.into_iter().map(record).collect());
        let forgotten =
            calendar.lived_us - i64::from(self.retention_days) * DAY_US - RECORDS_KEPT_US;
        sqlx::query(
            "-- live
             with forgotten as (
                 delete from lived_day
                 where shard = $1 and lived_us < $5
             )
             insert into lived_day (shard, day, lived_us, at)
             values ($1, $2, $3, $4)
             on conflict on constraint lived_day_pkey do update
             set lived_us = excluded.lived_us, at = excluded.at",
        )
        .bind(self.shard.0)
        .bind(Date(calendar.today))
        .bind(calendar.lived_us)
        .bind(Stamp(now))
        .bind(forgotten)
        .execute(&mut connection)
        .await?;
        connection.close().await?;
        Ok(calendar)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOON: Time = Time(20_000 * DAY_US + DAY_US / 2);
    const HOUR: Duration = Duration::from_secs(3600);
    const RETENTION: u32 = 30;

    /// A service that makes a round each hour while it runs.
    struct Service {
        /// How wrong the clock of the database is.
        ahead_us: i64,
        passed: Duration,
        calendar: Calendar,
        /// When a row was last written on each day, in time that has really passed.
        written: Vec<(Day, Duration)>,
    }

    impl Service {
        fn new() -> Service {
            Service {
                ahead_us: 0,
                passed: Duration::ZERO,
                calendar: Calendar::new(NOON, None, Vec::new()),
                written: vec![(NOON.day(), Duration::ZERO)],
            }
        }

        fn now(&self) -> Time {
            Time((NOON + self.passed).0 + self.ahead_us)
        }

        /// An hour of work, observed by a process that knows of the last round or not.
        fn hour(&mut self, knows: bool) {
            self.passed += HOUR;
            let (now, records) = (self.now(), self.calendar.records.clone());
            self.calendar = Calendar::new(now, knows.then_some(HOUR), records);
            self.written.push((now.day(), self.passed));
        }

        /// The youngest row of a day that is over, in time that has really passed.
        fn youngest_dropped(&self) -> Option<Duration> {
            let over = |(day, _): &&(Day, Duration)| self.calendar.is_over(*day, RETENTION);
            let dropped = self.written.iter().filter(over);
            dropped.map(|(_, at)| self.passed - *at).min()
        }
    }

    #[test]
    fn with_a_clock_that_is_right_a_day_goes_when_the_retention_has_passed_since_its_end() {
        let mut service = Service::new();
        let first = NOON.day();
        while !service.calendar.is_over(first, RETENTION) {
            service.hour(true);
        }
        assert_eq!(service.calendar.today, Day(first.0 + 31));
        assert_eq!(
            service.calendar.begin_of_retained(RETENTION).day(),
            Day(first.0 + 1)
        );
    }

    #[test]
    fn days_from_before_the_first_record_go_by_the_calendar() {
        let calendar = Service::new().calendar;
        let ago = |days| calendar.is_over(Day(calendar.today.0 - days), RETENTION);
        assert_eq!([29, 30, 31, 400].map(ago), [false, false, true, true]);
    }

    #[test]
    fn a_clock_that_jumps_beyond_the_retention_makes_nothing_old() {
        let mut service = Service::new();
        (0..48).for_each(|_| service.hour(true));
        for days in [40, 4_000, -40, 0] {
            service.ahead_us = days * DAY_US;
            (0..10).for_each(|_| service.hour(true));
            assert_eq!(service.youngest_dropped(), None, "{days} days ahead");
        }
    }

    #[test]
    fn a_time_without_an_owner_counts_for_a_day_at_most() {
        let mut service = Service::new();
        service.hour(true);
        let first = NOON.day();
        service.passed += HOUR * 24 * 40;
        service.hour(false);
        assert!(!service.calendar.is_over(first, RETENTION));
        (0..24 * 29).for_each(|_| service.hour(true));
        assert!(service.calendar.is_over(first, RETENTION));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// An hour that a process knows of is exact; one at a takeover counts for a day at most, so
        /// each takeover under a wrong clock makes a row seem a day older.
        #[test]
        fn whatever_the_clock_does_nothing_younger_than_the_retention_is_over(
            hours in prop::collection::vec((-5_000i64..5_000, 0u32..100), 1..1_200),
        ) {
            let mut service = Service::new();
            let mut takeovers = 0;
            for (days, chance) in hours {
                if chance < 3 {
                    service.ahead_us = days * DAY_US / 24;
                }
                takeovers += u32::from(chance == 99);
                service.hour(chance != 99);
                if let Some(youngest) = service.youngest_dropped() {
                    let exact = HOUR * 24 * RETENTION;
                    prop_assert!(youngest + HOUR * 24 * takeovers >= exact, "{youngest:?}");
                }
            }
        }
    }
}
