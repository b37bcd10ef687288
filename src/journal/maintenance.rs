//! Maintenance, never on the writer's connection: partitions are made ahead and dropped when they
//! are no longer needed.
//!
//! Nothing that recovery, an unfinished task or the retention needs is ever dropped, whatever the
//! clock says (`calendar.rs`), and nothing is deleted row by row from a hot table. Every step may
//! fail, because of an open reader or another replica at the same work, and be tried again later.

mod audit_days;
pub(crate) mod batches;
pub(crate) mod calendar;
pub(crate) mod days;
pub(crate) mod expired_rows;
pub(crate) mod needed_rows;
mod old_jobs;
pub(crate) mod partition;

use super::{JournalError, bounded_connection::BoundedConnection, connection_limits::Duty};
use crate::core::ShardId;
use sqlx::postgres::PgConnectOptions;

/// Opens a connection for each piece of work.
#[derive(Clone, Debug)]
pub struct Maintenance {
    options: PgConnectOptions,
    shard: ShardId,
    retention_days: u32,
    duty: Duty,
}

impl Maintenance {
    pub(crate) fn new(options: &PgConnectOptions, shard: ShardId, retention_days: u32) -> Self {
        Maintenance {
            options: options.clone(),
            shard,
            retention_days,
            duty: Duty::Maintenance,
        }
    }

    /// The same, by whoever starts and waits for it.
    pub(super) fn at_start(self) -> Self {
        Maintenance {
            duty: Duty::Start,
            ..self
        }
    }

    async fn connect(&self) -> Result<BoundedConnection, JournalError> {
        Ok(BoundedConnection::open(&self.options, self.duty).await?)
    }
}
