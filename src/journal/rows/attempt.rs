//! Decodes a row of `attempt`.

use crate::core::{Attempt, AttemptEvent, AttemptRecord, Handle, Ran, Seq};
use crate::journal::{JournalError, append::take_error, encoding::Stamp, rows::from_row};
use std::sync::Arc;
use uuid::Uuid;

/// The columns of an [`AttemptRow`], of a table called `a`.
macro_rules! attempt_columns {
    () => {
        "a.handle, a.seq, a.attempt, a.kind, a.at, a.next_at, a.error, a.retry"
    };
}
pub(crate) use attempt_columns;

/// A whole row.
#[derive(Debug)]
pub(crate) struct AttemptRow {
    pub handle: Uuid,
    seq: i64,
    attempt: i32,
    kind: i16,
    at: Stamp,
    next_at: Option<Stamp>,
    error: Option<Vec<u8>>,
    retry: Option<i64>,
    /// Where it ran: no recovery asks for it.
    started_at: Option<Stamp>,
    slot: Option<i32>,
    backend_pid: Option<i32>,
    diagnostics: Option<Vec<u8>>,
}

from_row!(AttemptRow {
    handle, seq, attempt, kind, at, next_at, error, retry
} else default { started_at, slot, backend_pid, diagnostics });

/// The last kind that this version knows.
const LAST_KIND: i16 = 6;

impl AttemptRow {
    /// `None`: of a kind that only a newer version knows, which has said that older ones may go on.
    pub(crate) fn record(self) -> Result<Option<AttemptRecord>, JournalError> {
        if self.kind > LAST_KIND {
            return Ok(None);
        }
        let corrupt = || {
            JournalError::corrupt(format!(
                "attempt {}/{}/{}",
                self.handle, self.seq, self.attempt
            ))
        };
        let next_at = self.next_at.map(|stamp| stamp.0);
        let error = self
            .error
            .as_deref()
            .map(|bytes| take_error(bytes).ok_or_else(corrupt))
            .transpose()?
            .map(Arc::new);
        let what = match (self.kind, next_at, error) {
            (1, ..) => AttemptEvent::Start,
            (2, _, why) => AttemptEvent::CancelRequested { why },
            (5, ..) => AttemptEvent::HandedBack,
            (6, ..) => AttemptEvent::Retried {
                retry: self.retry.map(Seq).ok_or_else(corrupt)?,
            },
            (3, Some(next_at), error) => AttemptEvent::Lost { next_at, error },
            (4, Some(next_at), Some(error)) => AttemptEvent::Failed { next_at, error },
            _ => return Err(corrupt()),
        };
        let (slot, backend_pid) = (self.slot, self.backend_pid);
        let ran = self.started_at.map(|started| Ran {
            started: started.0,
            slot: slot.unwrap_or_default() as u32,
            backend_pid: backend_pid.unwrap_or_default(),
            diagnostics: self.diagnostics.unwrap_or_default().into(),
        });
        Ok(Some(AttemptRecord {
            handle: Handle::from_uuid(self.handle),
            seq: Seq(self.seq),
            attempt: Attempt(self.attempt),
            what,
            at: self.at.0,
            ran,
        }))
    }
}
