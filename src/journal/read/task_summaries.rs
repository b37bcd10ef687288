//! Reads who submitted tasks, and how their statements begin: what is shown of a task wherever
//! there is no room for all of it.

use crate::core::{Handle, Seq, TaskId};
use crate::journal::{JournalError, Reader, rows::from_row};
use std::collections::HashMap;
use uuid::Uuid;

/// Characters of a statement that are shown.
const PREVIEW_CHARS: usize = 200;
/// No character has more bytes.
const CHAR_BYTES: usize = 4;

/// What is shown of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskSummary {
    /// The caller, as it named itself; `None`: an earlier version accepted the task.
    pub submitted_by: Option<String>,
    /// The first 200 characters, and `…` where it goes on; empty: the task is none of SQL.
    pub statement_preview: String,
}

struct Row {
    handle: Uuid,
    seq: i64,
    caller: Option<Vec<u8>>,
    body: Option<Vec<u8>>,
}

from_row!(Row {
    handle,
    seq,
    caller,
    body
});

/// Tasks of one row up to which each has the row unpacked as far as its statement goes; with more
/// the row is unpacked once, as a whole.
const FEW_OF_ROW: i64 = 4;

const SUMMARIES: &str = "-- task_summaries
with wanted as materialized (
    select w.handle, w.seq, (
        select max(b.first_seq)
        from submission b
        where b.shard = $1 and b.handle = w.handle and b.first_seq <= w.seq
    ) as first_seq
    from unnest($2::uuid[], $3::int8[]) as w (handle, seq)
), rows as materialized (
    select w.handle, w.first_seq, array_agg(w.seq) as seqs
    from wanted w
    where w.first_seq is not null
    group by w.handle, w.first_seq
)
select r.handle, t.seq, s.caller,
    case coalesce(s.kind[i.at], 1) when 1 then
        substring(s.bodies from b.start + 1 for least(s.body_ends[i.at] - b.start, $4))
    end as body
from rows r
cross join lateral (
    select s.count, s.caller, s.kind, s.body_ends,
        case when cardinality(r.seqs) > $5 then s.bodies || ''::bytea else s.bodies end as bodies
    from submission s
    where s.shard = $1 and s.handle = r.handle and s.first_seq = r.first_seq
    offset 0
) s
cross join lateral unnest(r.seqs) as t (seq)
cross join lateral (select (t.seq - r.first_seq + 1)::int4 as at) i
cross join lateral (select coalesce(s.body_ends[i.at - 1], 0) as start) b
where i.at <= s.count";

impl Reader {
    /// What is shown of these tasks; those without a row are left out.
    pub async fn summaries(
        &self,
        tasks: &[TaskId],
    ) -> Result<HashMap<TaskId, TaskSummary>, JournalError> {
        if tasks.is_empty() {
            return Ok(HashMap::new());
        }
        let handles: Vec<Uuid> = tasks.iter().map(|task| task.handle.uuid()).collect();
        let seqs: Vec<i64> = tasks.iter().map(|task| task.seq.0).collect();
        let rows: Vec<Row> = self
            .read(|| {
                sqlx::query_as(SUMMARIES)
                    .bind(self.shard.0)
                    .bind(&handles)
                    .bind(&seqs)
                    .bind(((PREVIEW_CHARS + 1) * CHAR_BYTES) as i32)
                    .bind(FEW_OF_ROW)
                    .fetch_all(&self.pool)
            })
            .await?;
        Ok(rows.into_iter().map(Row::summary).collect())
    }
}

impl Row {
    fn summary(self) -> (TaskId, TaskSummary) {
        let task = TaskId {
            handle: Handle::from_uuid(self.handle),
            seq: Seq(self.seq),
        };
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        let preview = |bytes| beginning(&text(bytes));
        let summary = TaskSummary {
            submitted_by: self.caller.as_ref().map(text),
            statement_preview: self.body.as_ref().map(preview).unwrap_or_default(),
        };
        (task, summary)
    }
}

/// The characters that are shown of a statement, and whether there are more.
fn beginning(statement: &str) -> String {
    match statement.char_indices().nth(PREVIEW_CHARS) {
        Some((end, _)) => format!("{}…", &statement[..end]),
        None => statement.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_that_goes_on_says_so() {
        let just = "é".repeat(PREVIEW_CHARS);
        assert_eq!(beginning(&just), just);
        assert_eq!(beginning(&format!("{just}x")), format!("{just}…"));
    }
}
