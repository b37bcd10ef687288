//! Decodes a row of `target_pause`.

use crate::core::{PauseMode, TargetPause};
use crate::journal::{encoding::Stamp, rows::from_row};
use std::sync::Arc;

/// The last change of a target.
#[derive(Debug)]
pub(crate) struct TargetPauseRow {
    target: Option<Vec<u8>>,
    mode: i16,
    changed_at: Stamp,
    changed_by: Vec<u8>,
    reason: Vec<u8>,
}

from_row!(TargetPauseRow {
    target,
    mode,
    changed_at,
    changed_by,
    reason
});

/// The number of a pause, or of its end.
pub(crate) fn mode_number(mode: Option<PauseMode>) -> i16 {
    match mode {
        None => 0,
        Some(PauseMode::Drain) => 1,
        Some(PauseMode::CancelRunning) => 2,
    }
}

impl TargetPauseRow {
    /// `None`: it is resumed. What only a newer version knows is a pause in any case.
    pub(crate) fn pause(&self) -> Option<TargetPause> {
        let text = |bytes: &[u8]| Arc::from(String::from_utf8_lossy(bytes));
        let mode = match self.mode {
            0 => return None,
            2 => PauseMode::CancelRunning,
            _ => PauseMode::Drain,
        };
        Some(TargetPause {
            target: self.target.as_deref().map(text),
            mode,
            since: self.changed_at.0,
            by: text(&self.changed_by),
            reason: text(&self.reason),
        })
    }
}
