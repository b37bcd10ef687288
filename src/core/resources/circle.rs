//! Circles: somebody who holds one resource and waits for another, whose holder waits for the
//! first. Claims on several resources at once cannot get into one, separate claims can.
//!
//! An owner is taken for one who does one thing after the other: as long as one of its claims
//! waits, it gives nothing back. What `anna/7` does is a part of what `anna` does, who waits for
//! it; `anna/8` does not. Nobody is refused who might have waited in vain for a moment only: all
//! that were reached are assumed to wait for ever, and those struck out, again and again, who would
//! have room if only what the others hold and have reserved were taken.

use super::{Resources, in_use::InUse, owned::Owned};
use crate::core::{
    ClaimNo, Mode, Namespace, ResourceKey, TaskId, Waits, scheduler::queue::step_counter::step,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

/// Steps of one search, each a look at a claim: a larger circle is found by no one, and ends with a
/// lease or the time to wait.
const MAX_STEPS: usize = 20_000;
/// Claims that one search looks at.
const MAX_CLAIMS: usize = 200;

/// A search for the owner of a claim behind those it waits for.
struct Search<'a> {
    resources: &'a Resources,
    claim: ClaimNo,
    /// Claims that wait, and as far as is known for ever.
    stuck: BTreeSet<ClaimNo>,
    /// For which claims an owner waits, once that was looked for.
    waiting: BTreeMap<(Namespace, Arc<str>), Arc<[ClaimNo]>>,
    steps: usize,
}

impl Resources {
    /// The circle that a claim closes which has just been put into its queues, beginning with its
    /// owner.
    pub(super) fn circle(&self, no: ClaimNo) -> Option<Vec<Waits>> {
        let spec = &self.claims[&no].spec;
        // Nobody waits for somebody who holds nothing.
        if !self.is_holding(&spec.namespace, &spec.owner) {
            return None;
        }
        let mut search = Search {
            resources: self,
            claim: no,
            stuck: BTreeSet::new(),
            waiting: BTreeMap::new(),
            steps: 0,
        };
        search.reach();
        search.strike_out()?;
        let mut circle = search.path(no, &mut BTreeSet::new())?;
        circle.reverse();
        Some(circle)
    }

    /// What somebody in line wants: a claim, or a line of tasks for which it is kept.
    fn wants_of(&self, no: ClaimNo) -> Vec<(ResourceKey, Mode)> {
        if let Some(line) = self.tasks.lines.get(&no) {
            return line.keys().collect();
        }
        let Some(claim) = self.claims.get(&no) else {
            return Vec::new();
        };
        let modes = claim.spec.wants.iter().map(|want| want.mode);
        claim.keys().zip(modes).collect()
    }

    /// Who that is, as a circle names it.
    fn owner_in_line(&self, no: ClaimNo) -> Arc<str> {
        match self.tasks.lines.get(&no) {
            Some(line) => {
                let (handle, seq) = (line.handle, line.front);
                format!("task {}", TaskId { handle, seq }).into()
            }
            None => self.claims[&no].spec.owner.clone(),
        }
    }

    /// Whether an owner holds something, or somebody of whose work its own is a part.
    fn is_holding(&self, namespace: &Namespace, owner: &Arc<str>) -> bool {
        let slashes = owner.match_indices('/').map(|(at, _)| &owner[..at]);
        let mut whole = slashes.chain([&**owner]).filter(|owner| !owner.is_empty());
        whole.any(|owner| {
            let own = self.owners.get(&(namespace.clone(), owner.into()));
            own.is_some_and(Owned::is_holding)
        })
    }
}

impl<'a> Search<'a> {
    /// Collects the claims that those wait for which were collected, as many as the limits allow.
    fn reach(&mut self) {
        let (mut found, mut looked_at) = (vec![self.claim], BTreeSet::new());
        while let Some(no) = found.pop() {
            if self.stuck.len() >= MAX_CLAIMS || !self.stuck.insert(no) {
                continue;
            }
            for (key, _) in self.resources.wants_of(no) {
                let Some(in_use) = self.resources.in_use.get(&key) else {
                    continue;
                };
                found.extend(in_use.queue.before(no).take(MAX_CLAIMS));
                // Whoever holds it is the same for all who wait for it.
                if looked_at.insert(key) {
                    for holder in in_use.held.keys().take(MAX_CLAIMS) {
                        found.extend(&*self.waiting_of(*holder));
                    }
                }
            }
        }
    }

    /// Claims for which a holder waits before it gives anything back: as many as a search looks at,
    /// the same for all that its owner holds.
    fn waiting_of(&mut self, holder: ClaimNo) -> Arc<[ClaimNo]> {
        self.steps += 1;
        let claim = &self.resources.claims[&holder];
        let spec = &claim.spec;
        if spec.owner.is_empty() || !claim.is_open() {
            return Arc::default();
        }
        let owner = (spec.namespace.clone(), spec.owner.clone());
        if let Some(known) = self.waiting.get(&owner) {
            return known.clone();
        }
        let waiting = self.look_for_waiting(&owner);
        self.waiting.insert(owner, waiting.clone());
        waiting
    }

    fn look_for_waiting(&mut self, owner: &(Namespace, Arc<str>)) -> Arc<[ClaimNo]> {
        let (namespace, name) = owner;
        let below: Arc<str> = format!("{name}/").into();
        let parts = Bound::Included((namespace.clone(), below.clone()));
        let parts = self.resources.owners.range((parts, Bound::Unbounded));
        let parts =
            parts.take_while(|((other, part), _)| other == namespace && part.starts_with(&*below));
        let own = self.resources.owners.get(owner);
        let all = own.into_iter().chain(parts.map(|(_, owned)| owned));
        let mut waiting = Vec::new();
        for owned in all.take(MAX_STEPS.saturating_sub(self.steps)) {
            self.steps += 1;
            step();
            waiting.extend(owned.waiting().take(MAX_CLAIMS - waiting.len()));
            if waiting.len() == MAX_CLAIMS {
                break;
            }
        }
        // The claim of the search is not among those of its owner yet.
        let spec = &self.resources.claims[&self.claim].spec;
        if spec.namespace == *namespace && (spec.owner == *name || spec.owner.starts_with(&*below))
        {
            waiting.push(self.claim);
        }
        waiting.into()
    }

    /// Strikes out whoever would have room, until nobody is left to strike out. `None`: then the
    /// claim itself has, or the search takes too long.
    fn strike_out(&mut self) -> Option<()> {
        loop {
            let mut free = Vec::new();
            for no in self.stuck.clone() {
                let wants = self.resources.wants_of(no);
                if wants
                    .iter()
                    .all(|(key, mode)| self.has_room(key, no, *mode))
                {
                    free.push(no);
                }
            }
            self.stuck.retain(|no| !free.contains(no));
            if self.steps > MAX_STEPS || !self.stuck.contains(&self.claim) {
                return None;
            }
            if free.is_empty() {
                return Some(());
            }
        }
    }

    /// Whether a claim had its turn if only those who wait for ever were in the way.
    fn has_room(&mut self, key: &ResourceKey, no: ClaimNo, mode: Mode) -> bool {
        let Some(in_use) = self.resources.in_use.get(key) else {
            return true;
        };
        let settings = self.resources.in_force(key, in_use);
        let passes = settings.reader_preferred && mode != Mode::Exclusive;
        let mut ahead = Vec::new();
        for (holder, mode) in &in_use.held {
            if self.steps > MAX_STEPS {
                return true;
            }
            if self.is_stuck(*holder) {
                ahead.push(*mode);
            }
        }
        let earlier = self.stuck.range(..no);
        let earlier = earlier.filter_map(|no| in_use.queue.mode_of(*no));
        ahead.extend(earlier.filter(|mode| !passes || *mode != Mode::Exclusive));
        self.steps += ahead.len();
        let used: u64 = ahead
            .iter()
            .map(|mode| u64::from(InUse::permits(&settings, *mode)))
            .sum();
        match mode {
            _ if ahead.is_empty() => true,
            Mode::Exclusive => false,
            _ if settings.refill.is_none() && ahead.contains(&Mode::Exclusive) => false,
            Mode::Shared(permits) => used + u64::from(permits) <= u64::from(settings.capacity),
        }
    }

    /// Whether a holder waits for ever before it gives anything back.
    fn is_stuck(&mut self, holder: ClaimNo) -> bool {
        let waiting = self.waiting_of(holder);
        waiting.iter().any(|no| self.stuck.contains(no))
    }

    /// What a waiting claim waits for, as far as that leads back to the owner; the last first.
    fn path(&mut self, no: ClaimNo, seen: &mut BTreeSet<ClaimNo>) -> Option<Vec<Waits>> {
        if !seen.insert(no) {
            return None;
        }
        for (key, mode) in self.resources.wants_of(no) {
            if self.has_room(&key, no, mode) {
                continue;
            }
            if let Some(mut path) = self.path_behind(&key, no, seen) {
                path.push(Waits {
                    owner: self.resources.owner_in_line(no),
                    resource: key.name,
                });
                return Some(path);
            }
        }
        None
    }

    /// The same of its place in one queue.
    fn path_behind(
        &mut self,
        key: &ResourceKey,
        no: ClaimNo,
        seen: &mut BTreeSet<ClaimNo>,
    ) -> Option<Vec<Waits>> {
        let in_use = self.resources.in_use.get(key)?;
        let earlier = self.stuck.range(..no);
        let earlier = earlier.filter(|no| in_use.queue.mode_of(**no).is_some());
        let earlier: Vec<ClaimNo> = earlier.copied().collect();
        let behind = earlier.into_iter().find_map(|no| self.path(no, seen));
        if behind.is_some() {
            return behind;
        }
        for holder in in_use.held.keys() {
            let waiting = self.waiting_of(*holder);
            if waiting.contains(&self.claim) {
                return Some(Vec::new());
            }
            let stuck = waiting.iter().filter(|no| self.stuck.contains(no));
            let stuck: Vec<ClaimNo> = stuck.copied().collect();
            for no in stuck {
                if let Some(path) = self.path(no, seen) {
                    return Some(path);
                }
            }
        }
        None
    }
}
