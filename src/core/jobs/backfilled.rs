//! Runs of backfills that are over, as long as somebody may have read the journal before they were.

use crate::core::{RunCause, RunImage, RunKey, Time};
use std::collections::{BTreeSet, VecDeque};

#[derive(Debug, Default)]
pub(crate) struct Backfilled {
    keys: BTreeSet<RunKey>,
    oldest: VecDeque<(Time, RunKey)>,
}

impl Backfilled {
    pub(super) fn remember(&mut self, run: &RunImage) {
        if run.cause == RunCause::Backfilled && self.keys.insert(run.key) {
            let ended_at = run.ended_at.unwrap_or_default();
            self.oldest.push_back((ended_at, run.key));
        }
    }

    pub(super) fn has(&self, key: RunKey) -> bool {
        self.keys.contains(&key)
    }

    /// Forgets those that ended before `since`.
    pub(super) fn forget(&mut self, since: Time) {
        while let Some((at, key)) = self.oldest.front()
            && *at < since
        {
            self.keys.remove(key);
            self.oldest.pop_front();
        }
    }
}
