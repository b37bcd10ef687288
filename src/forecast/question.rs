//! What is asked of a forecast.

use crate::core::{Seq, Work};
use std::collections::BTreeMap;

/// What is asked, and what it may cost.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Slots to assume, in place of those there are.
    pub slots: BTreeMap<Work, u32>,
    /// What the statements of waiting and running tasks hash to, as far as that is known.
    pub texts: BTreeMap<Seq, u64>,
    /// Runs at most; `None`: as many as the quantiles use.
    pub runs: Option<u32>,
    /// Determines all chance.
    pub seed: u64,
}
