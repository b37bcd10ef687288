//! Reads which targets are paused.

use crate::core::{ShardId, TargetPause};
use crate::journal::{
    JournalError, bounded_connection::BoundedConnection, rows::target_pause::TargetPauseRow,
};

/// The pauses in force.
pub(super) async fn target_pauses(
    connection: &mut BoundedConnection,
    shard: ShardId,
) -> Result<Vec<TargetPause>, JournalError> {
    let rows: Vec<TargetPauseRow> = sqlx::query_as(
        "-- target_pauses
         select distinct on (p.target) p.target, p.mode, p.changed_at, p.changed_by, p.reason
         from target_pause p
         where p.shard = $1
         order by p.target, p.change_no desc",
    )
    .bind(shard.0)
    .fetch_all(connection)
    .await?;
    Ok(rows.iter().filter_map(TargetPauseRow::pause).collect())
}
