//! Opens the coordination database, brings its schema up to date, and hands out what each duty
//! needs.

use super::{
    Heartbeat, JournalError, Maintenance, Preflight, Reader, Replica, Sessions, Writer, duty::Duty,
    migrations,
};
use crate::core::ShardId;
use sqlx::{
    Connection, PgConnection,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use std::time::Duration;

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
}

impl Journal {
    /// Connects, checks the server, migrates, and makes the next days.
    pub async fn open(config: JournalConfig) -> Result<Self, JournalError> {
        let mut connection =
            PgConnection::connect_with(&Duty::Maintenance.options(&config.options)).await?;
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
        .run(&mut connection)
        .await?;
        migrations::run(&mut connection).await?;
        connection.close().await?;
        let pool = PgPoolOptions::new()
            .max_connections(config.readers.max(1))
            .test_before_acquire(false)
            .acquire_timeout(Duration::from_secs(5))
            .max_lifetime(Duration::from_secs(1800))
            .connect_lazy_with(Duty::Reader.options(&config.options));
        let reader = Reader::new(pool, config.shard, config.retention_days);
        let journal = Journal {
            options: config.options,
            shard: config.shard,
            retention_days: config.retention_days,
            reader,
        };
        journal.maintenance().ensure_partitions().await?;
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

    /// A connection for a long read or a take-over; the caller closes it.
    pub(super) async fn connect(&self) -> Result<PgConnection, JournalError> {
        Ok(PgConnection::connect_with(&Duty::Recovery.options(&self.options)).await?)
    }
}
