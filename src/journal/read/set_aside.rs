//! Which schedulers an owner could not read, for the owners after it.

use crate::{
    core::{Handle, ShardId},
    journal::{Journal, JournalError, bounded_connection::BoundedConnection},
};
use uuid::Uuid;

impl Journal {
    /// Notes what the recovery has left; returns what is left still.
    pub async fn note_set_aside(&self, handles: &[Handle]) -> Result<Vec<Handle>, JournalError> {
        let shard = self.shard();
        let handles: Vec<Uuid> = handles.iter().map(|handle| handle.uuid()).collect();
        let noted = self.aside(async |link| note(link, shard, handles).await);
        noted.await
    }
}

/// Lets later owners know which schedulers this one does not see. A row that somebody is about to
/// repair is left: it would keep everybody waiting. Returns those.
pub(super) async fn note(
    connection: &mut BoundedConnection,
    shard: ShardId,
    handles: Vec<Uuid>,
) -> Result<Vec<Handle>, JournalError> {
    if handles.is_empty() {
        return Ok(Vec::new());
    }
    let left: Vec<Uuid> = sqlx::query_scalar(
        "-- note_set_aside
         with unseen as materialized (
             select handle
             from scheduler
             where shard = $1 and handle = any($2) and not set_aside
             for no key update skip locked
         ),
         noted as (
             update scheduler r
             set set_aside = true
             from unseen u
             where r.shard = $1 and r.handle = u.handle
             returning r.handle
         )
         select handle
         from scheduler
         where shard = $1
             and handle = any($2)
             and not set_aside
             and handle not in (select handle from noted)",
    )
    .bind(shard.0)
    .bind(handles)
    .fetch_all(connection)
    .await?;
    Ok(left.into_iter().map(Handle::from_uuid).collect())
}
