//! Consecutive task numbers that a search of the lists has found. An empty range has found nothing,
//! and tells how far the search has come.

use crate::core::Seq;

/// The tasks `first..=last`; empty when `last` is below `first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundRange {
    pub first: Seq,
    pub last: Seq,
}

impl FoundRange {
    pub(crate) fn new(first: Seq, last: Seq) -> Self {
        FoundRange { first, last }
    }

    /// No task, at the place of `at`.
    pub(crate) fn empty(at: Seq) -> Self {
        FoundRange {
            first: at,
            last: Seq(at.0 - 1),
        }
    }
}
