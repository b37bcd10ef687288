//! Consecutive tasks in an answer about where tasks stand; it says nothing about why they are in
//! it.

use crate::core::Seq;

/// Consecutive tasks, or a place where there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub first: Seq,
    pub last: Seq,
}

impl Piece {
    pub(crate) fn new(first: Seq, last: Seq) -> Self {
        Piece { first, last }
    }

    /// Nothing at `at`.
    pub(crate) fn nothing(at: Seq) -> Self {
        Piece {
            first: at,
            last: Seq(at.0 - 1),
        }
    }
}
