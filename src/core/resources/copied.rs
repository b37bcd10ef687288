//! What a forecast wants to know of resources: their definitions, the claims of attempts, and
//! whether anybody else has them.

use super::Resources;
use crate::core::{ClaimNo, RecoveredClaim, ResourceImage, ResourceKey, TaskId};
use std::collections::{BTreeMap, BTreeSet};

impl Resources {
    /// The claim of a task that runs, as a later owner would read it.
    pub(crate) fn held_by_task(&self, task: TaskId) -> Option<RecoveredClaim> {
        let no = *self.holders.get(&task)?;
        let claim = self.claims.get(&no)?;
        Some(RecoveredClaim {
            no,
            spec: claim.spec.clone(),
            requested_at: claim.requested_at,
            granted: claim.state.granted(),
            taken: Vec::new(),
            ended: None,
        })
    }

    /// Whether a resource is held or waited for by other claims than these.
    pub(crate) fn is_claimed_beside(&self, key: &ResourceKey, known: &BTreeSet<ClaimNo>) -> bool {
        let in_use = self.in_use.get(key);
        in_use.is_some_and(|one| {
            let mut all = one.held.keys().chain(one.queue.keys());
            all.any(|no| !known.contains(no))
        })
    }

    /// The definitions that hold for these names.
    pub(crate) fn definitions_of(&self, keys: &BTreeSet<ResourceKey>) -> Vec<ResourceImage> {
        let found = keys.iter().filter_map(|key| self.definitions.of(key));
        let by_name: BTreeMap<&ResourceKey, &ResourceImage> =
            found.map(|one| (&one.image.key, &one.image)).collect();
        by_name.into_values().cloned().collect()
    }
}
