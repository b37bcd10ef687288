//! Promises about who waits: a line moves as soon as it may, so that whoever waits has a reason for
//! it at that very moment. Somebody holds too much of what it asks for, or may, or somebody before
//! it in line waits for a reason.
//!
//! A hold is over when its lease is, and the delay of what was lost. So in a time in which the
//! service is there, nobody waits for those who have left, and no line stands still for longer
//! than a hold, a lease and a delay.

use super::{
    Facts, Verdict,
    claims::Claim,
    leases::{SLACK_US, over},
    quiet::Quiet,
};
use crate::load::resources::is_used_by_tasks;
use rallypoint_client::api::ClaimEnd;
use std::collections::{BTreeMap, BTreeSet};

/// A claim, and from when on it surely keeps nobody waiting.
#[derive(Clone, Copy)]
struct Other<'a> {
    claim: &'a Claim,
    over: i64,
}

struct Lines<'a> {
    facts: &'a Facts,
    /// By resource.
    claims: BTreeMap<&'a str, Vec<Other<'a>>>,
}

/// Whoever is seen waiting in a quiet time has a reason.
pub(super) fn nobody_waits_without_a_reason(facts: &Facts, verdict: &mut Verdict) {
    let quiet = Quiet::of(facts);
    let lines = Lines::of(facts, &quiet);
    for claim in facts.claims.by_id.values() {
        let Some(no) = claim.no().filter(|_| lines.is_of_callers_alone(claim)) else {
            continue;
        };
        for at in waiting(claim).filter(|at| quiet.at(*at, SLACK_US)) {
            let has_reason = lines.has_reason(claim, at, &mut BTreeSet::new());
            let promise = match lines.is_behind_the_dead(claim, at) {
                true => "nobody waits for the dead",
                false => "a line moves when it may",
            };
            verdict.expect(promise, has_reason, || {
                let uses = &claim.uses;
                format!("claim {no} ({uses:?}) waits at {at}, and nobody is in its way")
            });
        }
    }
}

/// When it surely waited: it was known to the service, and waited later, too.
fn waiting(claim: &Claim) -> impl Iterator<Item = i64> {
    let known = claim.shown.first().map_or(i64::MAX, |shown| shown.at);
    let until = claim.last_waiting().unwrap_or(i64::MIN);
    let calls = claim.shown.iter().map(|shown| shown.begun);
    calls.filter(move |at| (known..=until).contains(at))
}

impl<'a> Lines<'a> {
    fn of(facts: &'a Facts, quiet: &Quiet) -> Lines<'a> {
        let mut claims: BTreeMap<&str, Vec<Other<'_>>> = BTreeMap::new();
        for claim in facts.claims.by_id.values() {
            let over = over(facts, quiet, claim);
            for one in &claim.uses {
                let of_name = claims.entry(&one.name).or_default();
                of_name.push(Other { claim, over });
            }
        }
        Lines { facts, claims }
    }

    /// The claims of others on a resource that may count at this time.
    fn others(&self, name: &str, claim: &Claim, at: i64) -> impl Iterator<Item = Other<'a>> {
        let (id, since) = (claim.id, at - SLACK_US);
        let others = self.claims.get(name).into_iter().flatten().copied();
        others.filter(move |other| {
            other.claim.id != id && other.claim.begun <= at && since <= other.over
        })
    }

    /// Neither for tasks nor for permits that come back by time.
    fn is_of_callers_alone(&self, claim: &Claim) -> bool {
        claim.uses.iter().all(|one| {
            let definition = self.facts.claims.definition(&one.name);
            let refills = definition.is_none_or(|definition| definition.refill.is_some());
            !refills && !is_used_by_tasks(&one.name)
        })
    }

    /// Whether nobody does anything any more for a claim before this one, which was not over when
    /// this one was made.
    fn is_behind_the_dead(&self, claim: &Claim, at: i64) -> bool {
        let names = claim.uses.iter().map(|one| one.name.as_str());
        let mut others = names.flat_map(|name| self.claims.get(name).into_iter().flatten());
        others.any(|other| {
            let is_dead = other.claim.left.is_some_and(|left| left < at);
            let was_there = (claim.begun..i64::MAX).contains(&other.over);
            is_dead && was_there && other.claim.no() < claim.no()
        })
    }

    /// Whether a claim that waits, or may, is kept waiting by a hold, be it that of somebody for
    /// whom those before it wait. `seen`: whoever was asked before has none.
    fn has_reason(&self, claim: &Claim, at: i64, seen: &mut BTreeSet<u64>) -> bool {
        if !self.is_of_callers_alone(claim) {
            return true;
        }
        for one in &claim.uses {
            let others = || self.others(&one.name, claim, at);
            let holders: Vec<_> = others()
                .filter(|other| may_hold(claim, other, at))
                .collect();
            let earlier: Vec<_> = others()
                .filter(|other| may_wait_before(claim, other, at))
                .collect();
            let together = holders.iter().chain(&earlier).map(|other| other.claim);
            let mut ids: BTreeSet<u64> = BTreeSet::new();
            let together = together.filter(|other| ids.insert(other.id));
            let permits = together.chain([claim]).map(|one_of| {
                let of = one_of.use_of(&one.name);
                of.and_then(|of| of.permits)
            });
            let permits: Option<u32> = permits.sum();
            let least = self
                .facts
                .claims
                .least_capacity(&one.name, at - SLACK_US, at);
            if permits.is_some_and(|permits| permits <= least) && least > 0 {
                continue;
            }
            if !holders.is_empty() || least == 0 || is_too_large(claim, &one.name, least) {
                return true;
            }
            for other in earlier {
                let is_new = seen.insert(other.claim.id);
                if is_new && self.has_reason(other.claim, at, seen) {
                    return true;
                }
            }
        }
        false
    }
}

/// Whether it asks for more than there is.
fn is_too_large(claim: &Claim, name: &str, capacity: u32) -> bool {
    let permits = claim.use_of(name).and_then(|one| one.permits);
    permits.is_some_and(|permits| permits > capacity)
}

/// Whether it may have held what it asked for then, while `claim` waited.
fn may_hold(claim: &Claim, other: &Other<'_>, at: i64) -> bool {
    let other = other.claim;
    let waited = [ClaimEnd::Withdrawn, ClaimEnd::TimedOut, ClaimEnd::Abandoned].map(i32::from);
    let never_held = other.ended().is_some_and(|(how, _)| waited.contains(&how));
    let token = |claim: &Claim| claim.granted().map(|(token, _)| token);
    let held_later = token(claim)
        .zip(token(other))
        .is_some_and(|(own, other)| own < other);
    !never_held && !held_later && other.granted_after() <= at
}

/// Whether it may have waited before `claim` then.
fn may_wait_before(claim: &Claim, other: &Other<'_>, at: i64) -> bool {
    let is_earlier = other.claim.no().is_some_and(|no| Some(no) < claim.no());
    let granted = other.claim.granted().map_or(i64::MAX, |(_, known)| known);
    is_earlier && at - SLACK_US <= granted
}
