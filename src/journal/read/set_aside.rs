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
    let passed_over: i64 = sqlx::query_scalar(
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
         select count(*) - (select count(*) from noted)
         from scheduler
         where shard = $1 and handle = any($2) and not set_aside",
    )
    .bind(shard.0)
    .bind(handles)
    .fetch_one(connection)
    .await?;
    if passed_over > 0 {
        tracing::warn!(
            schedulers = passed_over,
            "rows of schedulers that make no sense to this version are locked by somebody: an \
             owner that can read them again does not know that they were set aside, and may start \
             a task twice that must start once"
        );
    }
    Ok(())
}
