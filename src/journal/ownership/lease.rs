//! Who owns the shard: take-over and handover, on database time.
//!
//! Every change of owner begins a new epoch, which fences the writer of the old one.

use crate::core::{BatchNo, Epoch, ShardId, Time};
use crate::journal::{
    Journal, JournalError, Replica, connection_limits::Duty, encoding::Stamp, link::Link,
};
use std::time::Duration;
use uuid::Uuid;

/// How long to wait when the owner's append holds the lock of the shard's row.
const LOCKED_POLL_INTERVAL: Duration = Duration::from_millis(200);

const TAKE_OVER: &str = "-- take_over
with free as materialized (
    select s.shard
    from shard s
    join lease l on l.shard = s.shard
    where s.shard = $1
        and case $6::text
            when 'start' then l.owner is null or l.owner = $2 or l.handover_to = $3
            when 'successor'
                then l.owner is null or l.lease_until < now() or l.handover_to = $3
            when 'gone' then
                l.owner_id = $8 and s.epoch = $7 and l.handover_to is null
                and exists (
                    select
                    from replica r
                    where r.shard = s.shard
                        and r.replica = $8
                        and r.heartbeat_pid is not null
                        and not exists (
                            select
                            from pg_stat_activity a
                            where a.pid = r.heartbeat_pid
                                and (a.backend_start is null or a.backend_start = r.heartbeat_start)
                        )
                )
            else l.owner_id = $3 and s.epoch = $7
        end
    for update skip locked
),
me as (
    insert into replica (shard, replica, name, address, epoch, started_at, seen_at)
    select $1, $3, $2, $5, 0, now(), now()
    on conflict on constraint replica_pkey do update
    set seen_at = excluded.seen_at
),
begun as (
    update shard s
    set epoch = s.epoch + 1
    from free
    where s.shard = $1 and s.shard = free.shard
    returning s.epoch
),
leased as (
    update lease l
    set owner = $2,
        owner_id = $3,
        lease_until = now() + $4 * interval '1 microsecond',
        handover_to = null
    from free
    where l.shard = $1 and l.shard = free.shard
    returning l.lease_until
)
select begun.epoch, clock_timestamp(), leased.lease_until
from begun
cross join leased";

/// An ownership of the shard that has just begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    pub epoch: Epoch,
    /// The last batch in the journal; continue with the next number.
    pub last_batch: BatchNo,
    /// Time of the database.
    pub now: Time,
    /// Others may take the shard over after this.
    pub lease_until: Time,
}

/// What came of an attempt to own the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOver {
    /// It is ours; every write of an earlier owner is now either in the journal or refused.
    Owned(Ownership),
    /// Another replica owns it; check again after this time.
    Wait(Duration),
}

/// Why a replica may take the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It has just started, and nobody owns the shard, or an earlier run under its own name does.
    Start,
    /// It has seen at two heartbeats that the lease is not renewed, or the shard is handed to it.
    Successor,
    /// Nobody answers at the address of this owner any more. Holds if the session of its heartbeat
    /// is gone, too.
    Gone(Uuid, Epoch),
    /// It owns the shard under this epoch and begins another one.
    Owner(Epoch),
}

impl Claim {
    /// As the statement takes it: kind, epoch and owner it is about.
    fn in_words(self) -> (&'static str, i64, Option<Uuid>) {
        match self {
            Claim::Start => ("start", 0, None),
            Claim::Successor => ("successor", 0, None),
            Claim::Gone(owner, epoch) => ("gone", epoch.0, Some(owner)),
            Claim::Owner(epoch) => ("owner", epoch.0, None),
        }
    }
}

impl Journal {
    /// Makes `replica` the owner of the shard if its claim holds.
    pub async fn take_over(
        &self,
        replica: &Replica,
        claim: Claim,
        lease: Duration,
    ) -> Result<TakeOver, JournalError> {
        let mut connection = self.connect(Duty::Ownership).await?;
        let taken = take(&mut connection, self.shard(), replica, claim, lease).await?;
        let outcome = match taken {
            Some((epoch, now, lease_until)) => {
                let last_batch = last_batch(&mut connection, self.shard()).await?;
                TakeOver::Owned(Ownership {
                    epoch: Epoch(epoch),
                    last_batch,
                    now: now.0,
                    lease_until: lease_until.0,
                })
            }
            None => TakeOver::Wait(lease_left(&mut connection, self.shard()).await?),
        };
        connection.close().await?;
        Ok(outcome)
    }

    /// Gives the shard up: `successor` may take it at once, others if it does not; `None`: anybody
    /// may. Returns whether we owned it.
    pub async fn hand_over(
        &self,
        replica: &Replica,
        epoch: Epoch,
        successor: Option<Uuid>,
    ) -> Result<bool, JournalError> {
        let mut connection = self.connect(Duty::Ownership).await?;
        let given = sqlx::query(
            "-- hand_over
             update lease l
             set lease_until = now(),
                 handover_to = $4,
                 owner = case when $4 is not null then l.owner end,
                 owner_id = case when $4 is not null then l.owner_id end
             from shard s
             where l.shard = $1 and s.shard = l.shard and s.epoch = $2 and l.owner_id = $3",
        )
        .bind(self.shard().0)
        .bind(epoch.0)
        .bind(replica.id)
        .bind(successor)
        .execute(&mut connection)
        .await?;
        connection.close().await?;
        Ok(given.rows_affected() == 1)
    }
}

/// The new epoch, the time of the database, and the end of the lease; `None`: the claim does not
/// hold, or an append holds the lock of the shard's row.
async fn take(
    connection: &mut Link,
    shard: ShardId,
    replica: &Replica,
    claim: Claim,
    lease: Duration,
) -> Result<Option<(i64, Stamp, Stamp)>, JournalError> {
    let (kind, epoch, gone) = claim.in_words();
    let query = sqlx::query_as(TAKE_OVER);
    let query = query
        .bind(shard.0)
        .bind(&*replica.name)
        .bind(replica.id)
        .bind(lease.as_micros() as i64);
    let query = query
        .bind(replica.address.as_deref())
        .bind(kind)
        .bind(epoch)
        .bind(gone);
    Ok(query.fetch_optional(connection).await?)
}

/// The last batch. A separate statement, because its snapshot must be younger than the new epoch,
/// which fences the old owner.
async fn last_batch(connection: &mut Link, shard: ShardId) -> Result<BatchNo, JournalError> {
    let no: Option<i64> = sqlx::query_scalar(
        "-- last_batch
         select max(batch_no)
         from batch
         where shard = $1",
    )
    .bind(shard.0)
    .fetch_one(connection)
    .await?;
    no.map(BatchNo)
        .ok_or_else(|| JournalError::corrupt(format!("no batch of shard {}", shard.0)))
}

async fn lease_left(connection: &mut Link, shard: ShardId) -> Result<Duration, JournalError> {
    let left: Option<(Stamp, Option<Stamp>)> = sqlx::query_as(
        "-- lease_left
         select clock_timestamp(), lease_until
         from lease
         where shard = $1",
    )
    .bind(shard.0)
    .fetch_optional(connection)
    .await?;
    let (now, until) =
        left.ok_or_else(|| JournalError::corrupt(format!("no lease of shard {}", shard.0)))?;
    Ok(until.map_or(LOCKED_POLL_INTERVAL, |until| {
        until.0.since(now.0).max(LOCKED_POLL_INTERVAL)
    }))
}
