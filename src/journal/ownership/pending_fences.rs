//! Sessions whose end is awaited and cannot be shown: what is in the way, and the word of an
//! operator that they have ended.
//!
//! Invariant: a session is declared dead only while its end is awaited, and the row that says who
//! did so and why stays. Only such a row says that it is dead; that there is none says nothing.

use crate::core::Time;
use crate::journal::{JournalError, Reader, Session, Sessions, encoding::Stamp, rows::from_row};

/// Bytes of a reason that are kept.
const MAX_WHY_BYTES: usize = 1_000;

/// A session whose end is awaited before what it ran may start again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingFence {
    pub target: String,
    /// Name of the replica that opened it, or the id of its run when the name is forgotten.
    pub replica: String,
    pub backend_pid: i32,
    pub since: Time,
    /// What is in the way.
    pub why: String,
}

struct Row {
    target: String,
    replica: String,
    backend_pid: i32,
    since: Stamp,
    why: String,
}

from_row!(Row {
    target,
    replica,
    backend_pid,
    since,
    why
});

impl Sessions {
    /// Notes that the end of a session is awaited, and why it cannot be shown. Returns whether an
    /// operator has declared it dead; `None`: there is no row that says anything of it. That proves
    /// nothing: the database may have been set back.
    pub async fn note_pending(
        &self,
        target: &str,
        backend_pid: i32,
        backend_start: Time,
        why: &str,
    ) -> Result<Option<bool>, JournalError> {
        let why: String = why.chars().filter(|one| *one != '\0').collect();
        let why = &why[..why.floor_char_boundary(MAX_WHY_BYTES)];
        self.reader
            .read(|| {
                sqlx::query_scalar(
                    "-- note_pending_fence
                     with noted as (
                         update session
                         set pending_since = least(pending_since, now()), pending_why = $5
                         where shard = $1
                             and target = $2
                             and backend_pid = $3
                             and backend_start = $4
                             and pending_why is distinct from $5
                     )
                     select bool_or(known.dead)
                     from (
                         select declared_dead as dead
                         from session
                         where shard = $1
                             and target = $2
                             and backend_pid = $3
                             and backend_start = $4
                         union all
                         select true
                         from declared_dead
                         where shard = $1
                             and target = $2
                             and backend_pid = $3
                             and backend_start = $4
                     ) known",
                )
                .bind(self.reader.shard.0)
                .bind(target)
                .bind(backend_pid)
                .bind(Stamp(backend_start))
                .bind(why)
                .fetch_one(&self.reader.pool)
            })
            .await
    }

    /// Enters a session again that has lost its row and whose end is awaited, as the session of the
    /// executor that opened it, fenced or not: the next owner has to find it there, and it stays
    /// when this run leaves.
    pub async fn enter_again(&self, session: &Session) -> Result<(), JournalError> {
        let server = session.postmaster.as_ref();
        self.reader
            .read(|| {
                sqlx::query(
                    "-- enter_session_again
                     insert into session (shard, replica, incarnation, target, slot, backend_pid,
                         backend_start, system_identifier, server_address, server_port,
                         postmaster_start)
                     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
                     on conflict on constraint session_pkey do nothing",
                )
                .bind(self.reader.shard.0)
                .bind(session.replica)
                .bind(session.incarnation)
                .bind(&*session.target)
                .bind(session.slot as i32)
                .bind(session.backend_pid)
                .bind(Stamp(session.backend_start))
                .bind(server.map(|one| one.system))
                .bind(server.and_then(|one| one.address.as_deref()))
                .bind(server.map(|one| one.port))
                .bind(server.map(|one| Stamp(one.started)))
                .execute(&self.reader.pool)
            })
            .await?;
        Ok(())
    }
}

impl Reader {
    /// The sessions whose end is awaited, those that wait longest first.
    pub(crate) async fn pending_fences(&self) -> Result<Vec<PendingFence>, JournalError> {
        let rows: Vec<Row> = self
            .read(|| {
                sqlx::query_as(
                    "-- pending_fences
                     select s.target, coalesce(r.name, s.replica::text) as replica, s.backend_pid,
                         s.pending_since as since, coalesce(s.pending_why, '') as why
                     from session s
                     left join replica r on r.shard = s.shard and r.replica = s.replica
                     where s.shard = $1 and s.pending_since is not null and not s.declared_dead
                     order by s.pending_since, s.target, s.backend_pid",
                )
                .bind(self.shard.0)
                .fetch_all(&self.pool)
            })
            .await?;
        let pending = |row: Row| PendingFence {
            target: row.target,
            replica: row.replica,
            backend_pid: row.backend_pid,
            since: row.since.0,
            why: row.why,
        };
        Ok(rows.into_iter().map(pending).collect())
    }

    /// Takes an operator's word that the sessions whose end is awaited on a target have ended,
    /// those of one replica or of all (empty). Returns how many there were.
    pub async fn declare_dead(
        &self,
        target: &str,
        replica: Option<&str>,
        declared_by: &str,
        reason: &str,
    ) -> Result<u64, JournalError> {
        let done = self
            .read(|| {
                sqlx::query(
                    "-- declare_dead
                     with dead as (
                         update session s
                         set declared_dead = true
                         where s.shard = $1
                             and s.target = $2
                             and s.pending_since is not null
                             and not s.declared_dead
                             and ($3 is null or s.replica::text = $3 or exists (
                                 select
                                 from replica r
                                 where r.shard = s.shard and r.replica = s.replica and r.name = $3
                             ))
                         returning s.shard, s.replica, s.target, s.backend_pid, s.backend_start,
                             s.server_address, s.server_port, s.pending_since, s.pending_why
                     )
                     insert into declared_dead (shard, replica, replica_name, target, backend_pid,
                         backend_start, server_address, server_port, pending_since, pending_why,
                         declared_at, declared_by, reason)
                     select d.shard, d.replica, r.name, d.target, d.backend_pid, d.backend_start,
                         d.server_address, d.server_port, d.pending_since, d.pending_why, now(),
                         $4, $5
                     from dead d
                     left join replica r on r.shard = d.shard and r.replica = d.replica",
                )
                .bind(self.shard.0)
                .bind(target)
                .bind(replica)
                .bind(declared_by)
                .bind(reason)
                .execute(&self.pool)
            })
            .await?;
        Ok(done.rows_affected())
    }
}
