//! The executors of a shard and their sessions on targets: a session is registered before its first task, so that it can be
//! shown dead before a task that it may have run is started again.
//!
//! A fence is kept by the register: an executor that was fenced opens no more sessions. It begins afresh as its next
//! incarnation, when nothing runs of what it was given before.

use crate::core::{Epoch, InDoubtWindow, Time, Work};
use crate::journal::{JournalError, Reader, Replica, encoding::Stamp, rows::from_row};
use std::{
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
    time::Duration,
};
use uuid::Uuid;

/// One connection to a target. Pid and start together name a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The run of a server that opened it.
    pub replica: Uuid,
    /// As which of its incarnations.
    pub incarnation: i32,
    /// On which target.
    pub target: Arc<str>,
    /// Its slot.
    pub slot: u32,
    /// Its backend.
    pub backend_pid: i32,
    /// When the backend began, by `pg_stat_activity`.
    pub backend_start: Time,
}

/// An executor that is not fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enrolled {
    /// The run of a server.
    pub replica: Uuid,
    /// Its present incarnation.
    pub incarnation: i32,
    /// It has been seen lately.
    pub alive: bool,
}

/// The register, as one run of a server uses it.
#[derive(Clone, Debug)]
pub struct Sessions {
    reader: Reader,
    replica: Replica,
    incarnation: Arc<AtomicI32>,
    /// Held by whoever begins afresh.
    afresh: Arc<tokio::sync::Mutex<()>>,
}

struct Row {
    replica: Uuid,
    incarnation: i32,
    target: String,
    slot: i32,
    backend_pid: i32,
    backend_start: Stamp,
}

from_row!(Row {
    replica,
    incarnation,
    target,
    slot,
    backend_pid,
    backend_start
});

impl Sessions {
    pub(crate) fn new(reader: Reader, replica: Replica) -> Self {
        Sessions {
            reader,
            replica,
            incarnation: Arc::new(AtomicI32::new(1)),
            afresh: Arc::default(),
        }
    }

    /// The present incarnation of this run's executor.
    pub fn incarnation(&self) -> i32 {
        self.incarnation.load(Ordering::Acquire)
    }

    /// Says what the executor of this run has slots for.
    pub async fn enrol(&self, capacity: &[(Work, u32)]) -> Result<(), JournalError> {
        let (works, slots): (Vec<String>, Vec<i32>) = capacity
            .iter()
            .map(|(work, n)| (work.to_string(), *n as i32))
            .unzip();
        self.reader
            .read(|| {
                sqlx::query(
                    "-- enrol
                     insert into replica (shard, replica, name, address, epoch, works, slots, started_at, seen_at)
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
        Ok(())
    }

    /// Registers a session of this run; it may run tasks when this has returned true. False: the executor has been fenced.
    pub async fn register(
        &self,
        target: &str,
        slot: u32,
        backend_pid: i32,
        backend_start: Time,
    ) -> Result<bool, JournalError> {
        let incarnation = self.incarnation();
        let done = self
            .reader
            .read(|| {
                sqlx::query(
                    "-- register_session
                     with me as materialized (
                         select shard, replica
                         from replica
                         where shard = $1 and replica = $2 and fenced < $3
                         for share
                     )
                     insert into session (shard, replica, incarnation, target, slot, backend_pid, backend_start)
                     select me.shard, me.replica, $3, $4, $5, $6, $7
                     from me
                     on conflict on constraint session_pkey do update
                     set slot = excluded.slot",
                )
                .bind(self.reader.shard.0)
                .bind(self.replica.id)
                .bind(incarnation)
                .bind(target)
                .bind(slot as i32)
                .bind(backend_pid)
                .bind(Stamp(backend_start))
                .execute(&self.reader.pool)
            })
            .await?;
        Ok(done.rows_affected() == 1)
    }

    /// The executors of other runs that are not fenced; alive: seen within `lately`, and no earlier run of this replica.
    pub async fn others(&self, lately: Duration) -> Result<Vec<Enrolled>, JournalError> {
        let rows: Vec<(Uuid, i32, bool)> = self
            .reader
            .read(|| {
                sqlx::query_as(
                    "-- executors_not_fenced
                     select replica, incarnation, name <> $4 and seen_at > now() - $3 * interval '1 microsecond'
                     from replica
                     where shard = $1 and replica <> $2 and fenced < incarnation",
                )
                .bind(self.reader.shard.0)
                .bind(self.replica.id)
                .bind(lately.as_micros() as i64)
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

    /// How many tasks of each kind earlier owners may have handed out: the slots of all they knew. What was on its way to an idle
    /// executor, this run's own or one lost a moment ago, counts: tasks handed out later than that may run elsewhere.
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
                         and (r.fenced < r.incarnation or r.seen_at > now() - interval '1 minute' or exists (
                             select
                             from session s
                             where s.shard = r.shard and s.replica = r.replica and s.incarnation <= r.fenced
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

    /// From now on this incarnation of a run's executor opens no more sessions. False: the shard has another epoch, and nothing is
    /// changed.
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

    /// Whether this incarnation of a run's executor has been fenced. One that nobody knows has.
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

    /// If the executor of this run is fenced, it gives up what it has, and begins afresh. Whoever finds out, and however late:
    /// it is done once a fence, and never to an executor that has begun afresh since.
    pub async fn begin_afresh<F: Future<Output = ()>>(
        &self,
        give_up: impl FnOnce() -> F,
    ) -> Result<(), JournalError> {
        let _alone = self.afresh.lock().await;
        if self.is_fenced(self.replica.id, self.incarnation()).await? {
            give_up().await;
            self.readmit().await?;
        }
        Ok(())
    }

    /// Begins afresh after a fence: nothing runs here any more of what was given before.
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
            .ok_or_else(|| JournalError::corrupt("this replica has no row".to_owned()))?;
        self.incarnation.store(incarnation, Ordering::Release);
        Ok(())
    }

    /// Sessions of fenced executors: each must be shown dead or terminated before what it may have run is started again.
    pub async fn of_fenced(&self) -> Result<Vec<Session>, JournalError> {
        let rows: Vec<Row> = self
            .reader
            .read(|| {
                sqlx::query_as(
                    "-- sessions_of_fenced
                     select s.replica, s.incarnation, s.target, s.slot, s.backend_pid, s.backend_start
                     from session s
                     left join replica r on r.shard = s.shard and r.replica = s.replica
                     where s.shard = $1 and (r.replica is null or s.incarnation <= r.fenced)
                     order by s.target, s.backend_pid",
                )
                .bind(self.reader.shard.0)
                .fetch_all(&self.reader.pool)
            })
            .await?;
        let session = |row: Row| Session {
            replica: row.replica,
            incarnation: row.incarnation,
            target: row.target.into(),
            slot: row.slot as u32,
            backend_pid: row.backend_pid,
            backend_start: row.backend_start.0,
        };
        Ok(rows.into_iter().map(session).collect())
    }

    /// The executor of this run is over, and nothing of what it was given is left: nobody need fence it.
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

    /// Its executor has no more use for a session. The last one on a target stays until the executor is fenced or leaves: it shows
    /// that something may have run there, which may not be on record yet.
    pub async fn let_go(
        &self,
        target: &str,
        backend_pid: i32,
        backend_start: Time,
    ) -> Result<(), JournalError> {
        self.reader
            .read(|| {
                sqlx::query(
                    "-- let_go_of_session
                     delete from session s
                     where s.shard = $1
                         and s.replica = $2
                         and s.target = $3
                         and s.backend_pid = $4
                         and s.backend_start = $5
                         and exists (
                             select
                             from session o
                             where o.shard = s.shard
                                 and o.replica = s.replica
                                 and o.incarnation = s.incarnation
                                 and o.target = s.target
                                 and (o.backend_pid, o.backend_start) <> (s.backend_pid, s.backend_start)
                         )",
                )
                .bind(self.reader.shard.0)
                .bind(self.replica.id)
                .bind(target)
                .bind(backend_pid)
                .bind(Stamp(backend_start))
                .execute(&self.reader.pool)
            })
            .await?;
        Ok(())
    }

    /// Forgets a session that has ended, of whichever run.
    pub async fn forget(
        &self,
        target: &str,
        backend_pid: i32,
        backend_start: Time,
    ) -> Result<(), JournalError> {
        self.reader
            .read(|| {
                sqlx::query(
                    "-- forget_session
                     delete from session
                     where shard = $1 and target = $2 and backend_pid = $3 and backend_start = $4",
                )
                .bind(self.reader.shard.0)
                .bind(target)
                .bind(backend_pid)
                .bind(Stamp(backend_start))
                .execute(&self.reader.pool)
            })
            .await?;
        Ok(())
    }
}
