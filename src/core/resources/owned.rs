//! What somebody has who says who it is: how much it holds, and for what it waits.

use crate::core::{ClaimNo, ClaimPhase};
use std::collections::BTreeSet;

/// The open claims of one owner.
#[derive(Debug, Default)]
pub(super) struct Owned {
    held: usize,
    waiting: BTreeSet<ClaimNo>,
}

impl Owned {
    pub(super) fn note_open(&mut self, no: ClaimNo, phase: ClaimPhase) {
        match phase {
            ClaimPhase::Held => self.held += 1,
            ClaimPhase::Waiting | ClaimPhase::Ended => drop(self.waiting.insert(no)),
        }
    }

    /// One that has waited is held.
    pub(super) fn note_granted(&mut self, no: ClaimNo) {
        self.held += usize::from(self.waiting.remove(&no));
    }

    /// One that was open has ended.
    pub(super) fn note_ended(&mut self, no: ClaimNo) {
        if !self.waiting.remove(&no) {
            self.held -= 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held == 0 && self.waiting.is_empty()
    }

    pub(super) fn is_holding(&self) -> bool {
        self.held > 0
    }

    /// What it waits for, the oldest first.
    pub(super) fn waiting(&self) -> impl Iterator<Item = ClaimNo> {
        self.waiting.iter().copied()
    }
}
