//! The executors of a shard: what they have slots for, and which are fenced.
//!
//! A fenced executor opens no more sessions. Once nothing runs of what it was given before, it
//! comes back as its next incarnation.

use super::executor_sessions::Sessions;
use crate::core::{Epoch, InDoubtWindow, Work};
use crate::journal::JournalError;
use std::{sync::atomic::Ordering, time::Duration};
use uuid::Uuid;

/// An executor that is not fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enrolled {
    /// The run of a server.
    pub replica: Uuid,
    pub incarnation: i32,
    /// Seen recently, and not an earlier run of this replica.
    pub alive: bool,
}

impl Sessions {
    /// Enters the executor of this run in the register, with what it has slots for.
    pub async fn enrol(&self, capacity: &[(Work, u32)]) -> Result<(), JournalError> {
        let (works, slots): (Vec<String>, Vec<i32>) = capacity
            .iter()
            .map(|(work, n)| (work.to_string(), *n as i32))
            .unzip();
        self.reader
            .read(|| {
                sqlx::query(
                    "-- enrol
                     insert into replica (shard, replica, name, address, epoch, works, slots,
                         started_at, seen_at)
                     values ($1, $2, $3, $4, 0, $5, $6, now(), now())
                     on conflict on constraint replica_pkey do update
                     set works = excluded.works, slots = excluded.slots",
                )
                .bind(self.reader.shard.0)
                .bind(self.replica.id)
                .bind(&*self.replica.name)
                .bind(self.replica.address.as_deref())
                .bind(&works)
                .bind(&slots)
                .execute(&self.reader.pool)
            })
            .await?;
        self.note_ownership().await
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

    /// The executors of other runs that are not fenced; alive are those seen `within` this time.
    pub async fn others(&self, within: Duration) -> Result<Vec<Enrolled>, JournalError> {
        let rows: Vec<(Uuid, i32, bool)> = self
            .reader
            .read(|| {
                sqlx::query_as(
                    "-- executors_not_fenced
                     select replica, incarnation,
                         name <> $4 and seen_at > now() - $3 * interval '1 microsecond'
                     from replica
                     where shard = $1 and replica <> $2 and fenced < incarnation",
                )
                .bind(self.reader.shard.0)
                .bind(self.replica.id)
                .bind(within.as_micros() as i64)
                .bind(&*self.replica.name)
                .fetch_all(&self.reader.pool)
            })
            .await?;
        let enrolled = |(replica, incarnation, alive)| Enrolled {
            replica,
            incarnation,
            alive,
        };
        Ok(rows.into_iter().map(enrolled).collect())
    }

    /// How many tasks of each kind earlier owners may have handed out: the slots of all executors
    /// they knew. Executors of this run and those lost within the last minute count as well, since
    /// tasks may have been on their way to them.
    pub async fn window(&self) -> Result<InDoubtWindow, JournalError> {
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
                             or r.seen_at > now() - interval '1 minute'
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
                .fetch_all(&self.reader.pool)
            })
            .await?;
        let kind = |(work, slots): (String, i64)| match work.parse() {
            Ok(work) => Ok((work, slots.clamp(0, i64::from(u32::MAX)) as u32)),
            Err(error) => Err(JournalError::corrupt(format!("replica.works: {error}"))),
        };
        rows.into_iter().map(kind).collect()
    }

    /// Fences this incarnation of an executor: it can open no more sessions. False: the shard has
    /// another epoch, and nothing is changed.
    pub async fn fence(
        &self,
        replica: Uuid,
        incarnation: i32,
        epoch: Epoch,
    ) -> Result<bool, JournalError> {
        let ours: bool = self
            .reader
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
                     select exists (select from ours)",
                )
                .bind(self.reader.shard.0)
                .bind(replica)
                .bind(incarnation)
                .bind(epoch.0)
                .fetch_one(&self.reader.pool)
            })
            .await?;
        Ok(ours)
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
        give_up: impl FnOnce() -> F,
    ) -> Result<(), JournalError> {
        let _guard = self.returning.lock().await;
        if self.is_fenced(self.replica.id, self.incarnation()).await? {
            give_up().await;
            self.readmit().await?;
        }
        Ok(())
    }

    /// Begins the next incarnation after a fence; nothing given to the last one may run any more.
    pub async fn readmit(&self) -> Result<(), JournalError> {
        let incarnation: Option<i32> = self
            .reader
            .read(|| {
                sqlx::query_scalar(
                    "-- readmit_executor
                     update replica
                     set incarnation = greatest(incarnation, fenced) + 1
                     where shard = $1 and replica = $2
                     returning incarnation",
                )
                .bind(self.reader.shard.0)
                .bind(self.replica.id)
                .fetch_optional(&self.reader.pool)
            })
            .await?;
        let incarnation = incarnation
            .ok_or_else(|| JournalError::corrupt("no row of this replica".to_owned()))?;
        // Before the incarnation: nobody may hear of it and not know whom it works for.
        self.note_ownership().await?;
        self.incarnation.store(incarnation, Ordering::Release);
        Ok(())
    }

    /// Ends the executor of this run. Nothing it was given may be left, since nobody will fence it.
    pub async fn leave(&self) -> Result<(), JournalError> {
        self.reader
            .read(|| {
                sqlx::query(
                    "-- leave
                     with me as (
                         update replica
                         set fenced = incarnation
                         where shard = $1 and replica = $2
                     )
                     delete from session
                     where shard = $1 and replica = $2",
                )
                .bind(self.reader.shard.0)
                .bind(self.replica.id)
                .execute(&self.reader.pool)
            })
            .await?;
        Ok(())
    }
}
