//! Reads AsyncDone events for streams.

use super::{
    JournalError, Reader,
    completion_row::{CompletionRow, completion_columns},
};
use crate::core::{CompletionRecord, DoneNo, Handle};

/// Rows read at once for events: each holds at least one.
const ROWS: usize = 64;

impl Reader {
    /// Events after `after`, ascending and without a gap, at most `max_events`; each `Done` is one task. Fewer than asked
    /// for does not mean the end: ask again until none comes.
    pub async fn events(&self, handle: Handle, after: DoneNo, max_events: usize) -> Result<Vec<CompletionRecord>, JournalError> {
        let rows = self
            .read(|| {
                sqlx::query_as::<_, CompletionRow>(concat!(
                    "-- events
                     select ",
                    completion_columns!(),
                    " from completion c
                     where c.shard = $1
                         and c.handle = $2
                         and c.first_done_no >= coalesce((
                             select first_done_no
                             from completion
                             where shard = $1 and handle = $2 and first_done_no <= $3
                             order by first_done_no desc
                             limit 1
                         ), 1)
                         and c.first_done_no + c.count > $3
                     order by c.first_done_no
                     limit $4"
                ))
                .bind(self.shard.0)
                .bind(handle.uuid())
                .bind(after.0 + 1)
                .bind(max_events.min(ROWS) as i64)
                .fetch_all(&self.pool)
            })
            .await?;
        let mut records: Vec<CompletionRecord> = Vec::new();
        let mut left = max_events;
        for row in rows {
            let skipped = (after.0 + 1 - row.done_no(0).0).max(0) as usize;
            if left == 0 || records.last().is_some_and(|last| last.last_done_no().0 + 1 != row.done_no(skipped).0) {
                break;
            }
            let record = row.record(skipped, left)?;
            left -= record.done.len();
            records.push(record);
        }
        Ok(records)
    }
}
