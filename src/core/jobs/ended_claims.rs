//! Claims that ended of late, so that whoever repeats the end of one is answered alike. Of earlier
//! ones the journal knows.

use crate::core::{RunClaim, RunKey, RunToken, Time};
use std::collections::{BTreeMap, VecDeque};

/// As many as are remembered at most.
const MOST: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct EndedClaims {
    claims: BTreeMap<(RunKey, RunToken), RunClaim>,
    /// By the time of their end.
    oldest: VecDeque<(Time, (RunKey, RunToken))>,
}

impl EndedClaims {
    pub(super) fn remember(&mut self, claim: RunClaim) {
        let id = (claim.run, claim.token);
        let ended_at = claim.end.as_ref().map_or(claim.claimed_at, |end| end.at);
        if self.claims.insert(id, claim).is_none() {
            self.oldest.push_back((ended_at, id));
        }
    }

    pub(super) fn get(&self, run: RunKey, token: RunToken) -> Option<&RunClaim> {
        self.claims.get(&(run, token))
    }

    /// Forgets those that ended before `since`, and those above the limit.
    pub(super) fn forget(&mut self, since: Time) {
        while let Some((at, id)) = self.oldest.front()
            && (self.oldest.len() > MOST || *at < since)
        {
            self.claims.remove(id);
            self.oldest.pop_front();
        }
    }
}
