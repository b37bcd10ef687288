//! Claims end because time passes: their lease, the time they were to wait, or the longest hold of
//! a resource; and what was lost becomes free.
//!
//! A claim has one timer at most, which is not moved when the claim is renewed: what is due is
//! asked when it goes off.

use super::Resources;
use crate::core::{
    ClaimNo, Time, Turn,
    model::{limits::Limits, steady::Steady},
};

impl Resources {
    /// Does what is due, as much as one batch bears. `since`: claims that ended before are
    /// forgotten.
    pub(crate) fn settle(&mut self, turn: &mut Turn, limits: &Limits, since: Time) {
        self.now = turn.now;
        if !self.in_outage {
            self.run_timers(turn, limits);
        }
        self.run_refills(limits);
        self.apply_redefined(turn.now, limits);
        self.run_leaving(limits);
        self.grant_next(turn, limits);
        self.forget(since, limits);
        self.write_checkpoint(turn, limits);
    }

    /// When `settle` has something to do even without a command.
    pub(crate) fn next_due(&self) -> Time {
        let goes_on = !self.changed.is_empty()
            || !self.redefined.is_empty()
            || !self.tasks.leaving.is_empty();
        if goes_on {
            return Time(0);
        }
        let first = self.timers.first().filter(|_| !self.in_outage);
        let timer = first.map_or(Time::NEVER, |(at, _)| self.pace.time(*at));
        let refill = self.refills.first().map_or(Time::NEVER, |(at, _)| *at);
        let checkpoint = self.checkpoint_due.unwrap_or(Time::NEVER);
        let timer = timer.min(refill).min(checkpoint);
        timer.min(self.watches.next_due())
    }

    /// While callers cannot reach the service, nothing ends because time passes. Afterwards every
    /// open claim has a whole lease.
    pub(crate) fn set_outage(&mut self, now: Time, in_outage: bool) {
        if std::mem::replace(&mut self.in_outage, in_outage) && !in_outage {
            self.renew_all(now);
        }
    }

    /// How far the time of the service leads time as it passes: leases count by the latter.
    pub(crate) fn set_lead(&mut self, lead: i64) {
        self.pace.set_lead(lead);
    }

    /// Gives every open claim a whole lease.
    pub(crate) fn renew_all(&mut self, now: Time) {
        self.leases_since = self.leases_since.max(self.pace.steady(now));
    }

    fn run_timers(&mut self, turn: &mut Turn, limits: &Limits) {
        let now = self.pace.steady(turn.now);
        for _ in 0..limits.timers_per_batch {
            let first = self.timers.first().copied();
            let Some((at, no)) = first.filter(|(at, _)| *at <= now) else {
                return;
            };
            self.timers.remove(&(at, no));
            let Some(claim) = self.claims.get_mut(&no) else {
                continue;
            };
            claim.wake = Steady::NEVER;
            if claim.free_at().is_some_and(|at| at <= turn.now) {
                claim.keeps_others_out = false;
                self.ended_bytes += claim.spec.bytes();
                self.give_back(no);
                self.note_change_of(no);
                continue;
            }
            let max_hold = self.max_hold(no);
            let leases = (&self.pace, self.leases_since);
            let ends = self.claims[&no].ends_at(leases, max_hold);
            match ends.filter(|(at, _)| *at <= turn.now) {
                Some((_, how)) => self.end(turn, no, how, None),
                None => self.set_timer(turn.now, no),
            }
        }
    }

    /// Sees to it that the claim is looked at when something is due, or earlier.
    pub(super) fn set_timer(&mut self, now: Time, no: ClaimNo) {
        let max_hold = self.max_hold(no);
        let (pace, leases_since) = (&self.pace, self.leases_since);
        let Some(claim) = self.claims.get_mut(&no) else {
            return;
        };
        let ends = claim.ends_at((pace, leases_since), max_hold);
        let due = ends.map(|(at, _)| at).or(claim.free_at());
        let due = due.map(|due| pace.steady(due.max(now)));
        if due.is_some_and(|due| due >= claim.wake) {
            return;
        }
        self.timers.remove(&(claim.wake, no));
        claim.wake = due.unwrap_or(Steady::NEVER);
        if claim.wake != Steady::NEVER {
            self.timers.insert((claim.wake, no));
        }
    }
}
