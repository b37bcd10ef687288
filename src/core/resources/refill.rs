//! Resources whose permits come back by time: a rate limit. What a grant takes is missing until
//! it has come back, whatever becomes of the claim; giving it back gives nothing back.
//!
//! What is missing is known from the last grant: so much then, less by what has come back since.
//! It is on record with that grant, hence a later owner gives no more than the rate. A changed
//! rate counts as if it had been in force since the last grant.

use super::{InUse, Resources, missing::Missing};
use crate::core::{
    ClaimNo, Mode, Namespace, ResourceKey, Taken, Time, Token, model::limits::Limits,
};
use std::collections::BTreeMap;

impl Resources {
    /// Has those looked at of which permits have come back that somebody waits for.
    pub(super) fn run_refills(&mut self, limits: &Limits) {
        for _ in 0..limits.timers_per_batch {
            let first = self.refills.first().filter(|(at, _)| *at <= self.now);
            let Some((_, key)) = first.cloned() else {
                return;
            };
            // Until it has been looked at, what is missing has a timer all the same.
            let full_at = self.in_use.get(&key).map(|one| one.full_at(self.now));
            self.set_refill_timer(&key, full_at.unwrap_or(Time::NEVER));
            self.watches.note(&key);
            self.changed.insert(key);
        }
    }

    /// A claim was requested: what it has taken comes back, what it waits for will.
    pub(super) fn watch_refills(&mut self, no: ClaimNo) {
        let keys = self.claims[&no].keys();
        for key in keys {
            self.watch_refill(&key);
        }
    }

    /// Looks at a resource again when enough has come back. A timer that is due stays: it has the
    /// queue looked at, which those who stand in it wait for.
    pub(super) fn watch_refill(&mut self, key: &ResourceKey) {
        let is_due = |in_use: &InUse| in_use.wake <= self.now;
        if !self.in_use.get(key).is_some_and(is_due) {
            self.set_refill_timer(key, self.refilled_at(key));
        }
    }

    /// Tasks wait for this beside the line: looks at it when enough has come back for one.
    pub(super) fn watch_refill_for(&mut self, key: &ResourceKey, mode: Mode) {
        let in_use = self.in_use.get(key);
        let fits = in_use.and_then(|one| Some((one.fits_at(self.now, mode)?, one.wake)));
        if let Some((at, wake)) = fits
            && at < wake
        {
            self.set_refill_timer(key, at);
        }
    }

    /// The queue of a resource was looked at. Forgets a resource that nobody uses and of which
    /// nothing is missing; looks at it again when enough has come back.
    pub(super) fn forget_or_refill(&mut self, key: &ResourceKey) {
        if !self.forget_idle(key) {
            self.set_refill_timer(key, self.refilled_at(key));
        }
    }

    /// The same of a resource whose queue was not looked at.
    pub(super) fn forget_or_watch(&mut self, key: &ResourceKey) {
        if !self.forget_idle(key) {
            self.watch_refill(key);
        }
    }

    /// Somebody has taken permits: what came back beside them, while those who were woken for the
    /// first one waited for slots, is for others.
    pub(super) fn note_left(&mut self, key: &ResourceKey) {
        let room = self.room_of(key, self.now);
        let is_enough = |mode| room.fitting(mode) > 0;
        if self.modes_parked_at(key).any(is_enough) {
            self.changed.insert(key.clone());
        }
    }

    fn forget_idle(&mut self, key: &ResourceKey) -> bool {
        let now = self.now;
        let is_idle = self.in_use.get(key).is_some_and(|one| one.is_idle(now));
        if is_idle {
            let idle = self.in_use.remove(key);
            let wake = idle.map_or(Time::NEVER, |idle| idle.wake);
            self.refills.remove(&(wake, key.clone()));
        }
        is_idle
    }

    /// When enough has come back for somebody in line, or for tasks that wait beside it.
    fn refilled_at(&self, key: &ResourceKey) -> Time {
        let Some(in_use) = self.in_use.get(key) else {
            return Time::NEVER;
        };
        let in_line = in_use.refilled_at(self.now);
        if in_line == Time::NEVER {
            // Nothing is missing, which is so of all that is no rate.
            return in_line;
        }
        let of_tasks = self.modes_parked_at(key);
        let of_tasks = of_tasks.filter_map(|mode| in_use.fits_at(self.now, mode));
        of_tasks.fold(in_line, Time::min)
    }

    fn set_refill_timer(&mut self, key: &ResourceKey, due: Time) {
        let Some(in_use) = self.in_use.get_mut(key) else {
            return;
        };
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
