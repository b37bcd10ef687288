//! Circles: somebody who holds one resource and waits for another, whose holder waits for the
//! first. Claims on several resources at once cannot get into one, separate claims can.
//!
//! An owner is taken for one who does one thing after the other: as long as one of its claims
//! waits, it gives nothing back. Nobody is refused who might have waited in vain for a moment only:
//! of several holders of permits, all must be in the way for ever.

use super::Resources;
use crate::core::{ClaimNo, ClaimState, Mode, ResourceKey, Waits};
use std::{collections::BTreeSet, sync::Arc};

/// Claims looked at in one search: a longer circle is found by no one, and ends with a lease or the
/// time to wait.
const MAX_LOOKS: usize = 1_000;

/// A search for the owner of a claim behind those it waits for.
struct Search<'a> {
    resources: &'a Resources,
    claim: ClaimNo,
    seen: BTreeSet<ClaimNo>,
}

impl Resources {
    /// The circle that a claim closes which has just been put into its queues, beginning with its
    /// owner.
    pub(super) fn circle(&self, no: ClaimNo) -> Option<Vec<Waits>> {
        let spec = &self.claims[&no].spec;
        let own = self
            .owners
            .get(&(spec.namespace.clone(), spec.owner.clone()))?;
        // Nobody waits for somebody who holds nothing.
        let holds = |no: &ClaimNo| matches!(self.claims[no].state, ClaimState::Held { .. });
        if !own.iter().any(holds) {
            return None;
        }
        let mut search = Search {
            resources: self,
            claim: no,
            seen: BTreeSet::new(),
        };
        let mut circle = search.behind_claim(no)?;
        circle.reverse();
        Some(circle)
    }
}

impl Search<'_> {
    fn owner_of(&self, no: ClaimNo) -> &Arc<str> {
        &self.resources.claims[&no].spec.owner
    }

    /// What a waiting claim waits for, as far as that leads back to the owner; the last first.
    fn behind_claim(&mut self, no: ClaimNo) -> Option<Vec<Waits>> {
        if self.seen.len() >= MAX_LOOKS || !self.seen.insert(no) {
            return None;
        }
        let claim = &self.resources.claims[&no];
        let wants = claim.keys().zip(&claim.spec.wants);
        for (key, want) in wants {
            let Some(mut circle) = self.behind_queue(&key, no, want.mode) else {
                continue;
            };
            circle.push(Waits {
                owner: self.owner_of(no).clone(),
                resource: key.name,
            });
            return Some(circle);
        }
        None
    }

    /// The same of its place in one queue.
    fn behind_queue(&mut self, key: &ResourceKey, no: ClaimNo, mode: Mode) -> Option<Vec<Waits>> {
        let resources = self.resources;
        if resources.is_next_of(key, no) {
            return None;
        }
        let in_use = resources.in_use.get(key)?;
        let earlier = in_use.queue.range(..no).map(|(earlier, _)| *earlier);
        for earlier in earlier.take(MAX_LOOKS) {
            if let Some(circle) = self.behind_claim(earlier) {
                return Some(circle);
            }
        }
        let waits_for_all =
            mode == Mode::Exclusive || in_use.held.values().any(|held| *held == Mode::Exclusive);
        let mut first = None;
        for holder in in_use.held.keys() {
            match self.behind_holder(*holder) {
                Some(circle) if waits_for_all => return Some(circle),
                Some(circle) => drop(first.get_or_insert(circle)),
                None if waits_for_all => {}
                None => return None,
            }
        }
        first
    }

    /// What the owner of a hold waits for; nothing when it is the owner who is looked for.
    fn behind_holder(&mut self, holder: ClaimNo) -> Option<Vec<Waits>> {
        let claim = &self.resources.claims[&holder];
        if claim.spec.owner.is_empty() || !claim.is_open() {
            return None;
        }
        if claim.spec.owner == *self.owner_of(self.claim) {
            return Some(Vec::new());
        }
        let owner = (claim.spec.namespace.clone(), claim.spec.owner.clone());
        let waiting = self.resources.owners.get(&owner).into_iter().flatten();
        for no in waiting {
            if self.resources.claims[no].state == ClaimState::Waiting
                && let Some(circle) = self.behind_claim(*no)
            {
                return Some(circle);
            }
        }
        None
    }
}
