//! Rows of `submission`: all calls of one scheduler in a batch become one row, unless it grows too large to be
//! read task by task.

use super::{ragged::Ragged, rows::Rows};
use crate::core::{Spec, SubmissionRecord, Work};
use crate::journal::encoding::{Blobs, Stamp};
use bytes::Bytes;
use sqlx::{error::BoxDynError, postgres::PgArguments};
use std::sync::Arc;
use uuid::Uuid;

/// Bodies of one row, unless a single call is larger: reading one body unpacks those before it.
const ROW_BYTES: usize = 1 << 20;

/// Inserts the rows. The numbers of the parameters are shifted to their place in the statement. Only what has no fixed
/// length is unnested; the rest is picked by subscript, because each unnested array costs a tuple store of its own.
pub(super) const SQL: &str = "
insert into submission (shard, handle, first_seq, day, count, submitted_at, specs, bodies, params, lowest_order,
    highest_order, asked_order, effective_order, kind, spec, body_ends, params_ends, call_counts, call_times, request_ids, request_hashes, done_nos)
select g.shard, u.handle, u.first_seq, g.day, u.count, u.submitted_at, b.specs, b.bodies, b.params, u.lowest_order,
    u.highest_order,
    ($9::int8[])[u.asked : u.asked + u.count - 1],
    ($11::int8[])[u.effective : u.effective + u.count - 1],
    ($13::int2[])[u.kind : u.kind + u.count - 1],
    ($15::int4[])[u.spec : u.spec + u.count - 1],
    ($17::int4[])[u.ends : u.ends + u.count - 1],
    ($19::int4[])[u.params_ends : u.params_ends + u.count - 1],
    ($21::int4[])[u.call_counts : u.call_counts + u.calls - 1],
    ($23::int8[])[u.call_times : u.call_times + u.calls - 1],
    ($25::uuid[])[u.requests : u.requests + u.calls - 1],
    ($27::int8[])[u.hashes : u.hashes + u.calls - 1],
    ($29::int8[])[u.done_nos : u.done_nos + u.calls - 1]
from g
cross join unnest($6::bytea[], $7::bytea[], $8::bytea[]) with ordinality as b (specs, bodies, params, i)
cross join lateral (
    select ($1::uuid[])[b.i] as handle, ($2::int8[])[b.i] as first_seq, ($3::int4[])[b.i] as count,
        ($4::int4[])[b.i] as calls, ($5::timestamptz[])[b.i] as submitted_at,
        nullif(($10::int4[])[b.i], 0) as asked, nullif(($12::int4[])[b.i], 0) as effective,
        nullif(($14::int4[])[b.i], 0) as kind, nullif(($16::int4[])[b.i], 0) as spec, nullif(($18::int4[])[b.i], 0) as ends,
        nullif(($20::int4[])[b.i], 0) as params_ends, nullif(($22::int4[])[b.i], 0) as call_counts,
        nullif(($24::int4[])[b.i], 0) as call_times, nullif(($26::int4[])[b.i], 0) as requests,
        nullif(($28::int4[])[b.i], 0) as hashes, nullif(($30::int4[])[b.i], 0) as done_nos,
        nullif(($31::int8[])[b.i], -1) as lowest_order, nullif(($32::int8[])[b.i], -1) as highest_order
) as u";

/// Inserts a single row. Most batches have no more, and this costs a fifth less than [`SQL`]: nothing is cut out of anything.
pub(super) const SQL_ONE: &str = "
insert into submission (shard, handle, first_seq, day, count, submitted_at, specs, bodies, params, asked_order,
    effective_order, kind, spec, body_ends, params_ends, call_counts, call_times, request_ids, request_hashes, done_nos,
    lowest_order, highest_order)
select g.shard, $1, $2, g.day, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, nullif($19::int8, -1),
    nullif($20::int8, -1)
from g";

/// The columns of a batch's rows, kept between batches for their memory.
#[derive(Default)]
pub(super) struct Submissions {
    order: Vec<u32>,
    handle: Vec<Uuid>,
    first_seq: Vec<i64>,
    count: Vec<i32>,
    calls: Vec<i32>,
    submitted_at: Vec<Stamp>,
    specs: Blobs,
    bodies: Blobs,
    params: Blobs,
    asked: Ragged<i64>,
    effective: Ragged<i64>,
    kind: Ragged<i16>,
    spec: Ragged<i32>,
    body_ends: Ragged<i32>,
    params_ends: Ragged<i32>,
    call_counts: Ragged<i32>,
    call_times: Ragged<i64>,
    request_ids: Ragged<Uuid>,
    request_hashes: Ragged<i64>,
    done_nos: Ragged<i64>,
    lowest_order: Vec<i64>,
    highest_order: Vec<i64>,
    row: RowSoFar,
}

/// What the calls of a row share while it is being filled.
#[derive(Default)]
struct RowSoFar {
    tasks: u32,
    calls: i32,
    body_bytes: i32,
    params_bytes: i32,
    any_params: bool,
    any_request: bool,
    specs: Vec<Arc<Spec>>,
}

impl Submissions {
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
            .first_seq
            .last()
            .map_or(0, |first| first + i64::from(self.row.tasks));
        previous.handle == record.handle
            && next == record.first_seq.0
            && self.row.body_bytes as usize + record.submit.bodies.bytes.len() <= ROW_BYTES
            && self.row.params_bytes as usize + record.submit.params.bytes.len() <= ROW_BYTES
    }

    fn begin_row(&mut self, record: &SubmissionRecord) {
        self.row = RowSoFar::default();
        self.handle.push(record.handle.uuid());
        self.first_seq.push(record.first_seq.0);
        self.submitted_at.push(Stamp(record.submitted_at));
    }

    fn add_call(&mut self, record: &SubmissionRecord) -> Result<(), BoxDynError> {
        let submit = &record.submit;
        for (run, (effective, spec)) in submit.runs.iter().zip(&record.resolved) {
            self.asked
                .repeat(run.order.map_or(-1, |order| order.0), run.count);
            self.effective
                .repeat(effective.map_or(-1, |order| order.0), run.count);
            self.kind.repeat(kind_number(&spec.work), run.count);
            let index = self.row.spec_index(spec);
            self.spec.repeat(index, run.count);
        }
        let count = self.asked.row().len() as u32 - self.row.tasks;
        if submit.bodies.len() != count as usize
            || !(submit.params.is_empty() || submit.params.len() == count as usize)
        {
            return Err(format!(
                "{}: {count} tasks with {} bodies",
                record.handle,
                submit.bodies.len()
            )
            .into());
        }
        self.add_bytes(record, count);
        self.add_request(record, count);
        self.row.tasks += count;
        self.row.calls += 1;
        Ok(())
    }

    fn add_bytes(&mut self, record: &SubmissionRecord, count: u32) {
        let (bodies, params) = (&record.submit.bodies, &record.submit.params);
        let start = self.row.body_bytes;
        self.body_ends
            .extend(bodies.ends.iter().map(|end| start + *end as i32));
        self.row.body_bytes += bodies.bytes.len() as i32;
        self.bodies.chunk(bodies.bytes.clone());
        let start = self.row.params_bytes;
        if params.is_empty() {
            self.params_ends.repeat(start, count);
        } else {
            self.params_ends
                .extend(params.ends.iter().map(|end| start + *end as i32));
            self.row.params_bytes += params.bytes.len() as i32;
            self.row.any_params = true;
            self.params.chunk(params.bytes.clone());
        }
    }

    fn add_request(&mut self, record: &SubmissionRecord, count: u32) {
        let request = record.submit.request;
        self.row.any_request |= request.is_some();
        self.call_counts.push(count as i32);
        self.call_times.push(record.submitted_at.0);
        self.request_ids
            .push(request.map_or(Uuid::nil(), |request| request.id));
        self.request_hashes
            .push(request.map_or(0, |request| request.hash));
        self.done_nos.push(record.done_no.0);
    }

    fn end_row(&mut self, begun: bool) -> Result<(), BoxDynError> {
        if !begun {
            return Ok(());
        }
        self.count.push(self.row.tasks as i32);
        self.calls.push(self.row.calls);
        self.specs
            .row(Some(Bytes::from(serde_json::to_vec(&self.row.specs)?)));
        self.bodies.end_row(true);
        self.params.end_row(self.row.any_params);
        let orders = || {
            self.effective
                .row()
                .iter()
                .copied()
                .filter(|order| *order >= 0)
        };
        let (lowest, highest) = (orders().min().unwrap_or(-1), orders().max().unwrap_or(-1));
        self.lowest_order.push(lowest);
        self.highest_order.push(highest);
        let as_asked = self.effective.row() == self.asked.row();
        self.effective.end_row(!as_asked);
        self.asked.end_row_unless(-1);
        self.kind.end_row_unless(1);
        self.spec.end_row_unless(0);
        self.body_ends.end_row(true);
        self.params_ends.end_row(self.row.any_params);
        self.call_counts
            .end_row(self.row.calls > 1 || self.row.any_request);
        let first = self.call_times.row()[0];
        self.call_times.end_row_unless(first);
        self.request_ids.end_row(self.row.any_request);
        self.request_hashes.end_row(self.row.any_request);
        self.done_nos.end_row(self.row.any_request);
        Ok(())
    }

    /// How many rows.
    pub(super) fn rows(&self) -> Rows {
        Rows::of(self.handle.len())
    }

    /// Binds the parameters of [`SQL`], or of [`SQL_ONE`].
    pub(super) fn bind(&self, rows: Rows, arguments: &mut PgArguments) -> Result<(), BoxDynError> {
        rows.bind(&self.handle, arguments)?;
        rows.bind(&self.first_seq, arguments)?;
        rows.bind(&self.count, arguments)?;
        if rows == Rows::Many {
            rows.bind(&self.calls, arguments)?;
        }
        rows.bind(&self.submitted_at, arguments)?;
        rows.bind_blobs(&self.specs, arguments)?;
        rows.bind_blobs(&self.bodies, arguments)?;
        rows.bind_blobs(&self.params, arguments)?;
        self.asked.bind(rows, arguments)?;
        self.effective.bind(rows, arguments)?;
        self.kind.bind(rows, arguments)?;
        self.spec.bind(rows, arguments)?;
        self.body_ends.bind(rows, arguments)?;
        self.params_ends.bind(rows, arguments)?;
        self.call_counts.bind(rows, arguments)?;
        self.call_times.bind(rows, arguments)?;
        self.request_ids.bind(rows, arguments)?;
        self.request_hashes.bind(rows, arguments)?;
        self.done_nos.bind(rows, arguments)?;
        rows.bind(&self.lowest_order, arguments)?;
        rows.bind(&self.highest_order, arguments)
    }

    /// Forgets all rows.
    pub(super) fn clear(&mut self) {
        self.handle.clear();
        self.first_seq.clear();
        self.count.clear();
        self.calls.clear();
        self.submitted_at.clear();
        self.specs.clear();
        self.bodies.clear();
        self.params.clear();
        self.asked.clear();
        self.effective.clear();
        self.kind.clear();
        self.spec.clear();
        self.body_ends.clear();
        self.params_ends.clear();
        self.call_counts.clear();
        self.call_times.clear();
        self.request_ids.clear();
        self.request_hashes.clear();
        self.done_nos.clear();
        self.lowest_order.clear();
        self.highest_order.clear();
        self.row = RowSoFar::default();
    }
}

impl RowSoFar {
    /// Place of `spec` in the row's dictionary.
    fn spec_index(&mut self, spec: &Arc<Spec>) -> i32 {
        let same = |known: &Arc<Spec>| Arc::ptr_eq(known, spec) || known == spec;
        // the last one first: neighbours are mostly alike
        let index = self.specs.iter().rposition(same).unwrap_or_else(|| {
            self.specs.push(spec.clone());
            self.specs.len() - 1
        });
        index as i32
    }
}

fn kind_number(work: &Work) -> i16 {
    match work {
        Work::Sql { .. } => 1,
        Work::Noop => 2,
    }
}
