//! Opens the coordination database, brings its schema up to date, and hands out what each duty
//! needs.

use super::{
    Heartbeat, JournalError, Maintenance, Preflight, Reader, Replica, Sessions, Writer,
    connection_limits::{AnswerTimeout, Duty},
    link::Link,
    migrations,
    pool::Pool,
    preflight::refuse_shared_sessions,
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
    /// Connections of the reader's pool.
    pub readers: u32,
    /// Days for which events and the log are retained.
    pub retention_days: u32,
}

/// The coordination database, checked and with the current schema.
#[derive(Clone, Debug)]
pub struct Journal {
    options: PgConnectOptions,
    shard: ShardId,
    retention_days: u32,
    reader: Reader,
    /// Of recoveries: one that takes longer than expected is given more time by the next one.
    timeout: Arc<Mutex<AnswerTimeout>>,
}

impl Journal {
    /// Connects, checks the server, migrates, and makes the next days.
    pub async fn open(config: JournalConfig) -> Result<Self, JournalError> {
        let mut link = Link::open(&config.options, Duty::Maintenance).await?;
        let mut other = Link::open(&config.options, Duty::Maintenance).await?;
        refuse_shared_sessions(&mut link, &mut other).await?;
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
        migrations::run(&mut link).await?;
        link.close().await?;
        let pool = Pool::new(&config.options, config.readers);
        let reader = Reader::new(pool, config.shard, config.retention_days);
        let journal = Journal {
            options: config.options,
            shard: config.shard,
            retention_days: config.retention_days,
            reader,
            timeout: Arc::new(Mutex::new(Duty::Recovery.answer_timeout())),
        };
        journal.maintenance().ensure_partitions(None).await?;
        Ok(journal)
    }

    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// The connection that appends; one per owner of the shard.
    pub fn writer(&self) -> Writer {
        Writer::new(&self.options)
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

    /// The register of sessions, for fencing.
    pub fn sessions(&self, replica: Replica) -> Sessions {
        Sessions::new(self.reader.clone(), replica)
    }

    /// A connection for a duty of the owner; the caller closes it.
    pub(super) async fn connect(&self, duty: Duty) -> Result<Link, JournalError> {
        Ok(Link::open(&self.options, duty).await?)
    }

    /// How long a recovery waits for each answer.
    pub(super) fn recovery_timeout(&self) -> MutexGuard<'_, AnswerTimeout> {
        self.timeout.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
