//! Sessions on targets, registered before their first task, so that a later run of the server can show them dead before
//! it starts a lost task again.

use super::{JournalError, Reader, Replica, wire::Stamp};
use crate::core::Time;
use std::sync::Arc;
use uuid::Uuid;

/// One connection to a target. Pid and start together name a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The run of a server that opened it.
    pub replica: Uuid,
    /// On which target.
    pub target: Arc<str>,
    /// Its slot.
    pub slot: u32,
    /// Its backend.
    pub backend_pid: i32,
    /// When the backend began, by `pg_stat_activity`.
    pub backend_start: Time,
}

/// The register of sessions, as one run of a server uses it.
#[derive(Clone, Debug)]
pub struct Sessions {
    reader: Reader,
    replica: Replica,
}

impl Sessions {
    pub(super) fn new(reader: Reader, replica: Replica) -> Self {
        Sessions { reader, replica }
    }

    /// Registers a session of this run; it may run tasks when this has returned.
    pub async fn register(&self, target: &str, slot: u32, backend_pid: i32, backend_start: Time) -> Result<(), JournalError> {
        self.reader
            .read(|| {
                sqlx::query(
                    "-- register_session
                     insert into session (shard, replica, target, slot, backend_pid, backend_start)
                     values ($1, $2, $3, $4, $5, $6)
                     on conflict on constraint session_pkey do update
                     set slot = excluded.slot",
                )
                .bind(self.reader.shard.0)
                .bind(self.replica.id)
                .bind(target)
                .bind(slot as i32)
                .bind(backend_pid)
                .bind(Stamp(backend_start))
                .execute(&self.reader.pool)
            })
            .await?;
        Ok(())
    }

    /// Sessions of all other runs: each must be shown dead or terminated before what it may have run is started again.
    pub async fn of_dead(&self) -> Result<Vec<Session>, JournalError> {
        let rows: Vec<(Uuid, String, i32, i32, Stamp)> = self
            .reader
            .read(|| {
                sqlx::query_as(
                    "-- sessions_of_dead
                     select replica, target, slot, backend_pid, backend_start
                     from session
                     where shard = $1 and replica <> $2
                     order by target, backend_pid",
                )
                .bind(self.reader.shard.0)
                .bind(self.replica.id)
                .fetch_all(&self.reader.pool)
            })
            .await?;
        let session = |(replica, target, slot, backend_pid, start): (Uuid, String, i32, i32, Stamp)| Session {
            replica,
            target: target.into(),
            slot: slot as u32,
            backend_pid,
            backend_start: start.0,
        };
        Ok(rows.into_iter().map(session).collect())
    }

    /// Forgets a session that has ended, of whichever run.
    pub async fn forget(&self, target: &str, backend_pid: i32, backend_start: Time) -> Result<(), JournalError> {
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
