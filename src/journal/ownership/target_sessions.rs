//! The register of sessions on targets.
//!
//! A session is registered before its first task, so that it can be shown dead before a task that
//! it may have run is started again. A fenced executor registers no more sessions.

use crate::core::{Epoch, Time};
use crate::executor_protocol::Postmaster;
use crate::journal::{JournalError, Reader, Replica, encoding::Stamp, rows::from_row};
use std::sync::{
    Arc,
    atomic::{AtomicI32, AtomicI64, Ordering},
};
use uuid::Uuid;
#[cfg(test)]
use {crate::core::ShardId, crate::journal::pool::Pool, sqlx::postgres::PgConnectOptions};

/// One connection to a target. Process id and start time together identify a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The run of a server that opened it.
    pub replica: Uuid,
    pub incarnation: i32,
    pub target: Arc<str>,
    pub slot: u32,
    pub backend_pid: i32,
    /// As `pg_stat_activity` has it.
    pub backend_start: Time,
    /// The server it runs on; `None`: a version that did not record it has registered it.
    pub postmaster: Option<Postmaster>,
}

/// The register, as one run of a server uses it.
#[derive(Clone, Debug)]
pub struct Sessions {
    pub(super) reader: Reader,
    pub(super) replica: Replica,
    pub(super) incarnation: Arc<AtomicI32>,
    pub(super) enrolled_under: Arc<AtomicI64>,
    /// Held while the executor returns from a fence.
    pub(super) returning: Arc<tokio::sync::Mutex<()>>,
}

struct Row {
    replica: Uuid,
    incarnation: i32,
    target: String,
    slot: i32,
    backend_pid: i32,
    backend_start: Stamp,
    system_identifier: Option<i64>,
    server_address: Option<String>,
    server_port: Option<i32>,
    postmaster_start: Option<Stamp>,
}

from_row!(Row {
    replica,
    incarnation,
    target,
    slot,
    backend_pid,
    backend_start,
    system_identifier,
    server_address,
    server_port,
    postmaster_start
});

impl From<Row> for Session {
    fn from(row: Row) -> Self {
        let postmaster = |started: Stamp| {
            Some(Postmaster {
                system: row.system_identifier?,
                address: row.server_address.map(Into::into),
                port: row.server_port?,
                started: started.0,
            })
        };
        Session {
            replica: row.replica,
            incarnation: row.incarnation,
            target: row.target.into(),
            slot: row.slot as u32,
            backend_pid: row.backend_pid,
            backend_start: row.backend_start.0,
            postmaster: row.postmaster_start.and_then(postmaster),
        }
    }
}

impl Sessions {
    pub(crate) fn new(reader: Reader, replica: Replica) -> Self {
        Sessions {
            reader,
            replica,
            incarnation: Arc::new(AtomicI32::new(1)),
            enrolled_under: Arc::default(),
            returning: Arc::default(),
        }
    }

    /// That of a test in which nothing is asked of the register.
    #[cfg(test)]
    pub(crate) fn without_database(replica: Replica) -> Self {
        let pool = Pool::new(&PgConnectOptions::new_without_pgpass(), 1);
        Sessions::new(Reader::new(pool, ShardId(0), 1), replica)
    }

    /// The current incarnation of the executor of this run.
    pub fn incarnation(&self) -> i32 {
        self.incarnation.load(Ordering::Acquire)
    }

    /// The ownership when this incarnation could be found in the register: a later owner knows of
    /// it, an older one may be overtaken by one that does not.
    pub fn enrolled_under(&self) -> Epoch {
        Epoch(self.enrolled_under.load(Ordering::Acquire))
    }

    /// Registers a session of this run, which may run tasks once this has returned true. False: the
    /// executor has been fenced.
    pub async fn register(
        &self,
        target: &str,
        slot: u32,
        backend_pid: i32,
        backend_start: Time,
        postmaster: Option<&Postmaster>,
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
                     insert into session (shard, replica, incarnation, target, slot, backend_pid,
                         backend_start, system_identifier, server_address, server_port,
                         postmaster_start)
                     select me.shard, me.replica, $3, $4, $5, $6, $7, $8, $9, $10, $11
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
                .bind(postmaster.map(|one| one.system))
                .bind(postmaster.and_then(|one| one.address.as_deref()))
                .bind(postmaster.map(|one| one.port))
                .bind(postmaster.map(|one| Stamp(one.started)))
                .execute(&self.reader.pool)
            })
            .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Sessions of fenced executors. Each must be shown dead or be terminated before the tasks it
    /// may have run are started again.
    pub async fn of_fenced(&self) -> Result<Vec<Session>, JournalError> {
        let rows: Vec<Row> = self
            .reader
            .read(|| {
                sqlx::query_as(
                    "-- sessions_of_fenced
                     select s.replica, s.incarnation, s.target, s.slot, s.backend_pid,
                         s.backend_start, s.system_identifier, s.server_address, s.server_port,
                         s.postmaster_start
                     from session s
                     left join replica r on r.shard = s.shard and r.replica = s.replica
                     where s.shard = $1 and (r.replica is null or s.incarnation <= r.fenced)
                     order by s.target, s.backend_pid",
                )
                .bind(self.reader.shard.0)
                .fetch_all(&self.reader.pool)
            })
            .await?;
        Ok(rows.into_iter().map(Session::from).collect())
    }

    /// Removes a session of this run that is no longer used, unless it is the last one on its
    /// target. That one stays until the executor is fenced or leaves: it shows that something may
    /// have run there whose outcome is not recorded yet. Nobody awaits its end any more. Returns
    /// whether it was removed.
    pub async fn let_go(
        &self,
        target: &str,
        backend_pid: i32,
        backend_start: Time,
    ) -> Result<bool, JournalError> {
        let done = self
            .reader
            .read(|| {
                sqlx::query(
                    "-- let_go_of_session
                     with last as (
                         update session s
                         set pending_since = null, pending_why = null
                         where s.shard = $1
                             and s.replica = $2
                             and s.target = $3
                             and s.backend_pid = $4
                             and s.backend_start = $5
                             and s.pending_since is not null
                             and not exists (
                                 select
                                 from session o
                                 where o.shard = s.shard
                                     and o.replica = s.replica
                                     and o.incarnation = s.incarnation
                                     and o.target = s.target
                                     and (o.backend_pid, o.backend_start)
                                         <> (s.backend_pid, s.backend_start)
                             )
                     )
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
                                 and (o.backend_pid, o.backend_start)
                                     <> (s.backend_pid, s.backend_start)
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
        Ok(done.rows_affected() == 1)
    }

    /// Removes a session that has ended, of any run.
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
