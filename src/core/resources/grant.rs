//! Who is next. Whoever gives something back, or leaves a queue, marks the resource as changed;
//! then those are looked at that are parked in its queue (`claim_queue.rs`), from the front, as far
//! as there is something left to have.

use super::{
    Resources,
    in_use::{InUse, Room},
};
use crate::core::{
    ClaimEvent, ClaimNo, ClaimRecord, ClaimSpec, ClaimState, Mode, ResourceKey, ResourceSettings,
    Taken, Time, Token, Turn, model::limits::Limits, scheduler::queue::step_counter::step,
};
use std::{sync::Arc, time::Duration};

/// What a resource without a definition would be like: nothing of it is granted.
const CLOSED: ResourceSettings = ResourceSettings {
    capacity: 0,
    lock_delay: Duration::ZERO,
    max_hold: None,
    refill: None,
    reader_preferred: false,
};

impl Resources {
    /// Grants what can be granted, as much as one batch bears.
    pub(super) fn grant_next(&mut self, turn: &mut Turn, limits: &Limits) {
        let (mut left, mut looks) = (limits.slice, limits.slice);
        while looks > 0
            && let Some(key) = self.changed.pop_first()
        {
            let is_waited_for = self.in_use.get(&key).is_some_and(InUse::is_waited_for)
                || self.tasks.parked.contains_key(&key);
            looks -= u32::from(is_waited_for);
            while let Some(next) = self.next_parked(&key) {
                if left == 0 {
                    self.changed.insert(key);
                    return;
                }
                left -= 1;
                match self.blocked_by(next) {
                    Some(other) => self.park_claim(next, &other),
                    None => self.grant(turn, next, None),
                }
            }
            self.wake_lines(&key);
            self.forget_or_refill(&key);
        }
    }

    /// Grants a claim whose turn it is. `spec`: it was requested just now.
    pub(super) fn grant(&mut self, turn: &mut Turn, no: ClaimNo, spec: Option<Arc<ClaimSpec>>) {
        self.counts.waiting -= 1;
        self.counts.holds += 1;
        self.token.0 += 1;
        let token = self.token;
        self.leave_queues_silently(no);
        let taken = self.take(no, token);
        let renewed_at = self.pace.steady(turn.now);
        let claim = self.claims.get_mut(&no).expect("it waits");
        claim.state = ClaimState::Held {
            token,
            since: turn.now,
        };
        claim.renewed_at = renewed_at;
        let owner = (claim.spec.namespace.clone(), claim.spec.owner.clone());
        if let Some(owned) = self.owners.get_mut(&owner) {
            owned.note_granted(no);
        }
        turn.out.records.resources.claims.push(ClaimRecord {
            no,
            at: turn.now,
            what: ClaimEvent::Granted { token, spec, taken },
        });
        self.set_timer(turn.now, no);
        self.tell_change(turn, no);
        self.count_passes(no, None);
    }

    /// The first of a claim's resources of which it is not its turn.
    pub(super) fn blocked_by(&self, no: ClaimNo) -> Option<ResourceKey> {
        step();
        let mut keys = self.claims.get(&no)?.keys();
        keys.find(|key| !self.is_next_of(key, no))
    }

    /// Whether it is the turn of somebody in one queue.
    pub(super) fn is_next_of(&self, key: &ResourceKey, no: ClaimNo) -> bool {
        let in_use = self.in_use.get(key);
        in_use.is_some_and(|one| {
            let settings = self.in_force(key, one);
            let mode = one.queue.mode_of(no);
            mode.is_some_and(|mode| one.has_turn(&settings, self.now, (no, mode)))
        })
    }

    /// The first claim that waits for a change of this resource, if it is its turn here.
    fn next_parked(&self, key: &ResourceKey) -> Option<ClaimNo> {
        let in_use = self.in_use.get(key)?;
        in_use.next_parked(&self.in_force(key, in_use), self.now)
    }

    /// The claim waits for a change of this one of its resources: there it is not its turn.
    pub(super) fn park_claim(&mut self, no: ClaimNo, at: &ResourceKey) {
        for key in self.claims[&no].keys() {
            let Some(in_use) = self.in_use.get_mut(&key) else {
                continue;
            };
            match key == *at {
                true => in_use.queue.park(no),
                false => in_use.queue.unpark(no),
            }
        }
    }

    /// Claims that wait though it is their turn.
    #[cfg(test)]
    pub(crate) fn overlooked_claims(&self) -> Vec<ClaimNo> {
        let waiting = self.claims.iter();
        let waiting = waiting.filter(|(_, claim)| claim.state == ClaimState::Waiting);
        let mut waiting: Vec<ClaimNo> = waiting.map(|(no, _)| *no).collect();
        waiting.retain(|no| self.blocked_by(*no).is_none());
        waiting
    }

    /// Its resources, with how it uses them.
    fn wants(&self, no: ClaimNo) -> Vec<(ResourceKey, Mode)> {
        let claim = &self.claims[&no];
        let modes = claim.spec.wants.iter().map(|want| want.mode);
        claim.keys().zip(modes).collect()
    }

    /// A claim gets what it asks for. Returns what it took of resources that refill, which it does
    /// not hold.
    pub(super) fn take(&mut self, no: ClaimNo, token: Token) -> Vec<Taken> {
        let (now, mut taken) = (self.now, Vec::new());
        for (key, mode) in self.wants(no) {
            let in_use = self.in_use_of(&key);
            match in_use.take(now, (token, no), mode) {
                Some(missing) => {
                    // Its turn may have come by another resource.
                    self.watch_refill(&key);
                    self.note_left(&key);
                    taken.push(Taken {
                        name: key.name,
                        missing,
                    });
                }
                None => in_use.hold(no, mode),
            }
        }
        taken
    }

    /// A claim of before holds what it asked for, but for what it took.
    pub(super) fn hold_again(&mut self, no: ClaimNo, taken: &[Taken]) {
        for (key, mode) in self.wants(no) {
            if taken.iter().all(|taken| taken.name != key.name) {
                self.in_use_of(&key).hold(no, mode);
            }
        }
    }

    /// A claim waits no more; those behind it may have their turn.
    pub(super) fn leave_queues(&mut self, no: ClaimNo) {
        self.leave_queues_silently(no);
        for (key, _) in self.wants(no) {
            self.changed.insert(key);
        }
    }

    pub(super) fn leave_queues_silently(&mut self, no: ClaimNo) {
        for (key, _) in self.wants(no) {
            if let Some(in_use) = self.in_use.get_mut(&key) {
                in_use.queue.remove(no);
            }
        }
    }

    /// What a claim held is free.
    pub(super) fn give_back(&mut self, no: ClaimNo) {
        for (key, _) in self.wants(no) {
            if let Some(in_use) = self.in_use.get_mut(&key) {
                in_use.give_back(no);
                self.changed.insert(key);
            }
        }
    }

    /// The resource of this name in use, as its definition says.
    pub(super) fn in_use_of(&mut self, key: &ResourceKey) -> &mut InUse {
        let settings = self.settings_of(key);
        let in_use = self.in_use.entry(key.clone());
        let in_use = in_use.or_insert_with(|| InUse::new(settings));
        in_use.settings = settings;
        in_use
    }

    /// How a resource in use is to be treated. A definition that has changed counts at once, as it
    /// would for a new owner: who has been told of it may rely on it, though what is in use follows
    /// it slice by slice.
    pub(super) fn in_force(&self, key: &ResourceKey, in_use: &InUse) -> ResourceSettings {
        let changed = match self.redefined.is_empty() {
            true => None,
            false => self.definitions.of(key),
        };
        changed.map_or(in_use.settings, |definition| definition.image.settings)
    }

    /// What is left of a resource, whoever waits for it.
    pub(super) fn room_of(&self, key: &ResourceKey, now: Time) -> Room {
        match self.in_use.get(key) {
            Some(in_use) => in_use.room(&self.in_force(key, in_use), now),
            None => {
                let settings = self.settings_of(key);
                InUse::new(settings).room(&settings, now)
            }
        }
    }

    fn settings_of(&self, key: &ResourceKey) -> ResourceSettings {
        let definition = self.definitions.of(key);
        definition.map_or(CLOSED, |definition| definition.image.settings)
    }
}
