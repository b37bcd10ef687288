//! Rows of `submission`: all calls of one caller for one scheduler in a batch become one row,
//! unless another caller's are between them or it would grow too large to read single tasks from
//! it.

use super::{
    columns::{Lengths, OrNull, Table, columns},
    label::TaskLabels,
    row_count::Rows,
};
use crate::core::{RetryOf, Spec, SubmissionRecord, Work};
use crate::journal::encoding::{Blobs, Stamp};
use bytes::Bytes;
use sqlx::{error::BoxDynError, postgres::PgArguments};
use std::{collections::HashMap, sync::Arc};
use uuid::Uuid;

/// Bytes of bodies in one row, unless a single call has more: reading a body unpacks those before
/// it.
const MAX_ROW_BYTES: usize = 1 << 20;
/// Specs that are compared with a new one before it is looked up.
const NEIGHBOURS: usize = 8;

columns! {
    struct Columns of "submission" {
        handle: Vec<Uuid>,
        first_seq: Vec<i64>,
        count: Vec<i32>,
        calls: Lengths,
        submitted_at: Vec<Stamp>,
        specs: Blobs,
        bodies: Blobs,
        params: Blobs,
        lowest_order: OrNull,
        highest_order: OrNull,
        caller: Blobs,
    }
    per count {
        asked_order: i64,
        effective_order: i64,
        kind: i16,
        spec: i32,
        body_ends: i32,
        params_ends: i32,
    }
    per calls {
        call_counts: i32,
        call_times: i64,
        request_ids: Uuid,
        request_hashes: i64,
        done_nos: i64,
    }
    rare per count {
        retry_of: i64,
        retried_failure: i64,
    }
}

/// A batch's rows, kept between batches for their memory.
#[derive(Default)]
pub(super) struct Submissions {
    columns: Columns,
    /// Indexes of the records, ordered by scheduler.
    order: Vec<u32>,
    row: OpenRow,
    /// Rows of `task_label`.
    pub(super) labels: TaskLabels,
}

/// The state of the row that is being filled.
#[derive(Default)]
struct OpenRow {
    tasks: u32,
    calls: i32,
    body_bytes: i32,
    params_bytes: i32,
    any_params: bool,
    any_request: bool,
    specs: Vec<Arc<Spec>>,
    /// The same as they are stored, with their indexes.
    stored: HashMap<Vec<u8>, i32>,
}

impl Submissions {
    pub(super) const TABLE: Table = Columns::TABLE;

    /// Packs `records` into rows.
    pub(super) fn fill(&mut self, records: &[SubmissionRecord]) -> Result<(), BoxDynError> {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend(0..records.len() as u32);
        order.sort_by_key(|index| records[*index as usize].handle);
        let mut previous: Option<&SubmissionRecord> = None;
        for index in &order {
            let record = &records[*index as usize];
            if !previous.is_some_and(|previous| self.continues(previous, record)) {
                self.end_row(previous.is_some())?;
                self.begin_row(record);
            }
            self.add_call(record)?;
            previous = Some(record);
        }
        self.order = order;
        self.end_row(previous.is_some())
    }

    fn continues(&self, previous: &SubmissionRecord, record: &SubmissionRecord) -> bool {
        let next = self
            .columns
            .first_seq
            .last()
            .map_or(0, |first| first + i64::from(self.row.tasks));
        previous.handle == record.handle
            && previous.caller == record.caller
            && next == record.first_seq.0
            && self.row.body_bytes as usize + record.submit.bodies.bytes.len() <= MAX_ROW_BYTES
            && self.row.params_bytes as usize + record.submit.params.bytes.len() <= MAX_ROW_BYTES
    }

    fn begin_row(&mut self, record: &SubmissionRecord) {
        self.row = OpenRow::default();
        self.columns.handle.push(record.handle.uuid());
        self.columns.first_seq.push(record.first_seq.0);
        self.columns.submitted_at.push(Stamp(record.submitted_at));
        let caller = Bytes::copy_from_slice(record.caller.as_bytes());
        self.columns.caller.row(Some(caller));
    }

    fn add_call(&mut self, record: &SubmissionRecord) -> Result<(), BoxDynError> {
        let submit = &record.submit;
        if record.first_seq.0 < 1 {
            return Err("the numbers of tasks begin with 1".into());
        }
        for (run, (effective, spec)) in submit.runs.iter().zip(&record.resolved) {
            self.columns
                .asked_order
                .repeat(run.order.map_or(-1, |order| order.0), run.count);
            self.columns
                .effective_order
                .repeat(effective.map_or(-1, |order| order.0), run.count);
            self.columns.kind.repeat(kind_number(&spec.work), run.count);
            let index = self.row.spec_index(spec)?;
            self.columns.spec.repeat(index, run.count);
        }
        let count = self.columns.asked_order.row().len() as u32 - self.row.tasks;
        if count == 0
            || submit.bodies.len() != count as usize
            || !(submit.params.is_empty() || submit.params.len() == count as usize)
            || submit
                .retries
                .as_ref()
                .is_some_and(|retries| retries.of.len() != count as usize)
        {
            return Err(format!(
                "{}: {count} tasks with {} bodies",
                record.handle,
                submit.bodies.len()
            )
            .into());
        }
        self.add_retries(record, count);
        self.add_bytes(record, count);
        self.add_request(record, count);
        self.row.tasks += count;
        self.row.calls += 1;
        Ok(())
    }

    fn add_retries(&mut self, record: &SubmissionRecord, count: u32) {
        let Some(retries) = &record.submit.retries else {
            self.columns.retry_of.repeat(0, count);
            return self.columns.retried_failure.repeat(0, count);
        };
        let failure = |of: &RetryOf| of.failure.map_or(0, |event| event.0);
        let tasks = retries.of.iter().map(|of| of.seq.0);
        self.columns.retry_of.extend(tasks);
        self.columns
            .retried_failure
            .extend(retries.of.iter().map(failure));
    }

    fn add_bytes(&mut self, record: &SubmissionRecord, count: u32) {
        let (bodies, params) = (&record.submit.bodies, &record.submit.params);
        let start = self.row.body_bytes;
        self.columns
            .body_ends
            .extend(bodies.ends.iter().map(|end| start + *end as i32));
        self.row.body_bytes += bodies.bytes.len() as i32;
        self.columns.bodies.chunk(bodies.bytes.clone());
        let start = self.row.params_bytes;
        if params.is_empty() {
            self.columns.params_ends.repeat(start, count);
        } else {
            self.columns
                .params_ends
                .extend(params.ends.iter().map(|end| start + *end as i32));
            self.row.params_bytes += params.bytes.len() as i32;
            self.row.any_params = true;
            self.columns.params.chunk(params.bytes.clone());
        }
    }

    fn add_request(&mut self, record: &SubmissionRecord, count: u32) {
        let request = record.submit.request;
        self.row.any_request |= request.is_some();
        self.columns.call_counts.push(count as i32);
        self.columns.call_times.push(record.submitted_at.0);
        self.columns
            .request_ids
            .push(request.map_or(Uuid::nil(), |request| request.id));
        self.columns
            .request_hashes
            .push(request.map_or(0, |request| request.hash));
        self.columns.done_nos.push(record.done_no.0);
    }

    fn end_row(&mut self, begun: bool) -> Result<(), BoxDynError> {
        if !begun {
            return Ok(());
        }
        self.columns.count.push(self.row.tasks as i32);
        self.columns.calls.0.push(self.row.calls);
        self.columns.specs.row(Some(self.row.dictionary()));
        self.columns.bodies.end_row(true);
        self.columns.params.end_row(self.row.any_params);
        let orders = || {
            self.columns
                .effective_order
                .row()
                .iter()
                .copied()
                .filter(|order| *order >= 0)
        };
        let (lowest, highest) = (orders().min().unwrap_or(-1), orders().max().unwrap_or(-1));
        self.columns.lowest_order.0.push(lowest);
        self.columns.highest_order.0.push(highest);
        let as_asked = self.columns.effective_order.row() == self.columns.asked_order.row();
        self.columns.effective_order.end_row(!as_asked);
        self.columns.asked_order.end_row_unless(-1);
        self.columns.kind.end_row_unless(1);
        self.columns.spec.end_row_unless(0);
        self.columns.body_ends.end_row(true);
        self.columns.params_ends.end_row(self.row.any_params);
        self.columns
            .call_counts
            .end_row(self.row.calls > 1 || self.row.any_request);
        let first = self.columns.call_times.row()[0];
        self.columns.call_times.end_row_unless(first);
        self.columns.request_ids.end_row(self.row.any_request);
        self.columns.request_hashes.end_row(self.row.any_request);
        self.columns.done_nos.end_row(self.row.any_request);
        self.columns.retry_of.end_row_unless(0);
        self.columns.retried_failure.end_row_unless(0);
        let (handle, first_seq) = (&self.columns.handle, &self.columns.first_seq);
        if let (Some(handle), Some(first_seq)) = (handle.last(), first_seq.last()) {
            let specs = &self.row.specs;
            self.labels.add(*handle, *first_seq, self.row.tasks, specs);
        }
        Ok(())
    }

    pub(super) fn rows(&self) -> Rows {
        Rows::of(self.columns.handle.len())
    }

    /// Binds the parameters of the insert.
    pub(super) fn bind(
        &self,
        rows: Rows,
        retries: bool,
        arguments: &mut PgArguments,
    ) -> Result<(), BoxDynError> {
        self.columns.bind(rows, retries, arguments)
    }

    pub(super) fn clear(&mut self) {
        self.columns.clear();
        self.labels.clear();
        self.row = OpenRow::default();
    }
}

impl OpenRow {
    /// Index of `spec` in the row's dictionary.
    fn spec_index(&mut self, spec: &Arc<Spec>) -> Result<i32, BoxDynError> {
        let same = |known: &Arc<Spec>| Arc::ptr_eq(known, spec) || known == spec;
        // The last ones first: neighbours mostly have equal specs. With labels of their own all
        // tasks may have different ones.
        let first = self.specs.len().saturating_sub(NEIGHBOURS);
        if let Some(index) = self.specs[first..].iter().rposition(same) {
            return Ok((first + index) as i32);
        }
        let next = self.specs.len() as i32;
        let index = *self.stored.entry(serde_json::to_vec(spec)?).or_insert(next);
        if index == next {
            self.specs.push(spec.clone());
        }
        Ok(index)
    }

    /// The specs as a JSON array.
    fn dictionary(&mut self) -> Bytes {
        let mut stored: Vec<(Vec<u8>, i32)> = self.stored.drain().collect();
        stored.sort_unstable_by_key(|(_, index)| *index);
        let stored: Vec<Vec<u8>> = stored.into_iter().map(|(json, _)| json).collect();
        let mut array = stored.join(&b","[..]);
        array.insert(0, b'[');
        array.push(b']');
        array.into()
    }
}

fn kind_number(work: &Work) -> i16 {
    match work {
        Work::Sql { .. } => 1,
        Work::Noop => 2,
    }
}
