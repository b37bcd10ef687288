//! Moves the rows that are still needed out of a day that is about to be dropped.
//!
//! A scheduler that is open for months keeps its own few rows and nobody else's day. Each statement
//! is bounded, however full the day was, and may be repeated.

use super::Maintenance;
use crate::core::Day;
use crate::journal::{
    JournalError, bounded_connection::BoundedConnection, encoding::Date,
    rows::completion::narrow_row,
};
use uuid::Uuid;

/// Schedulers of a day searched by one statement.
const MAX_SCHEDULERS: i64 = 2_000;
/// Rows found by one statement.
const MAX_FOUND: i64 = 100_000;
/// Rows moved by one statement.
const MAX_MOVED: usize = 500;
/// Rows of attempts, or of labels, looked at by one statement, in the order of their keys.
const MAX_SLICE: i64 = 5_000;

/// Rows of a day with a task that is unfinished, or whose event is still within its retention. Each
/// `offset 0` keeps a lookup by key from becoming a join: the planner takes tables that were never
/// analyzed for empty, and would join them whole.
const NEEDED_ROWS: &str = concat!(
    "-- needed_rows
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
            and c.max_seq < h.below + ",
    narrow_row!(),
    "
            and c.min_seq < h.below
            and c.max_seq - c.min_seq <= ",
    narrow_row!(),
    "
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
            and c.max_seq - c.min_seq > ",
    narrow_row!(),
    "
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
limit $3"
);

/// Attempts of unfinished tasks, and of others whose rows were moved; a slice in the order of their
/// keys.
const MOVE_ATTEMPTS: &str = "-- move_attempts
with slice as materialized (
    select a.handle, a.seq, a.attempt, a.kind
    from attempt a
    where a.shard = $1
        and a.day = $2
        and (a.handle, a.seq, a.attempt, a.kind) > ($5, $6, $7, $8)
    order by a.handle, a.seq, a.attempt, a.kind
    limit $4
),
moved as (
    update attempt a
    set day = $3
    from slice n
    where a.shard = $1
        and a.day = $2
        and a.handle = n.handle
        and a.seq = n.seq
        and a.attempt = n.attempt
        and a.kind = n.kind
        and (
            exists (
                select
                from scheduler r
                where r.shard = $1
                    and r.handle = n.handle
                    and r.state <> 3
                    and (r.unfinished @> n.seq or n.seq > r.highest_seq)
                offset 0
            )
            or n.seq < (
                select s.first_seq + s.count
                from submission s
                where s.shard = $1
                    and s.handle = n.handle
                    and s.first_seq <= n.seq
                    and s.day > $2
                order by s.first_seq desc
                limit 1
            )
        )
)
select n.handle, n.seq, n.attempt, n.kind
from slice n
order by n.handle desc, n.seq desc, n.attempt desc, n.kind desc
limit 1";

impl Maintenance {
    /// Moves the rows of `day` that are still needed to the day `to`.
    pub(super) async fn move_needed_rows(
        &self,
        connection: &mut BoundedConnection,
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

    /// The last of the next schedulers that have rows of a day; `None`: there are no more.
    async fn next_schedulers(
        &self,
        connection: &mut BoundedConnection,
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
        .bind(MAX_SCHEDULERS)
        .fetch_optional(connection)
        .await?;
        Ok(last)
    }

    /// Moves the rows of the schedulers above the first handle, up to the second.
    async fn move_needed_rows_of(
        &self,
        connection: &mut BoundedConnection,
        day: Day,
        to: Day,
        of: (Uuid, Uuid),
    ) -> Result<(), JournalError> {
        loop {
            let needed = self.needed_rows(connection, day, of).await?;
            if needed.is_empty() {
                return Ok(());
            }
            for rows in needed.chunks(MAX_MOVED) {
                let (handles, first_seqs): (Vec<Uuid>, Vec<i64>) = rows.iter().copied().unzip();
                sqlx::query(
                    "-- move_rows
                     update submission s
                     set day = $3
                     from unnest($4::uuid[], $5::int8[]) as n (handle, first_seq)
                     where s.shard = $1
                         and s.day = $2
                         and s.handle = n.handle
                         and s.first_seq = n.first_seq",
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

    /// The needed rows of the schedulers above the first handle, up to the second.
    async fn needed_rows(
        &self,
        connection: &mut BoundedConnection,
        day: Day,
        (above, up_to): (Uuid, Uuid),
    ) -> Result<Vec<(Uuid, i64)>, JournalError> {
        let rows = sqlx::query_as(NEEDED_ROWS)
            .bind(self.shard.0)
            .bind(Date(day))
            .bind(MAX_FOUND)
            .bind(above)
            .bind(up_to)
            .fetch_all(connection)
            .await?;
        Ok(rows)
    }

    /// Moves the attempts of unfinished tasks, and of others whose rows were moved, from `day` to
    /// the day `to`.
    pub(super) async fn move_needed_attempts(
        &self,
        connection: &mut BoundedConnection,
        day: Day,
        to: Day,
    ) -> Result<(), JournalError> {
        let mut above = (Uuid::nil(), 0_i64, 0_i32, 0_i16);
        loop {
            let last = sqlx::query_as(MOVE_ATTEMPTS)
                .bind(self.shard.0)
                .bind(Date(day))
                .bind(Date(to))
                .bind(MAX_SLICE)
                .bind(above.0)
                .bind(above.1)
                .bind(above.2)
                .bind(above.3)
                .fetch_optional(&mut *connection)
                .await?;
            match last {
                Some(last) => above = last,
                None => return Ok(()),
            }
        }
    }

    /// Moves the labels of `day` whose tasks have been moved to a later day to the day `to`.
    pub(super) async fn move_needed_labels(
        &self,
        connection: &mut BoundedConnection,
        day: Day,
        to: Day,
    ) -> Result<(), JournalError> {
        let mut above = (Uuid::nil(), Vec::<u8>::new(), 0_i64);
        loop {
            let last = sqlx::query_as(
                "-- move_labels
                 with slice as materialized (
                     select l.handle, l.label, l.first_seq
                     from task_label l
                     where l.shard = $1
                         and l.day = $2
                         and (l.handle, l.label, l.first_seq) > ($5, $6, $7)
                     order by l.handle, l.label, l.first_seq
                     limit $4
                 ),
                 moved as (
                     update task_label l
                     set day = $3
                     from slice n
                     where l.shard = $1
                         and l.day = $2
                         and l.handle = n.handle
                         and l.label = n.label
                         and l.first_seq = n.first_seq
                         and exists (
                             select
                             from submission s
                             where s.shard = $1
                                 and s.handle = n.handle
                                 and s.first_seq = n.first_seq
                                 and s.day > $2
                             offset 0
                         )
                 )
                 select n.handle, n.label, n.first_seq
                 from slice n
                 order by n.handle desc, n.label desc, n.first_seq desc
                 limit 1",
            )
            .bind(self.shard.0)
            .bind(Date(day))
            .bind(Date(to))
            .bind(MAX_SLICE)
            .bind(above.0)
            .bind(&above.1)
            .bind(above.2)
            .fetch_optional(&mut *connection)
            .await?;
            match last {
                Some(last) => above = last,
                None => return Ok(()),
            }
        }
    }
}
