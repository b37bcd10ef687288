//! Which schedulers an owner could not read, for the owners after it.

use crate::{
    core::ShardId,
    journal::{JournalError, bounded_connection::BoundedConnection},
};
use uuid::Uuid;

/// Lets later owners know which schedulers this one does not see. A row that somebody is about to
/// repair is passed over: it would keep everybody waiting.
pub(super) async fn note(
    connection: &mut BoundedConnection,
    shard: ShardId,
    handles: Vec<Uuid>,
) -> Result<(), JournalError> {
    if handles.is_empty() {
        return Ok(());
    }
    let noted = sqlx::query(
        "-- note_set_aside
         with unseen as materialized (
             select handle
             from scheduler
             where shard = $1 and handle = any($2) and not set_aside
             for no key update skip locked
         )
         update scheduler r
         set set_aside = true
         from unseen u
         where r.shard = $1 and r.handle = u.handle",
    );
    noted
        .bind(shard.0)
        .bind(handles)
        .execute(connection)
        .await?;
    Ok(())
}
