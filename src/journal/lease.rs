//! Who owns the shard: take-over and heartbeat, on database time.

use super::{Journal, JournalError, connect::Duty, wire::Stamp};
use crate::core::{BatchNo, Epoch, ShardId, Time};
use sqlx::{Connection, PgConnection, postgres::PgConnectOptions};
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

/// How long a heartbeat may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait when the shard's row is locked by a shard at work.
const AT_WORK: Duration = Duration::from_millis(200);

/// One run of a server process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Of this run.
    pub id: Uuid,
    /// Of the replica, the same after a restart: it may take over its own lease.
    pub name: Arc<str>,
}

/// The shard is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// The number of this ownership.
    pub epoch: Epoch,
    /// The last batch in the journal: go on with the next number.
    pub last_batch: BatchNo,
    /// Time of the database.
    pub now: Time,
    /// Until when others keep away.
    pub lease_until: Time,
}

/// What came of an attempt to own the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOver {
    /// It is ours; every write of an earlier owner is now either in the journal or refused.
    Owned(Ownership),
    /// Another replica owns it; look again after so long.
    Wait(Duration),
}

/// What a heartbeat found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Time of the database, taken after any wait.
    pub now: Time,
    /// The end of our lease; `None`: the shard has another epoch, it is not ours any more.
    pub lease_until: Option<Time>,
}

/// The connection of the heartbeat. It connects by itself.
pub struct Heart {
    options: PgConnectOptions,
    connection: Option<PgConnection>,
    shard: ShardId,
    replica: Replica,
    lease: Duration,
}

impl Journal {
    /// Makes `replica` the owner of the shard unless another replica's lease still runs.
    pub async fn take_over(&self, replica: &Replica, lease: Duration) -> Result<TakeOver, JournalError> {
        let mut connection = self.connect().await?;
        let taken: Option<(i64, Stamp, Stamp)> = sqlx::query_as(
            "-- take_over
             with free as materialized (
                 select shard
                 from shard
                 where shard = $1 and (owner is null or owner = $2 or lease_until is null or lease_until < now())
                 for update skip locked
             ),
             me as (
                 insert into replica (shard, replica, name, epoch, started_at, seen_at)
                 select $1, $3, $2, 0, now(), now()
                 on conflict on constraint replica_pkey do update
                 set seen_at = excluded.seen_at
             ),
             taken as (
                 update shard s
                 set epoch = s.epoch + 1, owner = $2, owner_id = $3, lease_until = now() + $4 * interval '1 microsecond'
                 from free
                 where s.shard = $1 and s.shard = free.shard
                 returning s.epoch, s.lease_until
             )
             select epoch, clock_timestamp(), lease_until
             from taken",
        )
        .bind(self.shard().0)
        .bind(&*replica.name)
        .bind(replica.id)
        .bind(lease.as_micros() as i64)
        .fetch_optional(&mut connection)
        .await?;
        let outcome = match taken {
            Some((epoch, now, lease_until)) => {
                let last_batch = last_batch(&mut connection, self.shard()).await?;
                TakeOver::Owned(Ownership { epoch: Epoch(epoch), last_batch, now: now.0, lease_until: lease_until.0 })
            }
            None => TakeOver::Wait(lease_left(&mut connection, self.shard()).await?),
        };
        connection.close().await?;
        Ok(outcome)
    }
}

/// The last batch. A statement of its own: its snapshot must be younger than the new epoch, which shuts out the old owner.
async fn last_batch(connection: &mut PgConnection, shard: ShardId) -> Result<BatchNo, JournalError> {
    let no: Option<i64> = sqlx::query_scalar(
        "-- last_batch
         select max(batch_no)
         from batch
         where shard = $1",
    )
    .bind(shard.0)
    .fetch_one(connection)
    .await?;
    no.map(BatchNo).ok_or_else(|| JournalError::corrupt(format!("shard {} has no batch", shard.0)))
}

async fn lease_left(connection: &mut PgConnection, shard: ShardId) -> Result<Duration, JournalError> {
    let left: Option<(Stamp, Option<Stamp>)> = sqlx::query_as(
        "-- lease_left
         select clock_timestamp(), lease_until
         from shard
         where shard = $1",
    )
    .bind(shard.0)
    .fetch_optional(connection)
    .await?;
    let (now, until) = left.ok_or_else(|| JournalError::corrupt(format!("no shard {}", shard.0)))?;
    Ok(until.map_or(AT_WORK, |until| until.0.since(now.0).max(AT_WORK)))
}

impl Heart {
    pub(super) fn new(options: &PgConnectOptions, shard: ShardId, replica: Replica, lease: Duration) -> Self {
        Heart { options: Duty::Heart.options(options), connection: None, shard, replica, lease }
    }

    /// Renews the lease of `epoch` (`None`: not the owner) and the replica's own row: one statement. After an error the
    /// lease was perhaps not renewed; the next beat connects anew.
    pub async fn beat(&mut self, epoch: Option<Epoch>) -> Result<Beat, JournalError> {
        let beaten = tokio::time::timeout(PATIENCE, self.renew(epoch)).await.unwrap_or(Err(JournalError::Timeout));
        if beaten.is_err() {
            self.connection = None;
        }
        beaten
    }

    async fn renew(&mut self, epoch: Option<Epoch>) -> Result<Beat, JournalError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => PgConnection::connect_with(&self.options).await?,
        };
        let (now, lease_until): (Stamp, Option<Stamp>) = sqlx::query_as(
            "-- heartbeat
             with lease as (
                 update shard
                 set lease_until = now() + $5 * interval '1 microsecond'
                 where shard = $1 and epoch = $2 and owner_id = $3
                 returning lease_until
             ),
             me as (
                 insert into replica (shard, replica, name, epoch, started_at, seen_at)
                 values ($1, $3, $4, $2, now(), now())
                 on conflict on constraint replica_pkey do update
                 set epoch = excluded.epoch, seen_at = excluded.seen_at
             )
             select clock_timestamp(), lease.lease_until
             from (select) as always
             left join lease on true",
        )
        .bind(self.shard.0)
        .bind(epoch.map_or(0, |epoch| epoch.0))
        .bind(self.replica.id)
        .bind(&*self.replica.name)
        .bind(self.lease.as_micros() as i64)
        .fetch_one(&mut connection)
        .await?;
        self.connection = Some(connection);
        Ok(Beat { now: now.0, lease_until: lease_until.map(|until| until.0) })
    }
}
