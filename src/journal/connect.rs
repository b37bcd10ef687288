//! The door: opens the coordination database, brings its schema up to date, and hands out a connection for each duty.

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
    /// The coordination database.
    pub options: PgConnectOptions,
    /// Which shard.
    pub shard: ShardId,
    /// Accept settings that lose commits in a crash of the server. For tests.
    pub allow_unsafe: bool,
    /// Connections of the reader's pool.
    pub readers: u32,
    /// Days for which events and the log are kept.
    pub retention_days: u32,
}

/// The coordination database, checked and of the present schema.
#[derive(Clone, Debug)]
pub struct Journal {
    options: PgConnectOptions,
    shard: ShardId,
    retention_days: u32,
    reader: Reader,
}

/// What a connection is for: decides its limits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Duty {
    Writer,
    Heartbeat,
    Reader,
    Maintenance,
    Recovery,
}

impl Journal {
    /// Connects, checks, migrates, and makes the days to come.
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
        journal.upkeep().ensure_partitions().await?;
        Ok(journal)
    }

    /// The shard this journal is of.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// The connection that appends. One per owner of the shard.
    pub fn writer(&self) -> Writer {
        Writer::new(&self.options)
    }

    /// The connection that renews the lease of `replica`.
    pub fn heart(&self, replica: Replica, lease: Duration) -> Heartbeat {
        Heartbeat::new(&self.options, self.shard, replica, lease)
    }

    /// Makes days, drops old ones.
    pub fn upkeep(&self) -> Maintenance {
        Maintenance::new(&self.options, self.shard, self.retention_days)
    }

    /// Reads for handlers of RPCs.
    pub fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// Sessions on targets, for the executor's fence.
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
            Duty::Heartbeat => ("rallypoint journal heart", "10s"),
            Duty::Reader => ("rallypoint journal reader", "30s"),
            Duty::Maintenance => ("rallypoint journal upkeep", "5min"),
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
                // No word about tables that are there already.
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
            // lookups by key, however many rows a young table is thought to have
            Duty::Recovery => options.options([
                ("jit", "off"),
                ("enable_hashjoin", "off"),
                ("enable_mergejoin", "off"),
            ]),
            // every ordered read follows an index; a sort would first read all of a handle
            Duty::Reader => options.options([("jit", "off"), ("enable_sort", "off")]),
            Duty::Heartbeat => options.options([("jit", "off")]),
            // lookups by key in tables that may never have been analyzed; it never waits long for a lock
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
