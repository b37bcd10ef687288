//! Resources whose permits come back by time: a rate limit. What a grant takes is missing until
//! it has come back, whatever becomes of the claim; giving it back gives nothing back.
//!
//! What is missing is known from the last grant: so much then, less by what has come back since.
//! It is on record with that grant, hence a later owner gives no more than the rate. A changed
//! rate counts as if it had been in force since the last grant.

use super::Resources;
use crate::core::{
    ClaimNo, Namespace, Refill, ResourceKey, Taken, Time, Token, model::limits::Limits,
};
use std::{collections::BTreeMap, time::Duration};

/// Millionths of permits, in which is counted what is missing.
pub(super) const PARTS: u64 = 1_000_000;

/// What was missing after the last grant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missing {
    /// Millionths of permits.
    pub parts: u64,
    /// When the grant was made.
    pub at: Time,
    /// The grant.
    pub by: (Token, ClaimNo),
}

impl Missing {
    /// Millionths of permits that are missing now: never less than the rate allows.
    pub(crate) fn now(&self, now: Time, refill: Refill) -> u64 {
        let elapsed = now.since(self.at).as_micros();
        let per_permit = refill.period.as_micros().max(1);
        let back = elapsed * u128::from(refill.permits) * u128::from(PARTS) / per_permit;
        self.parts
            .saturating_sub(back.try_into().unwrap_or(u64::MAX))
    }

    /// When so little will be missing.
    pub(crate) fn less_at(&self, parts: u64, refill: Refill) -> Time {
        let back = u128::from(self.parts.saturating_sub(parts));
        let rate = u128::from(refill.permits.max(1)) * u128::from(PARTS);
        let micros = (back * refill.period.as_micros()).div_ceil(rate);
        self.at + Duration::from_micros(micros.try_into().unwrap_or(u64::MAX))
    }
}

impl Resources {
    /// Has those looked at of which permits have come back that somebody waits for.
    pub(super) fn run_refills(&mut self, limits: &Limits) {
        for _ in 0..limits.timers_per_batch {
            let first = self.refills.first().filter(|(at, _)| *at <= self.now);
            let Some((_, key)) = first.cloned() else {
                return;
            };
            // Until it has been looked at, what is missing has a timer all the same.
            self.set_refill_timer(&key, |in_use, now| in_use.full_at(now));
            self.changed.insert(key);
        }
    }

    /// A claim was requested: what it has taken comes back, what it waits for will.
    pub(super) fn watch_refills(&mut self, no: ClaimNo) {
        let keys = self.claims[&no].keys();
        for key in keys {
            self.set_refill_timer(&key, |in_use, now| in_use.refilled_at(now));
        }
    }

    /// Forgets a resource that nobody uses and of which nothing is missing; looks at it again when
    /// enough has come back.
    pub(super) fn forget_or_refill(&mut self, key: &ResourceKey) {
        let now = self.now;
        match self.in_use.get(key).is_some_and(|one| one.is_idle(now)) {
            true => {
                let idle = self.in_use.remove(key);
                let wake = idle.map_or(Time::NEVER, |idle| idle.wake);
                self.refills.remove(&(wake, key.clone()));
            }
            false => self.set_refill_timer(key, |in_use, now| in_use.refilled_at(now)),
        }
    }

    fn set_refill_timer(&mut self, key: &ResourceKey, due: fn(&super::InUse, Time) -> Time) {
        let Some(in_use) = self.in_use.get_mut(key) else {
            return;
        };
        let due = due(in_use, self.now);
        if due == in_use.wake {
            return;
        }
        self.refills.remove(&(in_use.wake, key.clone()));
        in_use.wake = due;
        if due != Time::NEVER {
            self.refills.insert((due, key.clone()));
        }
    }

    /// A grant of before took this.
    pub(super) fn take_again(
        &mut self,
        namespace: &Namespace,
        grant: (Token, ClaimNo),
        at: Time,
        taken: &[Taken],
    ) {
        for Taken { name, missing } in taken {
            let key = ResourceKey {
                namespace: namespace.clone(),
                name: name.clone(),
            };
            let refill = self
                .definitions
                .of(&key)
                .and_then(|one| one.image.settings.refill);
            let missing = Missing {
                parts: *missing,
                at,
                by: grant,
            };
            let later = self.in_use.get(&key).and_then(|one| one.missing);
            if refill.is_some_and(|refill| missing.now(self.now, refill) > 0)
                && later.is_none_or(|later| later.by < grant)
            {
                self.in_use_of(&key).missing = Some(missing);
            }
        }
    }

    /// What must survive a crash: what was missing after the last grants, and when they were.
    pub(super) fn missing(&self, now: Time) -> BTreeMap<ResourceKey, (u64, Time)> {
        let known = self
            .in_use
            .iter()
            .filter(|(_, one)| one.missing_parts(now) > 0);
        let known = known.filter_map(|(key, one)| Some((key.clone(), one.missing?)));
        known
            .map(|(key, missing)| (key, (missing.parts, missing.at)))
            .collect()
    }
}
