//! Makes days a week ahead and drops those that are no longer needed.
//!
//! A day's events are dropped after the retention, its submissions and attempts a day later, so
//! that a task that ended after midnight keeps its statement as long as its event. Before that,
//! what is still needed is made independent of the day: the coordinator writes later checkpoints,
//! and the few rows of tasks that are unfinished, or ended within the retention, are moved to the
//! current day.

use super::{Maintenance, audit_days, calendar::Calendar, partition};
use crate::{
    backoff::Backoff,
    core::{Day, Handle},
    journal::{
        JournalError,
        bounded_connection::BoundedConnection,
        connection_limits::Duty,
        day_partitions::{Days, TABLES, date, day_of, partition as name_of},
        encoding::Date,
    },
};
use std::time::Duration;
use uuid::Uuid;

/// Days made ahead.
const DAYS_AHEAD: i32 = 7;
/// Attempts at making days. Replicas that start together conflict: jitter takes them apart.
const MAX_TRIES: u32 = 10;
const RETRY_BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

impl Maintenance {
    /// Makes missing partitions: of the days from the one before `today` to a week ahead, and of
    /// the next batches; `None`: the database says what day it is.
    pub async fn ensure_partitions(&self, today: Option<Day>) -> Result<(), JournalError> {
        let mut connection = self.connect().await?;
        let today = match today {
            Some(today) => today,
            None => today_of_database(&mut connection).await?,
        };
        let mut made = self.make_all(&mut connection, today).await;
        for failures in 0..MAX_TRIES - 1 {
            if made.is_ok() {
                break;
            }
            tokio::time::sleep(RETRY_BACKOFF.delay(failures)).await;
            made = self.make_all(&mut connection, today).await;
        }
        made?;
        connection.close().await
    }

    async fn make_all(
        &self,
        connection: &mut BoundedConnection,
        today: Day,
    ) -> Result<(), JournalError> {
        for table in TABLES {
            let attached = partition::attached(connection, table).await?;
            for day in (-1..=DAYS_AHEAD).map(|ahead| Day(today.0 + ahead)) {
                let name = name_of(table, day)?;
                if !attached.iter().any(|partition| partition.name == name) {
                    let (from, to) = (date(day)?.to_string(), date(Day(day.0 + 1))?.to_string());
                    partition::make(connection, table, &name, &from, &to).await?;
                }
            }
        }
        let days = (-1..=DAYS_AHEAD).map(|ahead| Day(today.0 + ahead));
        audit_days::make(connection, days).await?;
        self.ensure_batches(connection).await
    }

    /// Makes the rows that were written since the last time easy to find by their time, which a new
    /// owner looks for; `day` is where they were written.
    pub async fn summarize_times(&self, day: Day) -> Result<(), JournalError> {
        let mut connection = BoundedConnection::open(&self.options, Duty::Batches).await?;
        // Whoever waits for a second has an autovacuum cancelled, which summarizes them at its end.
        let wait_briefly = sqlx::query(
            "-- summarize_times_within
             set lock_timeout = '300ms'",
        );
        wait_briefly.execute(&mut connection).await?;
        sqlx::query(
            "-- summarize_times
             select brin_summarize_new_values(i.inhrelid::regclass)
             from pg_inherits i
             join pg_index x on x.indexrelid = i.inhrelid
             where i.inhparent = 'submission_times'::regclass and x.indrelid = to_regclass($1)",
        )
        .bind(name_of("submission", day)?)
        .execute(&mut connection)
        .await?;
        connection.close().await
    }

    /// At most `limit` open schedulers, besides these, whose checkpoint needs rows of a day that is
    /// due to be dropped.
    pub async fn stale_checkpoints(
        &self,
        calendar: &Calendar,
        besides: &[Handle],
        limit: u32,
    ) -> Result<Vec<Handle>, JournalError> {
        let mut connection = self.connect().await?;
        let mut stale = Vec::new();
        for (_, day) in self.expired(&mut connection, calendar).await? {
            stale.extend(self.stale(&mut connection, day, besides, limit).await?);
            if !stale.is_empty() {
                break;
            }
        }
        connection.close().await?;
        Ok(stale)
    }

    /// Drops the days that are due and that no checkpoint needs. Returns how many partitions. What
    /// an open reader holds is left for the next time, and does not keep the others.
    pub async fn drop_days(&self, calendar: &Calendar) -> Result<u64, JournalError> {
        let (mut dropped, mut first_error) = (0, None);
        for table in TABLES {
            match self.drop_days_of(table, calendar).await {
                Ok(more) => dropped += more,
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        first_error.map_or(Ok(dropped), Err)
    }

    async fn drop_days_of(
        &self,
        table: &'static str,
        calendar: &Calendar,
    ) -> Result<u64, JournalError> {
        let mut connection = self.connect().await?;
        let old =
            |name: &str| day_of(table, name).is_some_and(|day| self.is_over(table, day, calendar));
        partition::finish(&mut connection, table, old).await?;
        let current = Days::read(&mut connection)
            .await?
            .partition_of(calendar.today);
        let mut dropped = 0;
        let expired = self.expired(&mut connection, calendar).await?;
        for (_, day) in expired.into_iter().filter(|(of, _)| *of == table) {
            if day >= current
                || !self.stale(&mut connection, day, &[], 1).await?.is_empty()
                || matches!(table, "attempt" | "task_label")
                    && has_tasks_up_to(&mut connection, day).await?
            {
                continue;
            }
            match table {
                "submission" => self.move_needed_rows(&mut connection, day, current).await?,
                "attempt" => {
                    self.move_needed_attempts(&mut connection, day, current)
                        .await?
                }
                "task_label" => {
                    self.move_needed_labels(&mut connection, day, current)
                        .await?
                }
                _ => {}
            }
            partition::remove(&mut connection, table, &name_of(table, day)?).await?;
            tracing::info!(table, day = %date(day)?, "a day is over its retention and was dropped");
            dropped += 1;
        }
        connection.close().await?;
        Ok(dropped)
    }

    /// Partitions that are due to be dropped, the oldest day first.
    async fn expired(
        &self,
        connection: &mut BoundedConnection,
        calendar: &Calendar,
    ) -> Result<Vec<(&'static str, Day)>, JournalError> {
        let mut expired = Vec::new();
        for table in TABLES {
            let days = partition::attached(connection, table).await?;
            let days = days
                .iter()
                .filter(|partition| !partition.pending)
                .filter_map(|partition| day_of(table, &partition.name));
            expired.extend(
                days.filter(|day| self.is_over(table, *day, calendar))
                    .map(|day| (table, day)),
            );
        }
        expired.sort_by_key(|(_, day)| *day);
        Ok(expired)
    }

    fn is_over(&self, table: &str, day: Day, calendar: &Calendar) -> bool {
        calendar.is_over(day, self.retention_days + u32::from(table != "completion"))
    }

    async fn stale(
        &self,
        connection: &mut BoundedConnection,
        day: Day,
        besides: &[Handle],
        limit: u32,
    ) -> Result<Vec<Handle>, JournalError> {
        let besides: Vec<Uuid> = besides.iter().map(Handle::uuid).collect();
        let handles: Vec<Uuid> = sqlx::query_scalar(
            "-- stale_checkpoints
             select r.handle
             from scheduler r
             where r.shard = $1
                 and r.state <> 3
                 and not r.resting
                 and r.first_day <= $2
                 and r.handle <> all ($4)
                 and (
                     (
                         select c.first_done_no + c.count
                         from completion c
                         where c.shard = $1 and c.handle = r.handle and c.day = $2
                         order by c.first_done_no desc
                         limit 1
                     ) > r.done_no + 1
                     or (
                         select s.first_seq + s.count
                         from submission s
                         where s.shard = $1 and s.handle = r.handle and s.day = $2
                         order by s.first_seq desc
                         limit 1
                     ) > r.highest_seq + 1
                 )
             limit $3",
        )
        .bind(self.shard.0)
        .bind(Date(day))
        .bind(i64::from(limit))
        .bind(besides)
        .fetch_all(connection)
        .await?;
        Ok(handles.into_iter().map(Handle::from_uuid).collect())
    }
}

/// Whether tasks of `day` or an earlier one may have to be moved yet, and their attempts and labels
/// with them.
async fn has_tasks_up_to(
    connection: &mut BoundedConnection,
    day: Day,
) -> Result<bool, JournalError> {
    let attached = partition::attached(connection, "submission").await?;
    let moved = attached.iter().filter(|partition| !partition.pending);
    let mut days = moved.filter_map(|partition| day_of("submission", &partition.name));
    Ok(days.any(|of_tasks| of_tasks <= day))
}

/// The current day by the database.
async fn today_of_database(connection: &mut BoundedConnection) -> Result<Day, JournalError> {
    let today: Date = sqlx::query_scalar(
        "-- today
         select (now() at time zone 'utc')::date",
    )
    .fetch_one(connection)
    .await?;
    Ok(today.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_read_from_the_name_of_its_partition() {
        assert_eq!(
            day_of("submission", "submission_2026_11_21"),
            Some(Day(20_778))
        );
        assert_eq!(day_of("submission", "submission_of_mine"), None);
        assert_eq!(day_of("attempt", "submission_2026_11_21"), None);
    }
}
