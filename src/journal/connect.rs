//! Opens the coordination database, brings its schema up to date, and hands out what each duty
//! needs.

use super::{
    Heartbeat, JournalError, Maintenance, Preflight, Reader, Replica, Sessions, Writer,
    bounded_connection::{BoundedConnection, is_lapse},
    connection_limits::{AnswerTimeout, Duty},
    migrations,
    pool::Pool,
    preflight::{of_first_connection, refuse_dropped_options, refuse_shared_sessions},
};
use crate::core::ShardId;
use sqlx::postgres::PgConnectOptions;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How to reach the journal.
#[derive(Clone, Debug)]
pub struct JournalConfig {
    pub options: PgConnectOptions,
    pub shard: ShardId,
    /// Accept settings that lose commits when the server crashes; for tests.
    pub allow_unsafe: bool,
    /// Connections that read for callers.
    pub readers: u32,
    /// Days for which events and the log are retained.
    pub retention_days: u32,
}

/// Connections for what the service itself reads and notes: texts of tasks, sessions, the audit. No
/// read of a caller stands before these.
const OWN_CONNECTIONS: u32 = 4;

/// The coordination database, checked and with the current schema.
#[derive(Clone, Debug)]
pub struct Journal {
    options: PgConnectOptions,
    shard: ShardId,
    retention_days: u32,
    reader: Reader,
    own_reader: Reader,
    takeovers: Arc<Takeovers>,
}

/// How long the steps of a takeover wait for each answer. Each opens a connection of its own, and
/// one that takes longer than expected is given more time by the next one.
#[derive(Debug)]
struct Takeovers {
    claims: Mutex<AnswerTimeout>,
    recoveries: Mutex<AnswerTimeout>,
}

impl Journal {
    /// Connects, checks the server, migrates, and makes the next days.
    pub async fn open(config: JournalConfig) -> Result<Self, JournalError> {
        Journal::open_or_spare(config, None, &mut |_| {}).await
    }

    /// The same, but refuses a migration that the present owner could not live with. One whose
    /// lease is over has `return_time` to renew it: if that is waited for, `waits_for` hears once
    /// of which owner.
    pub async fn open_beside_owner(
        config: JournalConfig,
        return_time: Duration,
        waits_for: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Self, JournalError> {
        Journal::open_or_spare(config, Some(return_time), waits_for).await
    }

    async fn open_or_spare(
        config: JournalConfig,
        return_time: Option<Duration>,
        waits_for: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Self, JournalError> {
        let first = BoundedConnection::open(&config.options, Duty::Start).await;
        let mut link = first.map_err(|error| of_first_connection(error, &config.options))?;
        let mut other = BoundedConnection::open(&config.options, Duty::Start).await?;
        refuse_shared_sessions(&mut link, &mut other).await?;
        refuse_dropped_options(&mut link, Duty::Start).await?;
        other.close().await?;
        let JournalConfig {
            allow_unsafe,
            retention_days,
            readers,
            ..
        } = config;
        Preflight {
            allow_unsafe,
            retention_days,
            readers,
        }
        .run(&mut link)
        .await?;
        if let Some(return_time) = return_time {
            migrations::breaking::spare_owner(&mut link, config.shard, return_time, waits_for)
                .await?;
        }
        migrations::run(&mut link).await?;
        link.close().await?;
        let reader = |connections| {
            let pool = Pool::new(&config.options, connections);
            Reader::new(pool, config.shard, retention_days)
        };
        let (reader, own_reader) = (reader(readers), reader(OWN_CONNECTIONS));
        let journal = Journal {
            options: config.options,
            shard: config.shard,
            retention_days,
            reader,
            own_reader,
            takeovers: Arc::new(Takeovers {
                claims: Mutex::new(Duty::Ownership.answer_timeout()),
                recoveries: Mutex::new(Duty::Recovery.answer_timeout()),
            }),
        };
        journal
            .maintenance()
            .at_start()
            .ensure_partitions(None)
            .await?;
        Ok(journal)
    }

    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// The connection that appends while `replica` owns the shard; one per owner.
    pub fn writer(&self, replica: &Replica) -> Writer {
        Writer::new(&self.options, replica.id)
    }

    /// The connection that renews the lease of `replica`.
    pub fn heartbeat(&self, replica: Replica, lease: Duration) -> Heartbeat {
        Heartbeat::new(&self.options, self.shard, replica, lease)
    }

    /// Makes days and drops old ones.
    pub fn maintenance(&self) -> Maintenance {
        Maintenance::new(&self.options, self.shard, self.retention_days)
    }

    /// Reads for handlers of RPCs.
    pub fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// Reads that the service needs itself, whatever callers read.
    pub fn own_reader(&self) -> Reader {
        self.own_reader.clone()
    }

    /// The register of sessions, for fencing.
    pub fn sessions(&self, replica: Replica) -> Sessions {
        Sessions::new(self.own_reader.clone(), replica)
    }

    /// Changes who owns the shard, by what `work` does on a connection of its own. What it waits
    /// for an answer grows with every one that does not come, until [`Self::claims_in_time`].
    pub(super) async fn claim<T>(
        &self,
        work: impl AsyncFnOnce(&mut BoundedConnection) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        let timeout = &self.takeovers.claims;
        self.within(timeout, Duty::Ownership, work).await
    }

    /// A claim was granted in time.
    pub(super) fn claims_in_time(&self) {
        locked(&self.takeovers.claims).note(true);
    }

    /// Reads what is unfinished, by what `work` does on a connection of its own.
    pub(super) async fn recovery<T>(
        &self,
        work: impl AsyncFnOnce(&mut BoundedConnection) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        let timeout = &self.takeovers.recoveries;
        let read = self.within(timeout, Duty::Recovery, work).await;
        if read.is_ok() {
            locked(timeout).note(true);
        }
        read
    }

    /// Does what nobody waits for, by what `work` does on a connection of its own. However often it
    /// gets no answer in time, claims and recoveries wait no longer for theirs.
    pub(super) async fn aside<T>(
        &self,
        work: impl AsyncFnOnce(&mut BoundedConnection) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        let mut link = BoundedConnection::open(&self.options, Duty::Reader).await?;
        let done = work(&mut link).await?;
        // What was done stays done however the connection ends.
        let _ = link.close().await;
        Ok(done)
    }

    async fn within<T>(
        &self,
        timeout: &Mutex<AnswerTimeout>,
        duty: Duty,
        work: impl AsyncFnOnce(&mut BoundedConnection) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        let limit = locked(timeout).limit();
        let done = async {
            let mut link = BoundedConnection::open_within(&self.options, duty, limit).await?;
            let done = work(&mut link).await?;
            // What was done stays done however the connection ends.
            let _ = link.close().await;
            Ok(done)
        };
        let done = done.await;
        if matches!(&done, Err(JournalError::Database(error)) if is_lapse(error)) {
            locked(timeout).note(false);
        }
        done
    }
}

fn locked(timeout: &Mutex<AnswerTimeout>) -> MutexGuard<'_, AnswerTimeout> {
    timeout.lock().unwrap_or_else(PoisonError::into_inner)
}
