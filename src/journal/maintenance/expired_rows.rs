//! Deletes rows that no partition takes with it: schedulers and claims that ended long ago,
//! resources that were deleted, and runs of servers.
//!
//! Rows are deleted in slices, so that no statement lasts long.

use super::{Maintenance, calendar::Calendar};
use crate::{
    core::Time,
    journal::{JournalError, encoding::Stamp},
};
use sqlx::{Postgres, postgres::PgArguments, query::Query};

/// Rows looked at by one statement.
pub(super) const SLICE_ROWS: u32 = 1_000;
/// Rows of claims looked at by one statement, three of each at most.
const CLAIM_ROWS: i64 = 5_000;
/// Slices of one round; the rest waits for the next round.
const MAX_SLICES: u32 = 1_000;

impl Maintenance {
    /// What ended before this time is past its retention, whatever clock recorded it.
    pub fn retained_since(&self, calendar: &Calendar) -> Time {
        // A day more for the clocks of executors, which follow that of the owner.
        calendar.begin_of_retained(self.retention_days + 1)
    }

    /// Deletes what a statement finds of before the retention began, as `$2`, of this shard, `$1`,
    /// and no more rows at a time than `$3`. Returns how many.
    pub(super) async fn drop_in_slices(
        &self,
        calendar: &Calendar,
        rows: u32,
        statement: impl Fn() -> Query<'static, Postgres, PgArguments>,
    ) -> Result<u64, JournalError> {
        let retained = calendar.begin_of_retained(self.retention_days);
        let mut connection = self.connect().await?;
        let mut dropped = 0;
        for _ in 0..MAX_SLICES {
            let slice = statement()
                .bind(self.shard.0)
                .bind(Stamp(retained))
                .bind(i64::from(rows))
                .execute(&mut connection)
                .await?
                .rows_affected();
            dropped += slice;
            if slice < rows.into() {
                break;
            }
        }
        connection.close().await?;
        Ok(dropped)
    }

    /// Deletes schedulers released before the retention began, once their whole log is gone.
    /// Returns how many.
    pub async fn drop_ended_schedulers(&self, calendar: &Calendar) -> Result<u64, JournalError> {
        self.drop_in_slices(calendar, SLICE_ROWS, || {
            sqlx::query(
                "-- drop_ended_schedulers
                     with old as materialized (
                         select r.handle
                         from scheduler r
                         where r.shard = $1
                             and r.state = 3
                             and r.released_at < $2
                             and not exists (
                                 select
                                 from submission s
                                 where s.shard = $1 and s.handle = r.handle
                                 offset 0
                             )
                             and not exists (
                                 select
                                 from completion c
                                 where c.shard = $1 and c.handle = r.handle
                                 offset 0
                             )
                         order by r.released_at
                         limit $3
                     ),
                     unlabelled as (
                         delete from scheduler_label l
                         using old
                         where l.shard = $1 and l.handle = old.handle
                     )
                     delete from scheduler r
                     using old
                     where r.shard = $1 and r.handle = old.handle and r.state = 3",
            )
        })
        .await
    }

    /// Deletes rows of resources that were deleted before the retention began. Returns how many.
    pub async fn drop_deleted_resources(&self, calendar: &Calendar) -> Result<u64, JournalError> {
        self.drop_in_slices(calendar, SLICE_ROWS, || {
            sqlx::query(
                "-- drop_deleted_resources
                     with old as materialized (
                         select r.namespace, r.name
                         from resource r
                         where r.shard = $1 and r.deleted and r.changed_at < $2
                         limit $3
                     )
                     delete from resource r
                     using old
                     where r.shard = $1
                         and r.namespace = old.namespace
                         and r.name = old.name
                         and r.deleted
                         and r.changed_at < $2",
            )
        })
        .await
    }

    /// Deletes claims that ended before the retention began, and that no recovery reads. Returns
    /// how many rows. Claims were requested in the order of their numbers, so it goes through them
    /// once, up to the first one that was requested since; one of a later day than today was
    /// recorded by a clock that was ahead.
    pub async fn drop_ended_claims(&self, calendar: &Calendar) -> Result<u64, JournalError> {
        let retained = calendar.begin_of_retained(self.retention_days);
        let mut connection = self.connect().await?;
        let (mut dropped, mut above) = (0, 0);
        loop {
            let (last, rows, goes_on): (Option<i64>, i64, Option<bool>) = sqlx::query_as(
                "-- drop_ended_claims
                 with slice as materialized (
                     select e.claim_no, e.kind, e.at, e.spec is not null as is_first
                     from claim e
                     where e.shard = $1 and e.claim_no > $2
                     order by e.claim_no, e.kind
                     limit $3
                 ),
                 old as materialized (
                     select s.claim_no
                     from slice s
                     cross join claim_checkpoint k
                     where k.shard = $1
                         and s.claim_no <= k.last_claim
                         and not s.claim_no <@ k.needed
                         and s.kind = 3
                         and s.at < $4
                 ),
                 dropped as (
                     delete from claim c
                     using old
                     where c.shard = $1 and c.claim_no = old.claim_no
                     returning c.claim_no
                 )
                 select max(s.claim_no),
                     (select count(*) from dropped),
                     count(*) = $3 and not bool_or(s.is_first and s.at >= $4 and s.at < $5)
                 from slice s",
            )
            .bind(self.shard.0)
            .bind(above)
            .bind(CLAIM_ROWS)
            .bind(Stamp(retained))
            .bind(Stamp(calendar.end_of_today()))
            .fetch_one(&mut connection)
            .await?;
            dropped += rows as u64;
            // The rows of the last one may go on in the next slice.
            match last.filter(|_| goes_on == Some(true)) {
                Some(last) => above = last - 1,
                None => break,
            }
        }
        connection.close().await?;
        Ok(dropped)
    }

    /// Deletes runs of servers not seen for a day, of which nothing may still run: what they had
    /// slots for counts until their executors are fenced and their sessions shown dead.
    pub async fn drop_old_replicas(&self) -> Result<(), JournalError> {
        let mut connection = self.connect().await?;
        sqlx::query(
            "-- drop_old_replicas
             delete from replica r
             where r.shard = $1
                 and r.seen_at < now() - interval '1 day'
                 and r.fenced >= r.incarnation
                 and not exists (
                     select
                     from session s
                     where s.shard = $1 and s.replica = r.replica
                 )",
        )
        .bind(self.shard.0)
        .execute(&mut connection)
        .await?;
        connection.close().await
    }
}
