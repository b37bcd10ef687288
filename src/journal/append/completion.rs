//! Rows of `completion`: one per record.
//!
//! What `count` tasks share is repeated for each of them. A column in which all events of a row
//! have the default is left null.

use super::{
    columns::{Table, columns},
    error_bytes::put_error,
    row_count::Rows,
};
use crate::core::{CompletionRecord, Done, Time};
use crate::journal::encoding::{Blobs, Stamp};
use bytes::Bytes;
use sqlx::{error::BoxDynError, postgres::PgArguments};
use std::sync::Arc;
use uuid::Uuid;

columns! {
    struct Columns of "completion" {
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
        diagnostics: Blobs,
    }
    per count {
        seq: i64,
        task_order: i64,
        outcome: i16,
        attempt: i32,
        started: i64,
        ended: i64,
        slot: i32,
        backend_pid: i32,
        error_ends: i32,
        rows_affected: i64,
        result_ends: i32,
        truncated: i16,
        diagnostics_ends: i32,
    }
    rare per count {
        retry_of: i64,
    }
}

/// A batch's rows, kept between batches for their memory.
#[derive(Default)]
pub(super) struct Completions {
    columns: Columns,
    /// Scratch memory for one error.
    error: Vec<u8>,
}

impl Completions {
    pub(super) const TABLE: Table = Columns::TABLE;

    /// Adds a row for each record.
    pub(super) fn fill(&mut self, records: &[Arc<CompletionRecord>]) -> Result<(), BoxDynError> {
        for record in records.iter().filter(|record| !record.done.is_empty()) {
            if record.first_done_no.0 < 1 || record.done.iter().any(|done| done.count == 0) {
                return Err("an event is of a task, and their numbers begin with 1".into());
            }
            self.add_row(record);
        }
        Ok(())
    }

    fn add_row(&mut self, record: &CompletionRecord) {
        let first = &record.done[0];
        self.columns.handle.push(record.handle.uuid());
        self.columns.first_done_no.push(record.first_done_no.0);
        self.columns.started_at.push(first.started.map(Stamp));
        self.columns.ended_at.push(Stamp(first.ended));
        let (mut error_bytes, mut result_bytes, mut failed) = (0, 0, 0);
        let mut diagnostics_bytes = 0;
        for done in &record.done {
            self.add_done(done);
            self.add_error(done, &mut error_bytes);
            self.add_result(done, &mut result_bytes);
            self.add_diagnostics(done, &mut diagnostics_bytes);
            failed += if done.outcome.is_failure() {
                done.count as i32
            } else {
                0
            };
        }
        self.columns.count.push(self.columns.seq.row().len() as i32);
        self.columns.failed.push(failed);
        self.columns.diagnostics_ends.end_row(diagnostics_bytes > 0);
        self.columns.diagnostics.end_row(diagnostics_bytes > 0);
        self.end_row(error_bytes > 0, result_bytes > 0);
    }

    fn add_done(&mut self, done: &Done) {
        let first = done.first.0;
        self.columns
            .seq
            .extend(first..first + i64::from(done.count));
        self.columns
            .task_order
            .repeat(done.order.map_or(-1, |order| order.0), done.count);
        self.columns
            .retry_of
            .repeat(done.retry_of.map_or(0, |task| task.0), done.count);
        self.columns.outcome.repeat(done.outcome as i16, done.count);
        self.columns.attempt.repeat(done.attempt.0, done.count);
        self.columns
            .started
            .repeat(done.started.map_or(0, |Time(us)| us), done.count);
        self.columns.ended.repeat(done.ended.0, done.count);
        self.columns.slot.repeat(done.slot as i32, done.count);
        self.columns
            .backend_pid
            .repeat(done.backend_pid, done.count);
        self.columns.rows_affected.repeat(
            done.result
                .as_ref()
                .map_or(-1, |result| result.rows_affected.max(0)),
            done.count,
        );
        self.columns.truncated.repeat(
            done.result
                .as_ref()
                .map_or(0, |result| i16::from(result.truncated)),
            done.count,
        );
    }

    /// Repeats the error for each task, so that every event stands on its own.
    fn add_error(&mut self, done: &Done, bytes: &mut i32) {
        let Some(error) = &done.error else {
            return self.columns.error_ends.repeat(*bytes, done.count);
        };
        self.error.clear();
        put_error(error, &mut self.error);
        let error = Bytes::copy_from_slice(&self.error);
        for _ in 0..done.count {
            *bytes += error.len() as i32;
            self.columns.error_ends.push(*bytes);
            self.columns.errors.chunk(error.clone());
        }
    }

    fn add_result(&mut self, done: &Done, bytes: &mut i32) {
        let Some(result) = done
            .result
            .as_ref()
            .filter(|result| !result.rows_json.is_empty())
        else {
            return self.columns.result_ends.repeat(*bytes, done.count);
        };
        for _ in 0..done.count {
            *bytes += result.rows_json.len() as i32;
            self.columns.result_ends.push(*bytes);
            self.columns.results.chunk(result.rows_json.clone());
        }
    }

    fn add_diagnostics(&mut self, done: &Done, bytes: &mut i32) {
        for _ in 0..done.count {
            *bytes += done.diagnostics.len() as i32;
            self.columns.diagnostics_ends.push(*bytes);
            if !done.diagnostics.is_empty() {
                self.columns.diagnostics.chunk(done.diagnostics.clone());
            }
        }
    }

    fn end_row(&mut self, any_error: bool, any_result: bool) {
        let seqs = self.columns.seq.row();
        let ascending = seqs.windows(2).all(|pair| pair[1] == pair[0] + 1);
        self.columns
            .min_seq
            .push(seqs.iter().copied().min().unwrap_or_default());
        self.columns
            .max_seq
            .push(seqs.iter().copied().max().unwrap_or_default());
        self.columns.seq.end_row(!ascending);
        self.columns.task_order.end_row_unless(-1);
        self.columns.retry_of.end_row_unless(0);
        self.columns.outcome.end_row_unless(1);
        self.columns.attempt.end_row_unless(1);
        let (started, ended) = (self.columns.started.row()[0], self.columns.ended.row()[0]);
        self.columns.started.end_row_unless(started);
        self.columns.ended.end_row_unless(ended);
        self.columns.slot.end_row_unless(0);
        self.columns.backend_pid.end_row_unless(0);
        self.columns.rows_affected.end_row_unless(-1);
        self.columns.truncated.end_row_unless(0);
        self.columns.error_ends.end_row(any_error);
        self.columns.errors.end_row(any_error);
        self.columns.result_ends.end_row(any_result);
        self.columns.results.end_row(any_result);
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
    }
}
