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
    /// By the time of their end.
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
}

impl EndedClaims {
    pub(super) fn remember(&mut self, claim: EndedClaim) {
        let image = &claim.image;
        let id = (image.run, image.token);
        let ended_at = image.end.as_ref().map_or(image.claimed_at, |end| end.at);
        if self.claims.insert(id, claim).is_none() {
            self.oldest.push_back((ended_at, id));
        }
    }

    pub(super) fn get(&self, run: RunKey, token: RunToken) -> Option<&EndedClaim> {
        self.claims.get(&(run, token))
    }

    pub(super) fn get_mut(&mut self, run: RunKey, token: RunToken) -> Option<&mut EndedClaim> {
        self.claims.get_mut(&(run, token))
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
