//! Rows of `completion`: one per record. What `count` tasks share is repeated for each; whatever all events of a row
//! share with the default is left out.

use super::{error_bytes::put_error, ragged::Ragged, rows::Rows};
use crate::core::{CompletionRecord, Done, Time};
use crate::journal::encoding::{Blobs, Stamp};
use bytes::Bytes;
use sqlx::{error::BoxDynError, postgres::PgArguments};
use std::sync::Arc;
use uuid::Uuid;

/// Inserts the rows. The numbers of the parameters are shifted to their place in the statement. Only what may be null or has
/// no fixed length is unnested, as for submissions.
pub(super) const SQL: &str = "
insert into completion (shard, handle, first_done_no, day, count, failed, min_seq, max_seq, started_at, ended_at, errors,
    results, seq, task_order, outcome, attempt, started, ended, slot, backend_pid, error_ends, rows_affected, result_ends,
    truncated)
select g.shard, u.handle, u.first_done_no, g.day, u.count, u.failed, u.min_seq, u.max_seq, b.started_at, u.ended_at, b.errors,
    b.results,
    ($11::int8[])[u.seq : u.seq + u.count - 1],
    ($13::int8[])[u.task_order : u.task_order + u.count - 1],
    ($15::int2[])[u.outcome : u.outcome + u.count - 1],
    ($17::int4[])[u.attempt : u.attempt + u.count - 1],
    ($19::int8[])[u.started : u.started + u.count - 1],
    ($21::int8[])[u.ended : u.ended + u.count - 1],
    ($23::int4[])[u.slot : u.slot + u.count - 1],
    ($25::int4[])[u.backend_pid : u.backend_pid + u.count - 1],
    ($27::int4[])[u.error_ends : u.error_ends + u.count - 1],
    ($29::int8[])[u.rows_affected : u.rows_affected + u.count - 1],
    ($31::int4[])[u.result_ends : u.result_ends + u.count - 1],
    ($33::int2[])[u.truncated : u.truncated + u.count - 1]
from g
cross join unnest($7::timestamptz[], $9::bytea[], $10::bytea[]) with ordinality as b (started_at, errors, results, i)
cross join lateral (
    select ($1::uuid[])[b.i] as handle, ($2::int8[])[b.i] as first_done_no, ($3::int4[])[b.i] as count,
        ($4::int4[])[b.i] as failed, ($5::int8[])[b.i] as min_seq, ($6::int8[])[b.i] as max_seq,
        ($8::timestamptz[])[b.i] as ended_at,
        nullif(($12::int4[])[b.i], 0) as seq, nullif(($14::int4[])[b.i], 0) as task_order,
        nullif(($16::int4[])[b.i], 0) as outcome, nullif(($18::int4[])[b.i], 0) as attempt,
        nullif(($20::int4[])[b.i], 0) as started, nullif(($22::int4[])[b.i], 0) as ended,
        nullif(($24::int4[])[b.i], 0) as slot, nullif(($26::int4[])[b.i], 0) as backend_pid,
        nullif(($28::int4[])[b.i], 0) as error_ends, nullif(($30::int4[])[b.i], 0) as rows_affected,
        nullif(($32::int4[])[b.i], 0) as result_ends, nullif(($34::int4[])[b.i], 0) as truncated
) as u";

/// Inserts a single row, as for submissions.
pub(super) const SQL_ONE: &str = "
insert into completion (shard, handle, first_done_no, day, count, failed, min_seq, max_seq, started_at, ended_at, errors,
    results, seq, task_order, outcome, attempt, started, ended, slot, backend_pid, error_ends, rows_affected, result_ends,
    truncated)
select g.shard, $1, $2, g.day, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22
from g";

/// The columns of a batch's rows, kept between batches for their memory.
#[derive(Default)]
pub(super) struct Completions {
    handle: Vec<Uuid>,
    first_done_no: Vec<i64>,
    count: Vec<i32>,
    failed: Vec<i32>,
    min_seq: Vec<i64>,
    max_seq: Vec<i64>,
    started_at: Vec<Option<Stamp>>,
    ended_at: Vec<Stamp>,
    errors: Blobs,
    results: Blobs,
    seq: Ragged<i64>,
    task_order: Ragged<i64>,
    outcome: Ragged<i16>,
    attempt: Ragged<i32>,
    started: Ragged<i64>,
    ended: Ragged<i64>,
    slot: Ragged<i32>,
    backend_pid: Ragged<i32>,
    error_ends: Ragged<i32>,
    rows_affected: Ragged<i64>,
    result_ends: Ragged<i32>,
    truncated: Ragged<i16>,
    error: Vec<u8>,
}

impl Completions {
    /// Adds a row for each record.
    pub(super) fn fill(&mut self, records: &[Arc<CompletionRecord>]) {
        for record in records.iter().filter(|record| !record.done.is_empty()) {
            self.add_row(record);
        }
    }

    fn add_row(&mut self, record: &CompletionRecord) {
        let first = &record.done[0];
        self.handle.push(record.handle.uuid());
        self.first_done_no.push(record.first_done_no.0);
        self.started_at.push(first.started.map(Stamp));
        self.ended_at.push(Stamp(first.ended));
        let (mut error_bytes, mut result_bytes, mut failed) = (0, 0, 0);
        for done in &record.done {
            self.add_done(done);
            self.add_error(done, &mut error_bytes);
            self.add_result(done, &mut result_bytes);
            failed += if done.outcome.is_failure() {
                done.count as i32
            } else {
                0
            };
        }
        self.count.push(self.seq.row().len() as i32);
        self.failed.push(failed);
        self.end_row(error_bytes > 0, result_bytes > 0);
    }

    fn add_done(&mut self, done: &Done) {
        let first = done.first.0;
        self.seq.extend(first..first + i64::from(done.count));
        self.task_order
            .repeat(done.order.map_or(-1, |order| order.0), done.count);
        self.outcome.repeat(done.outcome as i16, done.count);
        self.attempt.repeat(done.attempt.0, done.count);
        self.started
            .repeat(done.started.map_or(0, |Time(us)| us), done.count);
        self.ended.repeat(done.ended.0, done.count);
        self.slot.repeat(done.slot as i32, done.count);
        self.backend_pid.repeat(done.backend_pid, done.count);
        self.rows_affected.repeat(
            done.result
                .as_ref()
                .map_or(-1, |result| result.rows_affected.max(0)),
            done.count,
        );
        self.truncated.repeat(
            done.result
                .as_ref()
                .map_or(0, |result| i16::from(result.truncated)),
            done.count,
        );
    }

    /// Repeats the error for each task, so that every event stands on its own.
    fn add_error(&mut self, done: &Done, bytes: &mut i32) {
        let Some(error) = &done.error else {
            return self.error_ends.repeat(*bytes, done.count);
        };
        self.error.clear();
        put_error(error, &mut self.error);
        let error = Bytes::copy_from_slice(&self.error);
        for _ in 0..done.count {
            *bytes += error.len() as i32;
            self.error_ends.push(*bytes);
            self.errors.chunk(error.clone());
        }
    }

    fn add_result(&mut self, done: &Done, bytes: &mut i32) {
        let Some(result) = done
            .result
            .as_ref()
            .filter(|result| !result.rows_json.is_empty())
        else {
            return self.result_ends.repeat(*bytes, done.count);
        };
        for _ in 0..done.count {
            *bytes += result.rows_json.len() as i32;
            self.result_ends.push(*bytes);
            self.results.chunk(result.rows_json.clone());
        }
    }

    fn end_row(&mut self, any_error: bool, any_result: bool) {
        let seqs = self.seq.row();
        let ascending = seqs.windows(2).all(|pair| pair[1] == pair[0] + 1);
        self.min_seq
            .push(seqs.iter().copied().min().unwrap_or_default());
        self.max_seq
            .push(seqs.iter().copied().max().unwrap_or_default());
        self.seq.end_row(!ascending);
        self.task_order.end_row_unless(-1);
        self.outcome.end_row_unless(1);
        self.attempt.end_row_unless(1);
        let (started, ended) = (self.started.row()[0], self.ended.row()[0]);
        self.started.end_row_unless(started);
        self.ended.end_row_unless(ended);
        self.slot.end_row_unless(0);
        self.backend_pid.end_row_unless(0);
        self.rows_affected.end_row_unless(-1);
        self.truncated.end_row_unless(0);
        self.error_ends.end_row(any_error);
        self.errors.end_row(any_error);
        self.result_ends.end_row(any_result);
        self.results.end_row(any_result);
    }

    /// How many rows.
    pub(super) fn rows(&self) -> Rows {
        Rows::of(self.handle.len())
    }

    /// Binds the parameters of [`SQL`], or of [`SQL_ONE`].
    pub(super) fn bind(&self, rows: Rows, arguments: &mut PgArguments) -> Result<(), BoxDynError> {
        rows.bind(&self.handle, arguments)?;
        rows.bind(&self.first_done_no, arguments)?;
        rows.bind(&self.count, arguments)?;
        rows.bind(&self.failed, arguments)?;
        rows.bind(&self.min_seq, arguments)?;
        rows.bind(&self.max_seq, arguments)?;
        rows.bind_nullable(&self.started_at, arguments)?;
        rows.bind(&self.ended_at, arguments)?;
        rows.bind_blobs(&self.errors, arguments)?;
        rows.bind_blobs(&self.results, arguments)?;
        self.seq.bind(rows, arguments)?;
        self.task_order.bind(rows, arguments)?;
        self.outcome.bind(rows, arguments)?;
        self.attempt.bind(rows, arguments)?;
        self.started.bind(rows, arguments)?;
        self.ended.bind(rows, arguments)?;
        self.slot.bind(rows, arguments)?;
        self.backend_pid.bind(rows, arguments)?;
        self.error_ends.bind(rows, arguments)?;
        self.rows_affected.bind(rows, arguments)?;
        self.result_ends.bind(rows, arguments)?;
        self.truncated.bind(rows, arguments)
    }

    /// Forgets all rows.
    pub(super) fn clear(&mut self) {
        self.handle.clear();
        self.first_done_no.clear();
        self.count.clear();
        self.failed.clear();
        self.min_seq.clear();
        self.max_seq.clear();
        self.started_at.clear();
        self.ended_at.clear();
        self.errors.clear();
        self.results.clear();
        self.seq.clear();
        self.task_order.clear();
        self.outcome.clear();
        self.attempt.clear();
        self.started.clear();
        self.ended.clear();
        self.slot.clear();
        self.backend_pid.clear();
        self.error_ends.clear();
        self.rows_affected.clear();
        self.result_ends.clear();
        self.truncated.clear();
    }
}
