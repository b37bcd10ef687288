//! Decodes a row of `completion`. A null array means the default for every event.

use crate::core::{Attempt, Done, DoneNo, Order, Outcome, Seq, TaskResult, Time};
use crate::journal::{JournalError, append::take_error, encoding::Stamp, rows::from_row};
use bytes::Bytes;
use std::sync::Arc;
use uuid::Uuid;

/// The columns of a [`CompletionRow`], of a table called `c`; `$6`: the rows of results are wanted.
macro_rules! completion_columns {
    () => {
        "c.handle, c.first_done_no, c.count, c.min_seq, c.started_at, c.ended_at, c.seq,
        c.task_order, c.outcome, c.attempt, c.started, c.ended, c.slot, c.backend_pid, c.error_ends, c.errors,
        c.rows_affected, c.result_ends, case when $6 then c.results end as results, c.truncated, c.diagnostics_ends, c.diagnostics,
        c.retry_of"
    };
}
pub(crate) use completion_columns;

/// Tasks of a narrow row of `completion` are at most this far apart, so that an index on where rows
/// end finds the row of a task; wide rows have an index of their own, which says the same number. A
/// literal, because the planner must see it in the text of the statement.
macro_rules! narrow_row {
    () => {
        "10000"
    };
}
pub(crate) use narrow_row;

/// A whole row.
#[derive(Debug)]
pub(crate) struct CompletionRow {
    handle: Uuid,
    first_done_no: i64,
    count: i32,
    min_seq: i64,
    started_at: Option<Stamp>,
    ended_at: Stamp,
    seq: Option<Vec<i64>>,
    task_order: Option<Vec<i64>>,
    outcome: Option<Vec<i16>>,
    attempt: Option<Vec<i32>>,
    started: Option<Vec<i64>>,
    ended: Option<Vec<i64>>,
    slot: Option<Vec<i32>>,
    backend_pid: Option<Vec<i32>>,
    error_ends: Option<Vec<i32>>,
    errors: Option<Vec<u8>>,
    rows_affected: Option<Vec<i64>>,
    result_ends: Option<Vec<i32>>,
    results: Option<Vec<u8>>,
    truncated: Option<Vec<i16>>,
    diagnostics_ends: Option<Vec<i32>>,
    diagnostics: Option<Vec<u8>>,
    retry_of: Option<Vec<i64>>,
}

from_row!(CompletionRow {
    handle,
    first_done_no,
    count,
    min_seq,
    started_at,
    ended_at,
    seq,
    task_order,
    outcome,
    attempt,
    started,
    ended,
    slot,
    backend_pid,
    error_ends,
    errors,
    rows_affected,
    result_ends,
    results,
    truncated,
    diagnostics_ends,
    diagnostics,
    retry_of
});

impl CompletionRow {
    /// Number of events.
    pub(crate) fn len(&self) -> usize {
        self.count as usize
    }

    /// Number of the event at `index` (from 0).
    pub(crate) fn done_no(&self, index: usize) -> DoneNo {
        DoneNo(self.first_done_no + index as i64)
    }

    /// Task of the event at `index`.
    pub(crate) fn seq(&self, index: usize) -> Seq {
        Seq(at(&self.seq, index).unwrap_or(self.min_seq + index as i64))
    }

    /// The event at `index`.
    pub(crate) fn done(&self, index: usize) -> Result<Done, JournalError> {
        let outcome = Outcome::from_number(at(&self.outcome, index).unwrap_or(1))
            .ok_or_else(|| self.corrupt("outcome"))?;
        let started = at(&self.started, index).map_or(self.started_at.map(|stamp| stamp.0), |us| {
            (us > 0).then_some(Time(us))
        });
        let error =
            item(&self.errors, &self.error_ends, index).map_err(|()| self.corrupt("errors"))?;
        let diagnostics = item(&self.diagnostics, &self.diagnostics_ends, index)
            .map_err(|()| self.corrupt("diagnostics"))?;
        Ok(Done {
            first: self.seq(index),
            count: 1,
            order: at(&self.task_order, index)
                .filter(|order| *order >= 0)
                .map(Order),
            retry_of: at(&self.retry_of, index).filter(|task| *task > 0).map(Seq),
            outcome,
            attempt: Attempt(at(&self.attempt, index).unwrap_or(1)),
            started,
            ended: at(&self.ended, index).map_or(self.ended_at.0, Time),
            slot: at(&self.slot, index).unwrap_or(0) as u32,
            backend_pid: at(&self.backend_pid, index).unwrap_or(0),
            diagnostics: diagnostics.map(Bytes::copy_from_slice).unwrap_or_default(),
            error: error
                .map(|bytes| take_error(bytes).ok_or_else(|| self.corrupt("error")))
                .transpose()?
                .map(Arc::new),
            result: self.result(index)?.map(Arc::new),
        })
    }

    /// The event at `index` has brought rows, which were not asked for.
    pub(crate) fn lacks_rows(&self, index: usize) -> bool {
        let end = |index| at(&self.result_ends, index).unwrap_or_default();
        let before = index.checked_sub(1).map_or(0, end);
        self.results.is_none() && end(index) > before
    }

    fn result(&self, index: usize) -> Result<Option<TaskResult>, JournalError> {
        let rows =
            item(&self.results, &self.result_ends, index).map_err(|()| self.corrupt("results"))?;
        let affected = at(&self.rows_affected, index).filter(|rows| *rows >= 0);
        Ok(affected.map(|rows_affected| TaskResult {
            rows_affected,
            rows_json: rows.map(Bytes::copy_from_slice).unwrap_or_default(),
            truncated: at(&self.truncated, index) == Some(1),
        }))
    }

    fn corrupt(&self, column: &str) -> JournalError {
        JournalError::corrupt(format!(
            "completion {}/{}: {column}",
            self.handle, self.first_done_no
        ))
    }
}

/// The value of the event at `index`; `None`: the default.
pub(crate) fn at<T: Copy>(values: &Option<Vec<T>>, index: usize) -> Option<T> {
    values
        .as_ref()
        .and_then(|values| values.get(index))
        .copied()
}

/// The item at `index` of a packed value; `None` when it is empty.
pub(crate) fn item<'a>(
    packed: &'a Option<Vec<u8>>,
    ends: &Option<Vec<i32>>,
    index: usize,
) -> Result<Option<&'a [u8]>, ()> {
    let (Some(packed), Some(ends)) = (packed, ends) else {
        return Ok(None);
    };
    let start = if index == 0 {
        0
    } else {
        *ends.get(index - 1).ok_or(())?
    };
    let end = *ends.get(index).ok_or(())?;
    let item = packed.get(start as usize..end as usize).ok_or(())?;
    Ok((!item.is_empty()).then_some(item))
}
