//! What a forecast wants to know of resources: their definitions, the claims of attempts, and who
//! else has them.

use super::{Resources, claim::Claim};
use crate::core::{ClaimNo, ClaimState, RecoveredClaim, ResourceImage, ResourceKey, TaskId};
use std::collections::{BTreeMap, BTreeSet};

impl Resources {
    /// The claim of a task that runs, as a later owner would read it.
    pub(crate) fn held_by_task(&self, task: TaskId) -> Option<RecoveredClaim> {
        let no = *self.holders.get(&task)?;
        Some(self.claims.get(&no)?.recovered(no))
    }

    /// The claims that hold a resource or wait for it, those who have it first.
    pub(crate) fn claims_of(&self, key: &ResourceKey) -> impl Iterator<Item = RecoveredClaim> {
        let in_use = self.in_use.get(key).into_iter();
        let all = in_use.flat_map(|one| {
            let in_line = one.queue.iter().map(|(no, _)| no);
            one.held.keys().copied().chain(in_line)
        });
        all.filter_map(|no| Some(self.claims.get(&no)?.recovered(no)))
    }

    /// The definitions that hold for these names.
    pub(crate) fn definitions_of(&self, keys: &BTreeSet<ResourceKey>) -> Vec<ResourceImage> {
        let found = keys.iter().filter_map(|key| self.definitions.of(key));
        let by_name: BTreeMap<&ResourceKey, &ResourceImage> =
            found.map(|one| (&one.image.key, &one.image)).collect();
        by_name.into_values().cloned().collect()
    }
}

impl Claim {
    fn recovered(&self, no: ClaimNo) -> RecoveredClaim {
        RecoveredClaim {
            no,
            spec: self.spec.clone(),
            requested_at: self.requested_at,
            granted: self.state.granted(),
            taken: Vec::new(),
            ended: match &self.state {
                ClaimState::Ended { at, ending, .. } => Some((*at, ending.clone())),
                _ => None,
            },
        }
    }
}
