//! Decodes how the events of a row of `completion` ended, without what they brought.

use super::{
    completion::{at, item},
    from_row,
};
use crate::core::{DoneNo, Order, Outcome, Seq, TaskFilter, Time};
use crate::journal::{JournalError, append::take_error, encoding::Stamp};

/// The columns of an [`EndsRow`], of a table called `c`; `$4`: the errors are wanted.
macro_rules! ends_columns {
    () => {
        "c.first_done_no, c.count, c.min_seq, c.ended_at, c.seq, c.task_order, c.outcome, c.ended,
        c.error_ends, case when $4 then c.errors end as errors"
    };
}
pub(crate) use ends_columns;

/// How the events of a row ended.
#[derive(Debug)]
pub(crate) struct EndsRow {
    first_done_no: i64,
    count: i32,
    min_seq: i64,
    ended_at: Stamp,
    seq: Option<Vec<i64>>,
    task_order: Option<Vec<i64>>,
    outcome: Option<Vec<i16>>,
    ended: Option<Vec<i64>>,
    error_ends: Option<Vec<i32>>,
    errors: Option<Vec<u8>>,
}

from_row!(EndsRow {
    first_done_no,
    count,
    min_seq,
    ended_at,
    seq,
    task_order,
    outcome,
    ended,
    error_ends,
    errors
});

impl EndsRow {
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

    /// The order of that task.
    pub(crate) fn order(&self, index: usize) -> Option<Order> {
        let order = at(&self.task_order, index).filter(|order| *order >= 0);
        order.map(Order)
    }

    /// Its outcome.
    pub(crate) fn outcome(&self, index: usize) -> Result<Outcome, JournalError> {
        let outcome = Outcome::from_number(at(&self.outcome, index).unwrap_or(1));
        outcome.ok_or_else(|| self.corrupt("outcome"))
    }

    /// Whether it has ended, by order, outcome, time and error code, as the filter asks.
    pub(crate) fn admits(&self, index: usize, filter: &TaskFilter) -> Result<bool, JournalError> {
        let ended = at(&self.ended, index).map_or(self.ended_at.0, Time);
        let outcome = self.outcome(index)?;
        Ok(
            (filter.order.is_none() || filter.order == self.order(index))
                && filter.ended.contains(ended)
                && (filter.outcomes.is_empty() || filter.outcomes.contains(&outcome))
                && (filter.error_codes.is_empty() || self.has_code(index, &filter.error_codes)?),
        )
    }

    fn has_code(&self, index: usize, codes: &[String]) -> Result<bool, JournalError> {
        let error = item(&self.errors, &self.error_ends, index);
        let error = error.map_err(|()| self.corrupt("errors"))?;
        let error = error.and_then(take_error);
        Ok(error.is_some_and(|error| codes.contains(&error.code)))
    }

    fn corrupt(&self, column: &str) -> JournalError {
        JournalError::corrupt(format!("completion {}: {column}", self.first_done_no))
    }
}
