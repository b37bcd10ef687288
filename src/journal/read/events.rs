//! Reads AsyncDone events for streams: a bounded number of them, which stay packed as in the
//! journal until each event is sent.

use crate::core::{Done, DoneNo, Handle};
use crate::journal::{JournalError, Reader, rows::completion::CompletionRow};

/// Rows read at once.
const MAX_ROWS: i64 = 64;

/// Consecutive events of one row, packed.
#[derive(Debug)]
pub struct Events(CompletionRow);

impl Events {
    pub fn first(&self) -> DoneNo {
        self.0.done_no(0)
    }

    pub fn last(&self) -> DoneNo {
        self.0.done_no(self.0.len() - 1)
    }

    /// The events after `after`, each of one task.
    pub fn after(
        &self,
        after: DoneNo,
    ) -> impl Iterator<Item = Result<(DoneNo, Done), JournalError>> {
        let skipped = (after.0 + 1 - self.first().0).max(0) as usize;
        (skipped..self.0.len()).map(|index| Ok((self.0.done_no(index), self.0.done(index)?)))
    }
}

/// The columns of a [`CompletionRow`] with `t.taken` events of the row `c` after the first
/// `s.skipped` ones. Arrays that are null stay null.
macro_rules! cut_columns {
    () => {
        "c.handle, c.first_done_no + s.skipped as first_done_no, t.taken as count,
        c.min_seq + s.skipped as min_seq, c.started_at, c.ended_at,
        c.seq[s.skipped + 1 : s.skipped + t.taken] as seq,
        c.task_order[s.skipped + 1 : s.skipped + t.taken] as task_order,
        c.outcome[s.skipped + 1 : s.skipped + t.taken] as outcome,
        c.attempt[s.skipped + 1 : s.skipped + t.taken] as attempt,
        c.started[s.skipped + 1 : s.skipped + t.taken] as started,
        c.ended[s.skipped + 1 : s.skipped + t.taken] as ended,
        c.slot[s.skipped + 1 : s.skipped + t.taken] as slot,
        c.backend_pid[s.skipped + 1 : s.skipped + t.taken] as backend_pid,
        c.rows_affected[s.skipped + 1 : s.skipped + t.taken] as rows_affected,
        c.truncated[s.skipped + 1 : s.skipped + t.taken] as truncated,
        c.retry_of[s.skipped + 1 : s.skipped + t.taken] as retry_of,
        p.error_ends, substr(c.errors, b.error + 1, p.error_ends[t.taken]) as errors,
        p.result_ends, substr(c.results, b.result + 1, p.result_ends[t.taken]) as results,
        p.diagnostics_ends,
        substr(c.diagnostics, b.diagnostics + 1, p.diagnostics_ends[t.taken]) as diagnostics"
    };
}

/// Bytes of a row `c` of `completion` in memory.
macro_rules! bytes {
    () => {
        "coalesce(octet_length(c.errors), 0) + coalesce(octet_length(c.results), 0)
        + coalesce(octet_length(c.diagnostics), 0)
        + c.count * 8 * num_nonnulls(c.seq, c.task_order, c.started, c.ended, c.rows_affected,
            c.retry_of)
        + c.count * 4 * num_nonnulls(c.attempt, c.slot, c.backend_pid, c.error_ends, c.result_ends,
            c.diagnostics_ends)
        + c.count * 2 * num_nonnulls(c.outcome, c.truncated)"
    };
}

/// Rows from `$3` on, each cut to the events that fit the budget `$5`.
const EVENTS: &str = concat!(
    "-- events
     select ",
    cut_columns!(),
    " from (
         select c.*, $5 - sum(c.bytes) over (order by c.first_done_no) + c.bytes as room
         from (
             select c.*, ",
    bytes!(),
    " as bytes
             from completion c
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
             limit $4
         ) c
     ) c
     cross join lateral (select greatest($3 - c.first_done_no, 0)::int4 as skipped) s
     cross join lateral (
         select coalesce(c.error_ends[s.skipped], 0) as error,
             coalesce(c.result_ends[s.skipped], 0) as result,
             coalesce(c.diagnostics_ends[s.skipped], 0) as diagnostics
     ) b
     cross join lateral (
         select count(*)::int4 as fitting,
             array_agg(coalesce(p.error, 0) - b.error order by p.place) as error_ends,
             array_agg(coalesce(p.result, 0) - b.result order by p.place) as result_ends,
             array_agg(coalesce(p.diagnostics, 0) - b.diagnostics order by p.place)
                 as diagnostics_ends
         from unnest(c.error_ends[s.skipped + 1 :], c.result_ends[s.skipped + 1 :],
                 c.diagnostics_ends[s.skipped + 1 :])
             with ordinality as p (error, result, diagnostics, place)
         where p.place = 1
             or coalesce(p.error, 0) - b.error + coalesce(p.result, 0) - b.result
                 + coalesce(p.diagnostics, 0) - b.diagnostics <= c.room
     ) p
     cross join lateral (select coalesce(nullif(p.fitting, 0), c.count - s.skipped) as taken) t
     where c.room > 0
     order by c.first_done_no"
);

impl Reader {
    /// Events after `after`, ascending and without a gap, until about `max_bytes` have been read;
    /// at least one. Ask again for more until none comes.
    ///
    /// A row holds the events of one batch, perhaps megabytes of results: only the errors and
    /// results of the wanted events are read.
    pub async fn events(
        &self,
        handle: Handle,
        after: DoneNo,
        max_bytes: usize,
    ) -> Result<Vec<Events>, JournalError> {
        let rows = self
            .read(|| {
                sqlx::query_as::<_, CompletionRow>(EVENTS)
                    .bind(self.shard.0)
                    .bind(handle.uuid())
                    .bind(after.0 + 1)
                    .bind(MAX_ROWS)
                    .bind(max_bytes.max(1) as i64)
                    .fetch_all(&self.pool)
            })
            .await?;
        let mut events: Vec<Events> = Vec::new();
        for row in rows.into_iter().map(Events) {
            if events
                .last()
                .is_some_and(|last| last.last().0 + 1 != row.first().0)
            {
                break;
            }
            events.push(row);
        }
        Ok(events)
    }
}
