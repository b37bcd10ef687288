//! Days and their partitions: names, and the day a batch is written to.
//!
//! A row lies in the partition of the day on which it was written. The writer only uses days that
//! exist: when maintenance could not make today's for a week, the last one made takes the rows.

use super::{JournalError, bounded_connection::BoundedConnection, encoding::Date};
use crate::core::Day;
use jiff::{ToSpan, civil};

/// Tables with a partition for each day.
pub(super) const TABLES: [&str; 4] = ["submission", "completion", "attempt", "task_label"];

/// For how many days after its beginning a day may still be made, one of them for clocks that
/// differ.
pub(super) const LATE_DAYS: i32 = 3;

/// The days that exist, ascending.
#[derive(Clone, Debug, Default)]
pub(super) struct Days(Vec<Day>);

impl Days {
    /// The days that every table has; a partition that is being detached does not count.
    pub(super) async fn read(connection: &mut BoundedConnection) -> Result<Self, JournalError> {
        let days: Vec<Date> = sqlx::query_scalar(
            "-- days
             select to_date(right(c.relname, 10), 'YYYY_MM_DD') as day
             from pg_inherits i
             join pg_class c on c.oid = i.inhrelid
             where i.inhparent = any ($1::text[]::regclass[]) and not i.inhdetachpending
             group by day
             having count(*) = cardinality($1)
             order by day",
        )
        .bind(TABLES.as_slice())
        .fetch_all(connection)
        .await?;
        Ok(Days(days.into_iter().map(|day| day.0).collect()))
    }

    /// Where rows of `day` go: to `day`, else to the last day before it, else to the first that
    /// exists.
    pub(super) fn partition_of(&self, day: Day) -> Day {
        let at = self.0.partition_point(|known| *known <= day);
        self.0.get(at.saturating_sub(1)).copied().unwrap_or(day)
    }

    /// A day before which no row lies that was written on `day` or later, whatever days existed
    /// then: a missing day is made at the latest on the day after it.
    pub(super) fn lowest(&self, day: Day) -> Day {
        let day = Day(day.0 - LATE_DAYS);
        self.partition_of(day).min(day)
    }

    pub(super) fn has(&self, day: Day) -> bool {
        self.0.binary_search(&day).is_ok()
    }
}

/// Name of a day's partition: `submission_2026_11_21`.
pub(super) fn partition(table: &str, day: Day) -> Result<String, JournalError> {
    Ok(format!("{table}_{}", date(day)?.strftime("%Y_%m_%d")))
}

/// The day as Postgres writes it.
pub(super) fn date(day: Day) -> Result<civil::Date, JournalError> {
    civil::date(1970, 1, 1)
        .checked_add(day.0.days())
        .map_err(|_| JournalError::corrupt(format!("day {}", day.0)))
}

/// The day a partition of `table` is named after.
pub(super) fn day_of(table: &str, name: &str) -> Option<Day> {
    let date: civil::Date = name
        .strip_prefix(table)?
        .strip_prefix('_')?
        .replace('_', "-")
        .parse()
        .ok()?;
    let epoch = civil::date(1970, 1, 1);
    Some(Day(date.since(epoch).ok()?.get_days()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_go_to_their_day_or_the_last_one_before_it() {
        let days = Days([3, 4, 9].map(Day).to_vec());
        assert_eq!(
            [1, 3, 4, 6, 9, 30].map(|day| days.partition_of(Day(day)).0),
            [3, 3, 4, 4, 9, 9]
        );
        assert_eq!(Days::default().partition_of(Day(5)), Day(5));
    }

    #[test]
    fn rows_of_a_day_that_was_missing_are_looked_for_where_they_went() {
        // day 6 and 7 went to day 4, because 7 to 9 were made on day 8 only
        let days = Days([3, 4, 7, 8, 9].map(Day).to_vec());
        assert_eq!(
            [6, 7, 8, 9, 12].map(|day| days.lowest(Day(day)).0),
            [3, 4, 4, 4, 9]
        );
        assert_eq!(
            days.lowest(Day(2)),
            Day(-1),
            "none is below the first one that exists"
        );
    }

    #[test]
    fn a_partition_is_named_after_its_day() {
        assert_eq!(
            partition("attempt", Day(20_778)).ok().as_deref(),
            Some("attempt_2026_11_21")
        );
    }
}
