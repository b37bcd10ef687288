//! Rows of `target_pause`: one per change.

use super::columns::columns;
use crate::core::PauseRecord;
use crate::journal::{
    encoding::{Blobs, Stamp},
    rows::target_pause::mode_number,
};
use bytes::Bytes;

columns! {
    /// The columns of a batch's rows.
    pub(super) struct TargetPauses of "target_pause" {
        target: Blobs,
        mode: Vec<i16>,
        changed_at: Vec<Stamp>,
        changed_by: Blobs,
        reason: Blobs,
    }
}

impl TargetPauses {
    /// Adds a row for each record.
    pub(super) fn fill(&mut self, records: &[PauseRecord]) {
        let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        for PauseRecord { change, at } in records {
            self.target.row(change.target.as_deref().map(bytes));
            self.mode.push(mode_number(change.mode));
            self.changed_at.push(Stamp(*at));
            self.changed_by.row(Some(bytes(&change.by)));
            self.reason.row(Some(bytes(&change.reason)));
        }
    }
}
