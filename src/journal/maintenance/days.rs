//! Days come a week ahead and go when nobody needs them.
//!
//! A day's events go when the retention is over, its submissions and attempts a day later (so that a task that ended after
//! midnight keeps its statement as long as its event). Before that, what is still needed of a day is made independent of it:
//! the loop writes checkpoints that lie behind the day, and the few rows of tasks that are unfinished, or ended within the
//! retention, are moved to the present day. So a scheduler that is open for months keeps its own rows and nobody else's.

use super::{Maintenance, partition};
use crate::core::{Day, Handle};
use crate::journal::{
    JournalError,
    days::{Days, TABLES, date, partition as name_of},
    encoding::Date,
};
use sqlx::PgConnection;
use std::time::Duration;
use uuid::Uuid;

/// Days made ahead.
const DAYS_AHEAD: i32 = 7;
/// How often making days is tried: replicas that do it at the same time get in each other's way.
const TRIES: u32 = 10;
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(50);
/// Schedulers of a day looked at, rows looked up, and rows moved by one statement: none lasts long, however full the day was.
const SCHEDULERS: i64 = 2_000;
const LOOKED_UP: i64 = 100_000;
const MOVED: usize = 500;

/// Rows of a day with a task that is unfinished, or whose event is young enough to be kept. Each `offset 0` keeps a lookup by
/// key one: of tables nobody has analyzed the planner thinks that they are empty, and would join them whole.
const NEEDED_ROWS: &str = "-- needed_rows
with here as materialized (
    select s.handle, max(s.first_seq + s.count) as below
    from submission s
    where s.shard = $1 and s.day = $2 and s.handle > $4 and s.handle <= $5
    group by s.handle
),
needed as materialized (
    select h.handle, lower(part) as first, upper(part) - 1 as last
    from here h
    cross join lateral (
        select r.unfinished
        from scheduler r
        where r.shard = $1 and r.handle = h.handle and r.state <> 3
        offset 0
    ) r
    cross join lateral unnest(r.unfinished) as part
    where lower(part) < h.below
    union all
    select h.handle, c.min_seq, c.max_seq
    from here h
    cross join lateral (
        select c.min_seq, c.max_seq
        from completion c
        where c.shard = $1
            and c.handle = h.handle
            and c.day > $2 + 1
            and c.max_seq < h.below + 10000
            and c.min_seq < h.below
            and c.max_seq - c.min_seq <= 10000
        offset 0
    ) c
    union all
    select h.handle, coalesce(wide.seq, c.min_seq), coalesce(wide.seq, c.max_seq)
    from here h
    cross join lateral (
        select c.min_seq, c.max_seq, c.seq
        from completion c
        where c.shard = $1
            and c.handle = h.handle
            and c.day > $2 + 1
            and c.min_seq < h.below
            and c.max_seq - c.min_seq > 10000
        offset 0
    ) c
    left join lateral unnest(c.seq) as wide (seq) on true
    where wide.seq is null or wide.seq < h.below
)
select distinct s.handle, s.first_seq
from needed n
cross join lateral (
    select s.handle, s.first_seq
    from submission s
    where s.shard = $1
        and s.handle = n.handle
        and s.day = $2
        and s.first_seq <= n.last
        and s.first_seq + s.count > n.first
        and s.first_seq >= coalesce((
            select max(b.first_seq)
            from submission b
            where b.shard = $1 and b.handle = n.handle and b.day = $2 and b.first_seq <= n.first
        ), 0)
    offset 0
) s
limit $3";

impl Maintenance {
    /// Makes the partitions from yesterday to a week ahead, and those of the batch numbers to come, that do not exist.
    pub async fn ensure_partitions(&self) -> Result<(), JournalError> {
        let mut connection = self.connect().await?;
        let mut made = self.make_all(&mut connection).await;
        for _ in 1..TRIES {
            if made.is_ok() {
                break;
            }
            tokio::time::sleep(PAUSE).await;
            made = self.make_all(&mut connection).await;
        }
        made?;
        self.close(connection).await
    }

    async fn make_all(&self, connection: &mut PgConnection) -> Result<(), JournalError> {
        let today = today(connection).await?;
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
        self.ensure_batches(connection).await
    }

    /// Open schedulers whose checkpoint needs rows of a day that is due to go, at most `limit` of them.
    pub async fn stale_checkpoints(&self, limit: u32) -> Result<Vec<Handle>, JournalError> {
        let mut connection = self.connect().await?;
        let today = today(&mut connection).await?;
        let mut stale = Vec::new();
        for (_, day) in self.expired(&mut connection, today).await? {
            stale.extend(self.stale(&mut connection, day, limit).await?);
            if !stale.is_empty() {
                break;
            }
        }
        self.close(connection).await?;
        Ok(stale)
    }

    /// Drops the days that are due and that no checkpoint needs; says how many partitions.
    pub async fn drop_days(&self) -> Result<u64, JournalError> {
        let mut connection = self.connect().await?;
        let today = today(&mut connection).await?;
        for table in TABLES {
            let old =
                |name: &str| day_of(table, name).is_some_and(|day| self.is_over(table, day, today));
            partition::finish(&mut connection, table, old).await?;
        }
        let present = Days::read(&mut connection).await?.place(today);
        let mut dropped = 0;
        for (table, day) in self.expired(&mut connection, today).await? {
            if day >= present || !self.stale(&mut connection, day, 1).await?.is_empty() {
                continue;
            }
            match table {
                "submission" => self.move_needed_rows(&mut connection, day, present).await?,
                "attempt" => {
                    self.move_needed_attempts(&mut connection, day, present)
                        .await?
                }
                _ => {}
            }
            partition::remove(&mut connection, table, &name_of(table, day)?).await?;
            tracing::info!(table, day = %date(day)?, "a day is over its retention and was dropped");
            dropped += 1;
        }
        self.close(connection).await?;
        Ok(dropped)
    }

    /// Partitions that are due to go, the oldest day first.
    async fn expired(
        &self,
        connection: &mut PgConnection,
        today: Day,
    ) -> Result<Vec<(&'static str, Day)>, JournalError> {
        let mut expired = Vec::new();
        for table in TABLES {
            let days = partition::attached(connection, table).await?;
            let days = days
                .iter()
                .filter(|partition| !partition.pending)
                .filter_map(|partition| day_of(table, &partition.name));
            expired.extend(
                days.filter(|day| self.is_over(table, *day, today))
                    .map(|day| (table, day)),
            );
        }
        expired.sort_by_key(|(_, day)| *day);
        Ok(expired)
    }

    fn is_over(&self, table: &str, day: Day, today: Day) -> bool {
        let days = i64::from(self.retention_days) + i64::from(table != "completion");
        i64::from(day.0) + days < i64::from(today.0)
    }

    async fn stale(
        &self,
        connection: &mut PgConnection,
        day: Day,
        limit: u32,
    ) -> Result<Vec<Handle>, JournalError> {
        let handles: Vec<Uuid> = sqlx::query_scalar(
            "-- stale_checkpoints
             select r.handle
             from scheduler r
             where r.shard = $1
                 and r.state <> 3
                 and not r.resting
                 and r.first_day <= $2
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
        .fetch_all(connection)
        .await?;
        Ok(handles.into_iter().map(Handle::from_uuid).collect())
    }

    async fn move_needed_rows(
        &self,
        connection: &mut PgConnection,
        day: Day,
        to: Day,
    ) -> Result<(), JournalError> {
        let mut above = Uuid::nil();
        while let Some(up_to) = self.next_schedulers(connection, day, above).await? {
            self.move_needed_rows_of(connection, day, to, (above, up_to))
                .await?;
            above = up_to;
        }
        Ok(())
    }

    /// The last one of the next schedulers that have rows of a day; `None`: there are no more.
    async fn next_schedulers(
        &self,
        connection: &mut PgConnection,
        day: Day,
        above: Uuid,
    ) -> Result<Option<Uuid>, JournalError> {
        let last = sqlx::query_scalar(
            "-- next_schedulers
             select h.handle
             from (
                 select distinct s.handle
                 from submission s
                 where s.shard = $1 and s.day = $2 and s.handle > $3
                 order by s.handle
                 limit $4
             ) h
             order by h.handle desc
             limit 1",
        )
        .bind(self.shard.0)
        .bind(Date(day))
        .bind(above)
        .bind(SCHEDULERS)
        .fetch_optional(connection)
        .await?;
        Ok(last)
    }

    /// Of the schedulers above the first handle, up to the second.
    async fn move_needed_rows_of(
        &self,
        connection: &mut PgConnection,
        day: Day,
        to: Day,
        of: (Uuid, Uuid),
    ) -> Result<(), JournalError> {
        loop {
            let needed = self.needed_rows(connection, day, of).await?;
            if needed.is_empty() {
                return Ok(());
            }
            for rows in needed.chunks(MOVED) {
                let (handles, first_seqs): (Vec<Uuid>, Vec<i64>) = rows.iter().copied().unzip();
                sqlx::query(
                    "-- move_rows
                     update submission s
                     set day = $3
                     from unnest($4::uuid[], $5::int8[]) as n (handle, first_seq)
                     where s.shard = $1 and s.day = $2 and s.handle = n.handle and s.first_seq = n.first_seq",
                )
                .bind(self.shard.0)
                .bind(Date(day))
                .bind(Date(to))
                .bind(&handles)
                .bind(&first_seqs)
                .execute(&mut *connection)
                .await?;
            }
        }
    }

    /// The rows of [`NEEDED_ROWS`], of the schedulers above the first handle, up to the second.
    async fn needed_rows(
        &self,
        connection: &mut PgConnection,
        day: Day,
        (above, up_to): (Uuid, Uuid),
    ) -> Result<Vec<(Uuid, i64)>, JournalError> {
        let rows = sqlx::query_as(NEEDED_ROWS)
            .bind(self.shard.0)
            .bind(Date(day))
            .bind(LOOKED_UP)
            .bind(above)
            .bind(up_to)
            .fetch_all(connection)
            .await?;
        Ok(rows)
    }

    async fn move_needed_attempts(
        &self,
        connection: &mut PgConnection,
        day: Day,
        to: Day,
    ) -> Result<(), JournalError> {
        sqlx::query(
            "-- move_attempts
             update attempt a
             set day = $3
             where a.shard = $1
                 and a.day = $2
                 and exists (
                     select
                     from scheduler r
                     where r.shard = $1 and r.handle = a.handle and r.state <> 3 and r.unfinished @> a.seq
                     offset 0
                 )",
        )
        .bind(self.shard.0)
        .bind(Date(day))
        .bind(Date(to))
        .execute(connection)
        .await?;
        Ok(())
    }
}

/// The day of the database.
async fn today(connection: &mut PgConnection) -> Result<Day, JournalError> {
    let today: Date = sqlx::query_scalar(
        "-- today
         select (now() at time zone 'utc')::date",
    )
    .fetch_one(connection)
    .await?;
    Ok(today.0)
}

/// The day a partition of `table` is named after.
fn day_of(table: &str, name: &str) -> Option<Day> {
    let date: jiff::civil::Date = name
        .strip_prefix(table)?
        .strip_prefix('_')?
        .replace('_', "-")
        .parse()
        .ok()?;
    let epoch = jiff::civil::date(1970, 1, 1);
    Some(Day(date.since(epoch).ok()?.get_days()))
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
