//! The heartbeat: one statement a second that renews this replica's lease and row, and reads which
//! other replicas are alive.

use crate::core::{Epoch, ShardId, Time};
use crate::journal::{
    JournalError, Replica,
    connection_limits::{AnswerTimeout, Duty},
    encoding::Stamp,
    link::Link,
    rows::from_row,
};
use sqlx::postgres::PgConnectOptions;
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

/// The longest a heartbeat takes, however often the one before took too long.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(10);

/// Renews the lease and the own row, in which the session of the heartbeat stands: when that is
/// gone, so is the replica, or it writes another one soon. Reads who owns the shard and who is
/// there.
const HEARTBEAT: &str = "-- heartbeat
     with renewed as (
         update lease l
         set lease_until = now() + $5 * interval '1 microsecond'
         from shard s
         where l.shard = $1
             and s.shard = l.shard
             and s.epoch = $2
             and l.owner_id = $3
             and l.handover_to is null
         returning l.lease_until
     ),
     me as (
         insert into replica (shard, replica, name, address, stopping, epoch, started_at,
             seen_at, heartbeat_pid, heartbeat_start)
         select s.shard, $3, $4, $6, $7, s.epoch, now(), now(), a.pid, a.backend_start
         from shard s
         left join pg_stat_activity a on a.pid = pg_backend_pid()
         where s.shard = $1
         on conflict on constraint replica_pkey do update
         set address = excluded.address,
             stopping = excluded.stopping,
             epoch = excluded.epoch,
             seen_at = excluded.seen_at,
             heartbeat_pid = excluded.heartbeat_pid,
             heartbeat_start = excluded.heartbeat_start
     )
     select clock_timestamp() as now, renewed.lease_until, s.epoch, l.owner_id,
         case when l.owner is not null then l.lease_until end as owned_until, l.handover_to,
         m.ids, m.names, m.addresses, m.stopping
     from shard s
     join lease l on l.shard = s.shard
     left join renewed on true
     cross join lateral (
         select coalesce(array_agg(r.replica order by r.started_at desc), '{}') as ids,
             coalesce(array_agg(r.name order by r.started_at desc), '{}') as names,
             coalesce(array_agg(r.address order by r.started_at desc), '{}') as addresses,
             coalesce(array_agg(r.stopping order by r.started_at desc), '{}') as stopping
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
    pub membership: Membership,
}

/// The replicas of a shard, and which of them owns it, as of the last heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    pub epoch: Epoch,
    /// The run that owns the shard, or that it is being handed to; `None`: nobody does.
    pub owner: Option<Uuid>,
    /// Runs seen within the last lease, the youngest first.
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
    connection: Option<Link>,
    shard: ShardId,
    replica: Replica,
    lease: Duration,
    timeout: AnswerTimeout,
    /// Shutting down; other replicas read it from the row.
    pub stopping: bool,
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
    stopping
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
        if reading.is_err() {
            self.connection = None;
        }
        reading
    }

    async fn send(&mut self, epoch: Option<Epoch>) -> Result<HeartbeatReading, JournalError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Link::open(&self.options, Duty::Heartbeat).await?,
        };
        let row: Row = sqlx::query_as(HEARTBEAT)
            .bind(self.shard.0)
            .bind(epoch.map_or(0, |epoch| epoch.0))
            .bind(self.replica.id)
            .bind(&*self.replica.name)
            .bind(self.lease.as_micros() as i64)
            .bind(self.replica.address.as_deref())
            .bind(self.stopping)
            .fetch_one(&mut connection)
            .await?;
        self.connection = Some(connection);
        Ok(row.reading())
    }
}

impl Row {
    fn reading(self) -> HeartbeatReading {
        let rest = self
            .names
            .into_iter()
            .zip(self.addresses)
            .zip(self.stopping);
        let members = self
            .ids
            .into_iter()
            .zip(rest)
            .map(|(id, ((name, address), stopping))| Member {
                id,
                name: name.into(),
                address: address.map(Into::into),
                stopping,
            });
        HeartbeatReading {
            now: self.now.0,
            lease_until: self.lease_until.map(|until| until.0),
            owned_until: self.owned_until.map(|until| until.0),
            handover_to: self.handover_to,
            membership: Membership {
                epoch: Epoch(self.epoch),
                owner: self.handover_to.or(self.owner_id),
                members: members.collect(),
            },
        }
    }
}
