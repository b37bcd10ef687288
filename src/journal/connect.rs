//! Opens the coordination database, brings its schema up to date, and makes a connection for each
//! duty.
//!
//! The limits of every connection stand here: no statement of the journal runs without a timeout.

use super::{
    Heartbeat, JournalError, Maintenance, Preflight, Reader, Replica, Sessions, Writer, migrations,
};
use crate::core::ShardId;
use sqlx::{
    ConnectOptions, Connection, PgConnection,
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

/// What a connection is for; decides its limits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Duty {
    Writer,
    Heartbeat,
    Reader,
    Maintenance,
    Recovery,
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

impl Duty {
    /// Options of a connection for this duty.
    pub(super) fn options(self, options: &PgConnectOptions) -> PgConnectOptions {
        let (name, statement_timeout) = match self {
            Duty::Writer => ("rallypoint journal writer", "30s"),
            Duty::Heartbeat => ("rallypoint journal heartbeat", "10s"),
            Duty::Reader => ("rallypoint journal reader", "30s"),
            Duty::Maintenance => ("rallypoint journal maintenance", "5min"),
            Duty::Recovery => ("rallypoint journal recovery", "10min"),
        };
        let options = options
            .clone()
            .application_name(name)
            .disable_statement_logging()
            .options([
                ("statement_timeout", statement_timeout),
                ("idle_in_transaction_session_timeout", "15s"),
                ("synchronous_commit", "on"),
                // Keeps notices about tables that exist already out of the log.
                ("client_min_messages", "warning"),
                ("client_connection_check_interval", "5s"),
                ("tcp_keepalives_idle", "10"),
                ("tcp_keepalives_interval", "5"),
                ("tcp_keepalives_count", "3"),
                ("timezone", "UTC"),
            ]);
        match self {
            Duty::Writer => {
                options.options([("plan_cache_mode", "force_generic_plan"), ("jit", "off")])
            }
            // Lookups by key, however wrong the statistics of a young table are.
            Duty::Recovery => options.options([
                ("jit", "off"),
                ("enable_hashjoin", "off"),
                ("enable_mergejoin", "off"),
            ]),
            // Every ordered read follows an index; a sort would read all rows of a handle first.
            Duty::Reader => options.options([("jit", "off"), ("enable_sort", "off")]),
            Duty::Heartbeat => options.options([("jit", "off")]),
            // Lookups by key in tables that may never have been analyzed; short waits for locks.
            Duty::Maintenance => options.options([
                ("jit", "off"),
                ("enable_hashjoin", "off"),
                ("enable_mergejoin", "off"),
                ("enable_seqscan", "off"),
                ("lock_timeout", "2s"),
            ]),
        }
    }
}
