//! The heartbeat: one statement a second that renews this replica's lease and row, and reads the
//! heartbeats of the others.
//!
//! Who is alive is not judged here: the times that it reads are those of a clock that may jump.

use crate::core::{Epoch, ShardId, Time};
use crate::journal::{
    JournalError, Replica,
    bounded_connection::BoundedConnection,
    connection_limits::{AnswerTimeout, Duty},
    encoding::Stamp,
    rows::from_row,
};
use sqlx::postgres::PgConnectOptions;
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

/// The longest a heartbeat takes, however often the one before took too long.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(10);

/// Renews the lease and the own row, in which the session of the heartbeat stands: when that is
/// gone, so is the replica, or it writes another one soon. The row is not made here: one that was
/// deleted was fenced, and the executor makes it when it begins afresh. Reads who owns the shard,
/// and whose heartbeats the database's clock does not call old.
const HEARTBEAT: &str = "-- heartbeat
     with renewed as (
         update lease l
         set lease_until = now() + $5 * interval '1 microsecond',
             requests_since = coalesce($7, l.requests_since)
         from shard s
         where l.shard = $1
             and s.shard = l.shard
             and s.epoch = $2
             and l.owner_id = $3
             and l.handover_to is null
         returning l.lease_until
     ),
     me as (
         update replica r
         set address = $4,
             stopping = $6,
             epoch = greatest(s.epoch, $8),
             seen_at = now(),
             heartbeat_pid = a.pid,
             heartbeat_start = a.backend_start
         from shard s
         left join pg_stat_activity a on a.pid = pg_backend_pid()
         where r.shard = $1 and r.replica = $3 and s.shard = r.shard
     )
     select clock_timestamp() as now, renewed.lease_until, s.epoch, l.owner_id,
         case when l.owner is not null then l.lease_until end as owned_until, l.handover_to,
         m.ids, m.names, m.addresses, m.stopping, m.started, m.seen, m.heard
     from shard s
     join lease l on l.shard = s.shard
     left join renewed on true
     cross join lateral (
         select coalesce(array_agg(r.replica order by r.replica), '{}') as ids,
             coalesce(array_agg(r.name order by r.replica), '{}') as names,
             coalesce(array_agg(r.address order by r.replica), '{}') as addresses,
             coalesce(array_agg(r.stopping order by r.replica), '{}') as stopping,
             coalesce(array_agg(r.started_at order by r.replica), '{}') as started,
             coalesce(array_agg(r.seen_at order by r.replica), '{}') as seen,
             coalesce(max(r.epoch), 0) as heard
         from replica r
         where r.shard = $1 and r.seen_at > now() - $5 * interval '1 microsecond'
     ) m
     where s.shard = $1";

/// What a heartbeat found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatReading {
    /// Time of the database, taken after any wait.
    pub now: Time,
    /// The end of our lease; `None`: the shard has another epoch and is no longer ours.
    pub lease_until: Option<Time>,
    /// The end of the lease of the current owner; `None`: nobody owns the shard.
    pub owned_until: Option<Time>,
    /// The run that may take the shard over at once.
    pub handover_to: Option<Uuid>,
    /// The present ownership.
    pub epoch: Epoch,
    /// The highest epoch that these runs have heard of: a later one than the present only if the
    /// database was set back.
    pub heard: Epoch,
    /// The run that owns the shard, or that it is being handed to; `None`: nobody does.
    pub owner: Option<Uuid>,
    /// The runs whose last heartbeat is not old by the database's clock. After a step back of that
    /// clock runs that have ended are among them.
    pub seen: Vec<SeenRun>,
}

/// One run of a server, as its row has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenRun {
    pub member: Member,
    pub started_at: Time,
    /// Its last heartbeat, by the database's clock of then: another time says that it was alive in
    /// between.
    pub seen_at: Time,
}

/// The replicas of a shard, and which of them owns it, as of the last heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    pub epoch: Epoch,
    /// The run that owns the shard, or that it is being handed to; `None`: nobody does.
    pub owner: Option<Uuid>,
    /// Runs that have had a heartbeat within a lease, the youngest first.
    pub members: Vec<Member>,
}

/// One live run of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Differs for every run of the replica.
    pub id: Uuid,
    pub name: Arc<str>,
    /// Where other replicas reach it, as `host:port`.
    pub address: Option<Arc<str>>,
    /// Shutting down: it takes nothing over.
    pub stopping: bool,
}

impl Membership {
    /// Whether this run is there.
    pub fn has(&self, run: Uuid) -> bool {
        self.members.iter().any(|member| member.id == run)
    }

    /// The owner as a member; `None`: nobody owns the shard, or the owner has not been seen
    /// recently.
    pub fn owning(&self) -> Option<&Member> {
        self.members
            .iter()
            .find(|member| Some(member.id) == self.owner)
    }
}

/// The connection of the heartbeat; it connects when needed.
pub struct Heartbeat {
    options: PgConnectOptions,
    connection: Option<BoundedConnection>,
    shard: ShardId,
    replica: Replica,
    lease: Duration,
    timeout: AnswerTimeout,
    /// Shutting down; other replicas read it from the row.
    pub stopping: bool,
    /// Calls that were accepted since then may be repeated; `None`: as the lease says already.
    pub requests_since: Option<Time>,
    /// The highest epoch that this run has ever heard of, for the others.
    pub heard: Epoch,
}

struct Row {
    now: Stamp,
    lease_until: Option<Stamp>,
    epoch: i64,
    owner_id: Option<Uuid>,
    owned_until: Option<Stamp>,
    handover_to: Option<Uuid>,
    ids: Vec<Uuid>,
    names: Vec<String>,
    addresses: Vec<Option<String>>,
    stopping: Vec<bool>,
    started: Vec<Stamp>,
    seen: Vec<Stamp>,
    heard: i64,
}

from_row!(Row {
    now,
    lease_until,
    epoch,
    owner_id,
    owned_until,
    handover_to,
    ids,
    names,
    addresses,
    stopping,
    started,
    seen,
    heard
});

impl Heartbeat {
    pub(crate) fn new(
        options: &PgConnectOptions,
        shard: ShardId,
        replica: Replica,
        lease: Duration,
    ) -> Self {
        Heartbeat {
            options: options.clone(),
            connection: None,
            shard,
            replica,
            lease,
            // Half the lease: a silent connection is replaced while there is time to renew it.
            timeout: AnswerTimeout::new((lease / 2).min(HEARTBEAT_TIMEOUT), HEARTBEAT_TIMEOUT),
            stopping: false,
            requests_since: None,
            heard: Epoch(0),
        }
    }

    /// Renews the lease of `epoch` (`None`: not the owner) and the replica's own row. After an
    /// error the lease may not have been renewed, and the next heartbeat uses a new connection.
    pub async fn renew(&mut self, epoch: Option<Epoch>) -> Result<HeartbeatReading, JournalError> {
        let limit = self.timeout.limit();
        let reading = tokio::time::timeout(limit, self.send(epoch))
            .await
            .unwrap_or(Err(JournalError::Timeout));
        self.timeout
            .note(!matches!(reading, Err(JournalError::Timeout)));
        match &reading {
            Ok(reading) => self.heard = self.heard.max(reading.epoch).max(reading.heard),
            Err(_) => self.connection = None,
        }
        reading
    }

    async fn send(&mut self, epoch: Option<Epoch>) -> Result<HeartbeatReading, JournalError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => BoundedConnection::open(&self.options, Duty::Heartbeat).await?,
        };
        let row: Row = sqlx::query_as(HEARTBEAT)
            .bind(self.shard.0)
            .bind(epoch.map_or(0, |epoch| epoch.0))
            .bind(self.replica.id)
            .bind(self.replica.address.as_deref())
            .bind(self.lease.as_micros() as i64)
            .bind(self.stopping)
            .bind(self.requests_since.map(Stamp))
            .bind(self.heard.0)
            .fetch_one(&mut connection)
            .await?;
        self.connection = Some(connection);
        Ok(row.reading())
    }
}

impl Row {
    fn reading(self) -> HeartbeatReading {
        let people = self.names.into_iter().zip(self.addresses);
        let times = self.started.into_iter().zip(self.seen);
        let rest = people.zip(self.stopping).zip(times);
        let seen = self.ids.into_iter().zip(rest);
        let seen = seen.map(
            |(id, (((name, address), stopping), (started_at, seen_at)))| SeenRun {
                member: Member {
                    id,
                    name: name.into(),
                    address: address.map(Into::into),
                    stopping,
                },
                started_at: started_at.0,
                seen_at: seen_at.0,
            },
        );
        HeartbeatReading {
            now: self.now.0,
            lease_until: self.lease_until.map(|until| until.0),
            owned_until: self.owned_until.map(|until| until.0),
            handover_to: self.handover_to,
            epoch: Epoch(self.epoch),
            heard: Epoch(self.heard),
            owner: self.handover_to.or(self.owner_id),
            seen: seen.collect(),
        }
    }
}
