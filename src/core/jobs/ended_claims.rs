//! Claims that ended of late, so that whoever repeats the end of one is answered alike. Of earlier
//! ones the journal knows.

use crate::core::{KnownClaim, RunClaim, RunKey, RunToken, Time};
use std::collections::{BTreeMap, VecDeque};

/// As many as are remembered at most.
const MOST: usize = 10_000;

/// A claim that has ended.
#[derive(Clone, Debug)]
pub(super) struct EndedClaim {
    pub image: RunClaim,
    /// Which attempt of its run it was; 0: others have claimed the run since.
    pub attempt: u32,
}

#[derive(Debug, Default)]
pub(crate) struct EndedClaims {
    claims: BTreeMap<(RunKey, RunToken), EndedClaim>,
    /// By the time from which they are remembered.
    oldest: VecDeque<(Time, (RunKey, RunToken))>,
}

impl EndedClaim {
    /// As the journal was read.
    pub(super) fn of(known: &KnownClaim) -> Self {
        EndedClaim {
            image: known.claim.clone(),
            attempt: match known.is_last {
                true => known.run.attempt,
                false => 0,
            },
        }
    }

    /// When it was heard of last: whoever lost it may have said late how the work went.
    fn since(&self) -> Time {
        let RunClaim { end, late, .. } = &self.image;
        let ended_at = end.as_ref().map_or(self.image.claimed_at, |end| end.at);
        late.as_ref().map_or(ended_at, |late| late.at)
    }
}

impl EndedClaims {
    pub(super) fn remember(&mut self, claim: EndedClaim) {
        let id = (claim.image.run, claim.image.token);
        let since = claim.since();
        let before = self.claims.insert(id, claim);
        if before.is_none_or(|before| before.since() != since) {
            self.oldest.push_back((since, id));
        }
    }

    pub(super) fn get(&self, run: RunKey, token: RunToken) -> Option<&EndedClaim> {
        self.claims.get(&(run, token))
    }

    pub(super) fn get_mut(&mut self, run: RunKey, token: RunToken) -> Option<&mut EndedClaim> {
        self.claims.get_mut(&(run, token))
    }

    /// Forgets those of which nobody has said anything since then, and those above the limit.
    pub(super) fn forget(&mut self, since: Time) {
        while let Some((at, id)) = self.oldest.front()
            && (self.oldest.len() > MOST || *at < since)
        {
            let is_it = |claim: &EndedClaim| claim.since() == *at;
            if self.claims.get(id).is_some_and(is_it) {
                self.claims.remove(id);
            }
            self.oldest.pop_front();
        }
    }
}
