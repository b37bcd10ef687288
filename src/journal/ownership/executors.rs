//! The executors of a shard: what they have slots for, and which are fenced.
//!
//! A fenced executor opens no more sessions. Once it does nothing more for what it was given
//! before, it comes back as its next incarnation.

use super::target_sessions::Sessions;
use crate::{
    core::{Epoch, InDoubtWindow, Time, Work},
    executor_protocol::BEGUN_PER_SLOT,
    journal::{JournalError, encoding::Stamp, rows::from_row},
};
use std::{sync::atomic::Ordering, time::Duration};
use uuid::Uuid;

/// An executor that is not fenced, as its row has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorRow {
    /// The run of a server.
    pub replica: Uuid,
    pub incarnation: i32,
    /// Of the replica.
    pub name: String,
    /// Where other replicas reach it, as `host:port`.
    pub address: Option<String>,
    /// Its last heartbeat was within the time asked about, by the database's clock. One in the
    /// future was written before that clock went back, nobody knows when.
    pub fresh: bool,
    /// The database session of its last heartbeat is gone: so is the process, or it connects again.
    pub heartbeat_ended: bool,
}

from_row!(ExecutorRow {
    replica,
    incarnation,
    name,
    address,
    fresh,
    heartbeat_ended
});

impl Sessions {
    /// Enters the executor of this run in the register, with what it has slots for.
    pub async fn enrol(&self, capacity: &[(Work, u32)]) -> Result<(), JournalError> {
        self.write_row(capacity, 1).await
    }

    /// Notes who owns the shard, once this incarnation is durably in the register: whoever takes
    /// over later than that finds it there.
    async fn note_ownership(&self) -> Result<(), JournalError> {
        let epoch: i64 = self
            .reader
            .read(|| {
                sqlx::query_scalar(
                    "-- present_epoch
                     select epoch
                     from shard
                     where shard = $1",
                )
                .bind(self.reader.shard.0)
                .fetch_one(&self.reader.pool)
            })
            .await?;
        self.enrolled_under.store(epoch, Ordering::Release);
        Ok(())
    }

    /// The executors of other runs that are not fenced; `within`: whose heartbeats are fresh.
    pub async fn others(&self, within: Duration) -> Result<Vec<ExecutorRow>, JournalError> {
        self.reader
            .read(|| {
                sqlx::query_as(
                    "-- executors_not_fenced
                     select r.replica, r.incarnation, r.name, r.address,
                         r.seen_at > now() - $3 * interval '1 microsecond' and r.seen_at <= now()
                             as fresh,
                         r.heartbeat_pid is not null and not exists (
                             select
                             from pg_stat_activity a
                             where a.pid = r.heartbeat_pid
                                 and (a.backend_start is null
                                     or a.backend_start = r.heartbeat_start)
                         ) as heartbeat_ended
                     from replica r
                     where r.shard = $1 and r.replica <> $2 and r.fenced < r.incarnation",
                )
                .bind(self.reader.shard.0)
                .bind(self.replica.id)
                .bind(within.as_micros() as i64)
                .fetch_all(&self.reader.pool)
            })
            .await
    }

    /// How many tasks of each kind earlier owners may have handed out and not seen end durably:
    /// what the slots of all executors they knew count for. Executors of this run and those lost
    /// within the last minute count as well, since tasks may have been on their way to them; kinds
    /// that only a newer version knows have no task that this one could recover. `now`: the time of
    /// the service, which does not jump with the database's clock.
    pub async fn window(&self, now: Time) -> Result<InDoubtWindow, JournalError> {
        let rows: Vec<(String, i64)> = self
            .reader
            .read(|| {
                sqlx::query_as(
                    "-- window
                     select u.work, sum(u.slots)
                     from replica r
                     cross join lateral unnest(r.works, r.slots) as u (work, slots)
                     where r.shard = $1
                         and (r.fenced < r.incarnation
                             or r.seen_at > least(now(), $2) - interval '1 minute'
                             or exists (
                             select
                             from session s
                             where s.shard = r.shard
                                 and s.replica = r.replica
                                 and s.incarnation <= r.fenced
                         ))
                     group by u.work",
                )
                .bind(self.reader.shard.0)
                .bind(Stamp(now))
                .fetch_all(&self.reader.pool)
            })
            .await?;
        let kind = |(work, slots): (String, i64)| {
            let slots = slots.clamp(0, i64::from(u32::MAX)) as u32;
            Some((work.parse().ok()?, slots))
        };
        Ok(rows.into_iter().filter_map(kind).collect())
    }

    /// Fences this incarnation of an executor: it can open no more sessions. Returns what its
    /// replica is called; `None`: the shard has another epoch, and nothing is changed.
    pub async fn fence(
        &self,
        replica: Uuid,
        incarnation: i32,
        epoch: Epoch,
    ) -> Result<Option<String>, JournalError> {
        self.reader
            .read(|| {
                sqlx::query_scalar(
                    "-- fence_executor
                     with ours as materialized (
                         select shard
                         from shard
                         where shard = $1 and epoch = $4
                         for share
                     ),
                     fenced as (
                         update replica r
                         set fenced = greatest(r.fenced, $3)
                         from ours
                         where r.shard = ours.shard and r.replica = $2
                     )
                     select coalesce(r.name, $2::text)
                     from ours
                     left join replica r on r.shard = ours.shard and r.replica = $2",
                )
                .bind(self.reader.shard.0)
                .bind(replica)
                .bind(incarnation)
                .bind(epoch.0)
                .fetch_optional(&self.reader.pool)
            })
            .await
    }

    /// Whether this incarnation of an executor has been fenced. An unknown one counts as fenced.
    pub async fn is_fenced(&self, replica: Uuid, incarnation: i32) -> Result<bool, JournalError> {
        let known: Option<bool> = self
            .reader
            .read(|| {
                sqlx::query_scalar(
                    "-- is_fenced
                     select fenced >= $3
                     from replica
                     where shard = $1 and replica = $2",
                )
                .bind(self.reader.shard.0)
                .bind(replica)
                .bind(incarnation)
                .fetch_optional(&self.reader.pool)
            })
            .await?;
        Ok(known.unwrap_or(true))
    }

    /// If the executor of this run is fenced, it gives up its tasks and comes back as its next
    /// incarnation. Any number of callers may find out, at any time: it happens once per fence.
    pub async fn return_from_fence<F: Future<Output = ()>>(
        &self,
        capacity: impl FnOnce() -> Vec<(Work, u32)>,
        give_up: impl FnOnce() -> F,
    ) -> Result<(), JournalError> {
        let _guard = self.returning.lock().await;
        let incarnation = self.incarnation();
        if self.is_fenced(self.replica.id, incarnation).await? {
            give_up().await;
            self.write_row(&capacity(), incarnation + 1).await?;
        }
        Ok(())
    }

    /// Makes the row of this run for an incarnation, or a later one if this one is fenced: after a
    /// fence, when it does nothing more for what the last one was given. The row may have been
    /// deleted since, if the process stood still for days.
    async fn write_row(
        &self,
        capacity: &[(Work, u32)],
        incarnation: i32,
    ) -> Result<(), JournalError> {
        let (works, slots) = columns(capacity);
        let begun: i32 = self
            .reader
            .read(|| {
                sqlx::query_scalar(
                    "-- enrol
                     insert into replica (shard, replica, name, address, epoch, works, slots,
                         incarnation, started_at, seen_at)
                     values ($1, $2, $3, $4, 0, $5, $6, $7, now(), now())
                     on conflict on constraint replica_pkey do update
                     set works = excluded.works,
                         slots = excluded.slots,
                         incarnation = greatest(excluded.incarnation, replica.incarnation,
                             replica.fenced + 1)
                     returning incarnation",
                )
                .bind(self.reader.shard.0)
                .bind(self.replica.id)
                .bind(&*self.replica.name)
                .bind(self.replica.address.as_deref())
                .bind(&works)
                .bind(&slots)
                .bind(incarnation)
                .fetch_one(&self.reader.pool)
            })
            .await?;
        // Before the incarnation: nobody may hear of it and not know whom it works for.
        self.note_ownership().await?;
        self.incarnation.store(begun, Ordering::Release);
        Ok(())
    }

    /// Notes what the executor of this run will have slots for, and then has it change. Nobody may
    /// be told of more slots than are durably noted, so no return from a fence comes between.
    pub async fn change_capacity(
        &self,
        capacity: &[(Work, u32)],
        change: impl FnOnce(),
    ) -> Result<(), JournalError> {
        let _guard = self.returning.lock().await;
        let (works, slots) = columns(capacity);
        self.reader
            .read(|| {
                sqlx::query(
                    "-- change_capacity
                     update replica
                     set works = $3,
                         slots = $4
                     where shard = $1 and replica = $2",
                )
                .bind(self.reader.shard.0)
                .bind(self.replica.id)
                .bind(&works)
                .bind(&slots)
                .execute(&self.reader.pool)
            })
            .await?;
        change();
        Ok(())
    }

    /// Ends the executor of this run. Nothing it was given may be left, since nobody will fence it.
    /// What it had before it was fenced is for whoever has fenced it.
    pub async fn leave(&self) -> Result<(), JournalError> {
        self.reader
            .read(|| {
                sqlx::query(
                    "-- leave
                     with me as (
                         update replica
                         set fenced = incarnation
                         where shard = $1 and replica = $2 and fenced < incarnation
                         returning shard, replica, incarnation
                     )
                     delete from session s
                     using me
                     where s.shard = me.shard and s.replica = me.replica
                         and s.incarnation = me.incarnation",
                )
                .bind(self.reader.shard.0)
                .bind(self.replica.id)
                .execute(&self.reader.pool)
            })
            .await?;
        Ok(())
    }
}

/// Each slot counts for the tasks that may have begun on it.
fn columns(capacity: &[(Work, u32)]) -> (Vec<String>, Vec<i32>) {
    let row = |(work, slots): &(Work, u32)| {
        let begun = slots.saturating_mul(BEGUN_PER_SLOT);
        (work.to_string(), begun as i32)
    };
    capacity.iter().map(row).unzip()
}
