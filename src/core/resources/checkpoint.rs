//! What a recovery has to read of claims: a record says which of the earlier ones are still needed,
//! so that it reads those and what came later.

use super::Resources;
use crate::core::{ClaimNo, ClaimsCheckpoint, Time, Turn, model::limits::Limits};
use std::time::Duration;

/// How long claims may have ended without a checkpoint, however few they are: rows that are past
/// their retention go only behind it.
const INTERVAL: Duration = Duration::from_secs(3_600);

impl Resources {
    /// A claim has ended, of which a recovery would read three rows.
    pub(super) fn count_ended(&mut self, now: Time) {
        self.ended_since_checkpoint += 1;
        self.checkpoint_due.get_or_insert(now + INTERVAL);
    }

    /// Writes a checkpoint when enough has ended to make up for it, or a little long ago.
    pub(super) fn write_checkpoint(&mut self, turn: &mut Turn, limits: &Limits) {
        let worth = (limits.checkpoint_tasks as usize).max(self.claims.len() / 4);
        let is_due = self.checkpoint_due.is_some_and(|due| due <= turn.now);
        if !is_due && self.ended_since_checkpoint < worth {
            return;
        }
        self.ended_since_checkpoint = 0;
        self.checkpoint_due = None;
        turn.out.records.resources.checkpoint = Some(ClaimsCheckpoint {
            last: self.recorded,
            token: self.token,
            needed: self.needed(),
        });
    }

    /// The claims in memory, and those that say what is missing where permits come back by time,
    /// as ranges.
    fn needed(&self) -> Vec<(ClaimNo, ClaimNo)> {
        let mut ranges: Vec<(ClaimNo, ClaimNo)> = Vec::new();
        let now = self.now;
        let refilling = self
            .in_use
            .values()
            .filter(|one| one.missing_parts(now) > 0);
        let takers = refilling.filter_map(|one| Some(one.missing?.by.1));
        let mut needed: Vec<ClaimNo> = self.claims.keys().copied().chain(takers).collect();
        needed.sort_unstable();
        needed.dedup();
        for no in needed {
            match ranges.last_mut() {
                Some((_, last)) if last.0 + 1 == no.0 => *last = no,
                _ => ranges.push((no, no)),
            }
        }
        ranges
    }
}
