//! What one batch of commands yields for metrics and traces. Nothing is decided by it, and it is
//! not remembered: what happened before a crash stays counted only where it was shown.

use super::{Outcome, Traced, Work};
use std::time::Duration;

/// What one batch has done.
#[derive(Debug, Default)]
pub struct Tally {
    /// Tasks that ended, by their work and outcome.
    pub ended: Vec<(Work, Outcome, u64)>,
    /// How long after its due time each run began that a schedule names.
    pub start_delays: Vec<Duration>,
    /// What has ended of tasks that are traced.
    pub traced: Vec<Traced>,
}

impl Tally {
    /// So many tasks have ended alike.
    pub(crate) fn count_ended(&mut self, work: &Work, outcome: Outcome, count: u32) {
        let known = |(of, how, _): &&mut (Work, Outcome, u64)| *how == outcome && of == work;
        match self.ended.iter_mut().find(known) {
            Some((_, _, sum)) => *sum += u64::from(count),
            None => self.ended.push((work.clone(), outcome, count.into())),
        }
    }
}
