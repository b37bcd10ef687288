//! Who owns the shard: take-over and handover.
//!
//! Every change of owner begins a new epoch, with a batch of its own. That fences the writer of the
//! old one: the number it would write next is taken. Whether a lease is over is not asked of the
//! database's clock: who says so has watched it, and names the lease that it has watched.

use crate::core::{BatchNo, Epoch, ShardId, Time, model::limits::REQUEST_MEMORY};
use crate::journal::{
    Journal, JournalError, Replica, bounded_connection::BoundedConnection, encoding::Stamp,
    migrations,
};
use std::time::Duration;
use uuid::Uuid;

const TAKE_OVER: &str = "-- take_over
with free as materialized (
    select s.shard, s.epoch, now() - $9 * interval '1 microsecond' as usually_since
    from shard s
    join lease l on l.shard = s.shard
    left join lateral (
        select exists (
            select
            from pg_stat_activity a
            where a.pid = r.heartbeat_pid
                and (a.backend_start is null or a.backend_start = r.heartbeat_start)
        ) as is_there
        from replica r
        where r.shard = s.shard and r.replica = l.owner_id and r.heartbeat_pid is not null
    ) session on true
    where s.shard = $1
        and case $5::text
            when 'start'
                then l.owner is null or l.handover_to = $3
                or l.owner = $2 and session.is_there is not true
            when 'successor'
                then l.owner is null or l.lease_until = $8 or l.handover_to = $3
            when 'gone' then
                l.owner_id = $7 and s.epoch = $6 and l.handover_to is null
                and not session.is_there
            else l.owner_id = $3 and s.epoch = $6 and l.handover_to is null
        end
    for update of s, l skip locked
),
-- a database that was set back has forgotten epochs that replicas have heard of
begun as (
    update shard s
    set epoch = greatest(s.epoch, heard.epoch, $12) + 1
    from free
    cross join (
        select max(epoch) as epoch
        from replica
        where shard = $1
    ) as heard
    where s.shard = $1 and s.shard = free.shard
    returning s.epoch
),
leased as (
    update lease l
    set owner = $2,
        owner_id = $3,
        lease_until = now() + $4 * interval '1 microsecond',
        handover_to = null,
        -- a program of before leaves it as some owner before it wrote it
        requests_since = case
            when l.requests_epoch = free.epoch then l.requests_since
            else free.usually_since
        end,
        requests_epoch = begun.epoch
    from free
    cross join begun
    where l.shard = $1 and l.shard = free.shard
    returning l.lease_until, l.requests_since
),
-- of what the claimant knows to be durable
survived as (
    select max(batch_no) as batch_no
    from batch
    where shard = $1 and batch_no <= $11 and epoch <= $10
),
fenced as (
    insert into batch (shard, batch_no, epoch, at)
    select $1, last.batch_no + 1, begun.epoch, now()
    from begun
    cross join (
        select max(batch_no) as batch_no
        from batch
        where shard = $1
    ) as last
    returning batch_no
)
select begun.epoch, fenced.batch_no, survived.batch_no, clock_timestamp(), leased.lease_until,
    leased.requests_since
from begun
cross join leased
cross join fenced
cross join survived";

/// As in [`TAKE_OVER`], with the epoch as of the same moment.
const SURVIVED: &str = "-- survived
select s.epoch, (
    select max(b.batch_no)
    from batch b
    where b.shard = $1 and b.batch_no <= $3 and b.epoch <= $2
)
from shard s
where s.shard = $1";

/// Number of times that a claim is made which meets an append of the owner.
const MAX_TRIES: u32 = 5;
/// SQLSTATEs of a claim that met one.
const DUPLICATE: &str = "23505";
const LOCK_TIMEOUT: &str = "55P03";

/// An ownership of the shard that has just begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    pub epoch: Epoch,
    /// The batch that begins it, the last in the journal; continue with the next number.
    pub last_batch: BatchNo,
    /// The last batch that is there of the claimant's, or of those before: an earlier one than it
    /// knows to be durable if the database has lost some. `None`: none, or it knows of none.
    pub survived: Option<BatchNo>,
    /// Time of the database.
    pub now: Time,
    /// Others may take the shard over after this.
    pub lease_until: Time,
    /// The owner before remembered the calls that were accepted since then; what is usual if it was
    /// of a version that does not write it down.
    pub requests_since: Time,
}

/// What came of an attempt to own the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOver {
    /// It is ours; every write of an earlier owner is now either in the journal or refused.
    Owned(Ownership),
    /// The claim does not hold, or another claim or an append of the owner was in the way.
    Refused,
}

/// Why a replica may take the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Nobody owns the shard, or an earlier run under its own name does. Of such a run no session
    /// of the heartbeat may be there: else it may be another process that was given the same name,
    /// whose tasks would be cut off.
    Start,
    /// It has seen that nobody owns the shard, or that it is handed to it; or it has watched the
    /// lease that ends at this time until it was over, and nobody has renewed it.
    Successor(Option<Time>),
    /// Nobody answers at the address of this owner any more. Holds if the session of its heartbeat
    /// is gone, too.
    Gone(Uuid, Epoch),
    /// It owns the shard under this epoch, perhaps by an earlier claim whose answer got lost, and
    /// begins another one.
    Owner(Epoch),
}

/// A claim as the statement takes it.
struct ClaimInWords {
    kind: &'static str,
    epoch: Epoch,
    owner: Option<Uuid>,
    lease_until: Option<Time>,
}

impl Claim {
    fn in_words(self) -> ClaimInWords {
        let (kind, epoch, owner, lease_until) = match self {
            Claim::Start => ("start", Epoch(0), None, None),
            Claim::Successor(lease_until) => ("successor", Epoch(0), None, lease_until),
            Claim::Gone(owner, epoch) => ("gone", epoch, Some(owner), None),
            Claim::Owner(epoch) => ("owner", epoch, None, None),
        };
        ClaimInWords {
            kind,
            epoch,
            owner,
            lease_until,
        }
    }
}

impl Journal {
    /// Makes `replica` the owner of the shard if its claim holds, under a later epoch than any that
    /// a replica has heard of. `durable`: the last batch that it knows to be durable, and its
    /// epoch. `heard`: the highest epoch that it has heard of, which its row may not say yet. A
    /// program that the schema is too new for owns nothing, which leaves the shard to those that
    /// can read it.
    pub async fn take_over(
        &self,
        replica: &Replica,
        claim: Claim,
        lease: Duration,
        durable: Option<(Epoch, BatchNo)>,
        heard: Epoch,
    ) -> Result<TakeOver, JournalError> {
        let shard = self.shard();
        let outcome = self.claim(async |connection| {
            // Another program may have migrated since this one was started.
            migrations::check(connection).await?;
            let mut has_made_numbers = false;
            for _ in 0..MAX_TRIES {
                let taken = take(connection, shard, replica, claim, lease, durable, heard).await;
                let Err(error) = taken else {
                    return taken.map(|taken| taken.map_or(TakeOver::Refused, TakeOver::Owned));
                };
                match error.sqlstate().as_deref() {
                    // Numbers of batches have run out, and only an owner makes more of them.
                    _ if error.is_missing_partition() && !has_made_numbers => {
                        has_made_numbers = true;
                        self.maintenance().ensure_batches(connection).await?;
                    }
                    // An append of the owner was faster.
                    Some(DUPLICATE) => {}
                    // One has not ended for as long as a claim waits, or a table is locked.
                    Some(LOCK_TIMEOUT) => break,
                    _ => return Err(error),
                }
            }
            tracing::info!("a claim to the shard waits for an append of its owner, or for a lock");
            Ok(TakeOver::Refused)
        });
        let outcome = outcome.await?;
        if outcome != TakeOver::Refused {
            self.claims_in_time();
        }
        Ok(outcome)
    }

    /// The epoch that the database has, and the last batch that is there of those up to `durable`,
    /// a batch of this process or of those before: an earlier one if the database has lost some;
    /// `None`: none. It holds if the epoch is one that began after `durable`: a database that does
    /// not have it yet is an older copy, or a standby that does not show all batches yet.
    pub async fn survived(
        &self,
        (epoch, durable): (Epoch, BatchNo),
    ) -> Result<(Epoch, Option<BatchNo>), JournalError> {
        let shard = self.shard();
        let survived = self.aside(async |connection| {
            let query = sqlx::query_as(SURVIVED)
                .bind(shard.0)
                .bind(epoch.0)
                .bind(durable.0);
            let (known, survived): (i64, Option<i64>) = query.fetch_one(connection).await?;
            Ok((Epoch(known), survived.map(BatchNo)))
        });
        survived.await
    }

    /// Gives the shard up: `successor` may take it at once, others if it does not; `None`: anybody
    /// may. Returns whether we owned it.
    pub async fn hand_over(
        &self,
        replica: &Replica,
        epoch: Epoch,
        successor: Option<Uuid>,
    ) -> Result<bool, JournalError> {
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
        .bind(successor);
        let given = self.claim(async |connection| Ok(given.execute(connection).await?));
        Ok(given.await?.rows_affected() == 1)
    }
}

/// The new epoch, its first batch, the last that survived, the time of the database, the end of the
/// lease, and since when calls may be repeated.
type Taken = (i64, i64, Option<i64>, Stamp, Stamp, Stamp);

/// `None`: the claim does not hold, or another one is on its way.
async fn take(
    connection: &mut BoundedConnection,
    shard: ShardId,
    replica: &Replica,
    claim: Claim,
    lease: Duration,
    durable: Option<(Epoch, BatchNo)>,
    heard: Epoch,
) -> Result<Option<Ownership>, JournalError> {
    let claim = claim.in_words();
    let query = sqlx::query_as(TAKE_OVER);
    let query = query
        .bind(shard.0)
        .bind(&*replica.name)
        .bind(replica.id)
        .bind(lease.as_micros() as i64);
    let query = query
        .bind(claim.kind)
        .bind(claim.epoch.0)
        .bind(claim.owner)
        .bind(claim.lease_until.map(Stamp))
        .bind(REQUEST_MEMORY.as_micros() as i64)
        .bind(durable.map(|(epoch, _)| epoch.0))
        .bind(durable.map(|(_, no)| no.0))
        .bind(heard.0);
    let taken: Option<Taken> = query.fetch_optional(connection).await?;
    let ownership = |(epoch, batch, survived, now, lease_until, requests_since): Taken| Ownership {
        epoch: Epoch(epoch),
        last_batch: BatchNo(batch),
        survived: survived.map(BatchNo),
        now: now.0,
        lease_until: lease_until.0,
        requests_since: requests_since.0,
    };
    Ok(taken.map(ownership))
}
