//! Decodes a row of `submission`. A null array means the default for every task.

use crate::core::{
    DoneNo, Order, RecoveredRequest, RecoveredRun, RecoveredScheduler, Request, RetryOf, Seq, Spec,
    Time, blocks,
};
use crate::journal::{JournalError, encoding::Stamp, rows::from_row};
use std::{collections::HashMap, sync::Arc};
use uuid::Uuid;

/// The columns of a [`SubmissionRow`], of a table called `s`.
macro_rules! submission_columns {
    () => {
        "s.handle, s.first_seq, s.count, s.submitted_at, s.asked_order, s.effective_order, s.spec,
        s.specs, s.call_counts, s.call_times, s.request_ids, s.request_hashes, s.done_nos,
        s.retry_of, s.retried_failure"
    };
}
pub(crate) use submission_columns;

/// A row without bodies.
#[derive(Debug)]
pub(crate) struct SubmissionRow {
    pub handle: Uuid,
    pub first_seq: i64,
    pub count: i32,
    submitted_at: Stamp,
    asked_order: Option<Vec<i64>>,
    effective_order: Option<Vec<i64>>,
    spec: Option<Vec<i32>>,
    specs: Vec<u8>,
    call_counts: Option<Vec<i32>>,
    call_times: Option<Vec<i64>>,
    request_ids: Option<Vec<Uuid>>,
    request_hashes: Option<Vec<i64>>,
    done_nos: Option<Vec<i64>>,
    retry_of: Option<Vec<i64>>,
    retried_failure: Option<Vec<i64>>,
    /// Selected only for [`SubmissionRow::runs`].
    body_ends: Option<Vec<i32>>,
    params_ends: Option<Vec<i32>>,
}

from_row!(SubmissionRow {
    handle, first_seq, count, submitted_at, asked_order, effective_order, spec, specs,
    call_counts, call_times, request_ids, request_hashes, done_nos, retry_of,
    retried_failure
} else default { body_ends, params_ends });

/// One call of a row: its number and first task (both from 0), the number of its tasks, and its
/// time.
struct Call {
    index: usize,
    offset: usize,
    count: usize,
    at: Time,
}

/// Parsed dictionaries: most rows, even of different schedulers, have the same one.
#[derive(Default)]
pub(crate) struct Specs(HashMap<Vec<u8>, Arc<[Arc<Spec>]>>);

impl Specs {
    /// The dictionary written as `json`.
    fn parse(&mut self, json: &[u8]) -> Result<Arc<[Arc<Spec>]>, JournalError> {
        if let Some(known) = self.0.get(json) {
            return Ok(known.clone());
        }
        let parsed: Vec<Arc<Spec>> = serde_json::from_slice(json)
            .map_err(|error| JournalError::corrupt(format!("specs: {error}")))?;
        let parsed: Arc<[Arc<Spec>]> = parsed.into();
        self.0.insert(json.to_vec(), parsed.clone());
        Ok(parsed)
    }
}

impl SubmissionRow {
    /// Adds the tasks to what is recovered of their scheduler.
    pub(crate) fn add_to(
        &self,
        recovered: &mut RecoveredScheduler,
        specs: &mut Specs,
    ) -> Result<(), JournalError> {
        recovered.runs.extend(self.runs(specs)?);
        recovered.copies.extend(self.copies());
        Ok(())
    }

    /// The tasks as runs of equal order, spec and time.
    fn runs(&self, specs: &mut Specs) -> Result<Vec<RecoveredRun>, JournalError> {
        let dictionary = specs.parse(&self.specs)?;
        let mut runs: Vec<RecoveredRun> = Vec::new();
        for call in self.calls()? {
            let blocks = self.blocks(&call);
            for index in call.offset..call.offset + call.count {
                let (order, spec) = (self.effective(index), self.spec(index, &dictionary)?);
                match runs.last_mut() {
                    Some(last)
                        if last.order == order
                            && last.submitted_at == call.at
                            && last.blocks == blocks
                            && Arc::ptr_eq(&last.spec, spec) =>
                    {
                        last.count += 1
                    }
                    _ => runs.push(RecoveredRun {
                        first: Seq(self.first_seq + index as i64),
                        count: 1,
                        order,
                        spec: spec.clone(),
                        submitted_at: call.at,
                        blocks,
                    }),
                }
            }
        }
        Ok(runs)
    }

    /// Blocks that each task of a call uses of the quota of bytes.
    fn blocks(&self, call: &Call) -> u32 {
        let bytes = |ends: &Option<Vec<i32>>| {
            let end = |tasks: usize| {
                ends.as_ref()
                    .and_then(|ends| ends.get(tasks.checked_sub(1)?).copied())
                    .unwrap_or(0)
            };
            (end(call.offset + call.count) - end(call.offset)).max(0) as usize
        };
        blocks(
            bytes(&self.body_ends) + bytes(&self.params_ends),
            call.count,
        )
    }

    /// The calls that may be repeated, accepted since `since`.
    pub(crate) fn requests(&self, since: Time) -> Result<Vec<RecoveredRequest>, JournalError> {
        let (Some(ids), Some(hashes), Some(done_nos)) =
            (&self.request_ids, &self.request_hashes, &self.done_nos)
        else {
            return Ok(Vec::new());
        };
        let requests = self
            .calls()?
            .into_iter()
            .filter(|call| call.at >= since)
            .filter_map(|call| {
                let (id, hash, done_no) = (
                    *ids.get(call.index)?,
                    *hashes.get(call.index)?,
                    *done_nos.get(call.index)?,
                );
                (!id.is_nil()).then(|| RecoveredRequest {
                    request: Request { id, hash },
                    first_seq: Seq(self.first_seq + call.offset as i64),
                    count: call.count as u32,
                    done_no: DoneNo(done_no),
                    at: call.at,
                })
            });
        Ok(requests.collect())
    }

    /// The task that the one at `index` is a copy of, if it is one.
    pub(crate) fn retry_of(&self, index: usize) -> Option<RetryOf> {
        let seq = *self.retry_of.as_ref()?.get(index)?;
        if seq == 0 {
            return None;
        }
        let failures = self.retried_failure.as_ref();
        let failure = failures.and_then(|failures| failures.get(index));
        Some(RetryOf {
            seq: Seq(seq),
            failure: failure.filter(|event| **event > 0).copied().map(DoneNo),
        })
    }

    /// The copies in this row.
    fn copies(&self) -> impl Iterator<Item = (Seq, RetryOf)> {
        let count = self.retry_of.as_ref().map_or(0, Vec::len);
        let copy = |index| Some((Seq(self.first_seq + index as i64), self.retry_of(index)?));
        (0..count).filter_map(copy)
    }

    /// Work and options of its tasks, for [`Self::spec`].
    pub(crate) fn dictionary(&self, specs: &mut Specs) -> Result<Arc<[Arc<Spec>]>, JournalError> {
        specs.parse(&self.specs)
    }

    /// When each task was submitted.
    pub(crate) fn times(&self) -> Result<Vec<Time>, JournalError> {
        let calls = self.calls()?;
        let times = calls
            .iter()
            .map(|call| std::iter::repeat_n(call.at, call.count));
        Ok(times.flatten().collect())
    }

    /// When the task at `index` was submitted.
    pub(crate) fn task_time(&self, index: usize) -> Result<Time, JournalError> {
        let call = self
            .calls()?
            .into_iter()
            .find(|call| index < call.offset + call.count);
        Ok(call.map_or(self.submitted_at.0, |call| call.at))
    }

    /// The requested order of the task at `index`.
    pub(crate) fn asked(&self, index: usize) -> Option<Order> {
        order(&self.asked_order, index)
    }

    /// The effective order of the task at `index`.
    pub(crate) fn effective(&self, index: usize) -> Option<Order> {
        order(
            if self.effective_order.is_some() {
                &self.effective_order
            } else {
                &self.asked_order
            },
            index,
        )
    }

    /// What a dictionary, or what was made of one, says of the task at `index` (from 0).
    pub(crate) fn spec<'a, T>(
        &self,
        index: usize,
        dictionary: &'a [T],
    ) -> Result<&'a T, JournalError> {
        let number = self
            .spec
            .as_ref()
            .map_or(Some(0), |numbers| numbers.get(index).copied());
        number
            .and_then(|number| dictionary.get(number as usize))
            .ok_or_else(|| self.corrupt("spec"))
    }

    fn calls(&self) -> Result<Vec<Call>, JournalError> {
        let whole = [self.count];
        let counts = self.call_counts.as_deref().unwrap_or(&whole);
        let mut offset = 0;
        let mut calls = Vec::with_capacity(counts.len());
        for (index, count) in counts.iter().enumerate() {
            let at = self
                .call_times
                .as_ref()
                .and_then(|times| times.get(index))
                .map_or(self.submitted_at.0, |us| Time(*us));
            calls.push(Call {
                index,
                offset,
                count: *count as usize,
                at,
            });
            offset += *count as usize;
        }
        if offset == self.count as usize {
            Ok(calls)
        } else {
            Err(self.corrupt("call_counts"))
        }
    }

    fn corrupt(&self, column: &str) -> JournalError {
        JournalError::corrupt(format!(
            "submission {}/{}: {column}",
            self.handle, self.first_seq
        ))
    }
}

fn order(orders: &Option<Vec<i64>>, index: usize) -> Option<Order> {
    orders
        .as_ref()
        .and_then(|orders| orders.get(index))
        .filter(|order| **order >= 0)
        .map(|order| Order(*order))
}
