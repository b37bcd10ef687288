//! Rows of `attempt`: one per record.

use super::{
    columns::{OrNull, columns},
    error_bytes::put_error,
};
use crate::core::{AttemptEvent, AttemptRecord, TaskError, Time};
use crate::journal::encoding::{Blobs, Stamp};
use bytes::Bytes;
use uuid::Uuid;

columns! {
    /// The columns of a batch's rows.
    pub(super) struct Attempts of "attempt" {
        handle: Vec<Uuid>,
        seq: Vec<i64>,
        attempt: Vec<i32>,
        kind: Vec<i16>,
        at: Vec<Stamp>,
        next_at: Vec<Option<Stamp>>,
        error: Blobs,
        retry: OrNull,
        started_at: Vec<Option<Stamp>>,
        slot: Vec<Option<i32>>,
        backend_pid: Vec<Option<i32>>,
        diagnostics: Blobs,
    }
}

impl Attempts {
    /// Adds a row for each record.
    pub(super) fn fill(&mut self, records: &[AttemptRecord]) {
        for record in records {
            let (next_at, error) = details(&record.what);
            self.handle.push(record.handle.uuid());
            self.seq.push(record.seq.0);
            self.attempt.push(record.attempt.0);
            self.kind.push(record.what.number());
            self.at.push(Stamp(record.at));
            self.next_at.push(next_at.map(Stamp));
            let retry = match record.what {
                AttemptEvent::Retried { retry } => retry.0,
                _ => -1,
            };
            self.retry.0.push(retry);
            self.error.row(error.map(|error| {
                let mut bytes = Vec::new();
                put_error(error, &mut bytes);
                Bytes::from(bytes)
            }));
            let ran = record.ran.as_ref();
            self.started_at.push(ran.map(|ran| Stamp(ran.started)));
            self.slot.push(ran.map(|ran| ran.slot as i32));
            self.backend_pid.push(ran.map(|ran| ran.backend_pid));
            let said = ran.map(|ran| ran.diagnostics.clone());
            self.diagnostics.row(said.filter(|said| !said.is_empty()));
        }
    }
}

fn details(what: &AttemptEvent) -> (Option<Time>, Option<&TaskError>) {
    match what {
        AttemptEvent::Start | AttemptEvent::HandedBack | AttemptEvent::Retried { .. } => {
            (None, None)
        }
        AttemptEvent::CancelRequested { why } => (None, why.as_deref()),
        AttemptEvent::Lost { next_at, error } => (Some(*next_at), error.as_deref()),
        AttemptEvent::Failed { next_at, error } => (Some(*next_at), Some(error)),
    }
}
