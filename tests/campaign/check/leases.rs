//! Promises about claims and time: who renews a claim keeps it, who does not keeps nobody waiting
//! for longer than its lease and the delay of the resource, counted while the service was there.

use super::{Facts, Verdict, claims::Claim, quiet::Quiet};
use crate::{
    claims::{Call, Phase},
    load::resources::is_used_by_tasks,
};
use rallypoint_client::api::ClaimEnd;
use std::collections::{BTreeMap, HashSet};

const SECOND_US: i64 = 1_000_000;
/// How long the service may take to grant what can be granted, on a busy machine.
const SLACK_US: i64 = 1_500_000;
/// How long what was withheld may take to arrive, once nothing is withheld any more.
const LATE_US: i64 = 2 * SECOND_US;
/// Faults in which what callers have sent may arrive later.
const WITHHOLDING: [&str; 7] = [
    "CallersApart",
    "HalfOpenCallers",
    "HalfOpenPeer",
    "Latency",
    "Partition",
    "Pause",
    "PeersApart",
];
/// How long a server may keep a stream that has gone silent.
const SILENT_STREAM_US: i64 = 35 * SECOND_US;

/// Nobody loses a claim within a lease after a renewal that was answered.
pub(super) fn renewed_claims_live(facts: &Facts, verdict: &mut Verdict) {
    let lost = [ClaimEnd::Expired, ClaimEnd::Abandoned].map(i32::from);
    let claims = facts.claims.by_id.values();
    for claim in claims.filter(|claim| claim.renewed_by_caller) {
        let mut renewed = claim.begun;
        for shown in &claim.shown {
            if shown.at < renewed + claim.lease {
                let is_lost = matches!(shown.phase, Phase::Ended(how) if lost.contains(&how));
                verdict.expect("a renewed claim lives for its lease", !is_lost, || {
                    let (no, after) = (shown.claim, shown.at - renewed);
                    format!("claim {no} was lost {after} us after its renewal")
                });
            }
            if shown.call == Call::Renew && !matches!(shown.phase, Phase::Ended(_)) {
                renewed = renewed.max(shown.begun);
            }
        }
    }
}

pub(super) fn a_repeated_claim_is_one(facts: &Facts, verdict: &mut Verdict) {
    let asks = |call: Call| matches!(call, Call::Acquire | Call::TryAcquire);
    for claim in facts.claims.by_id.values() {
        let repeated = claim.failed.iter().any(|(call, _)| asks(*call));
        let numbers: HashSet<i64> = claim.shown.iter().map(|shown| shown.claim).collect();
        if repeated && !numbers.is_empty() {
            verdict.expect("a repeated claim is one", numbers.len() == 1, || {
                format!("one call made the claims {numbers:?}")
            });
        }
    }
}

pub(super) fn every_claim_ends(facts: &Facts, verdict: &mut Verdict) {
    if let Some(open) = facts.claims.open {
        verdict.expect("every claim ends", open == 0, || {
            format!("{open} claims are open, and nobody keeps them")
        });
    }
}

/// Whoever waits behind claims that nobody keeps any more has a reason: somebody else, or a lease
/// that is not over yet.
pub(super) fn nobody_waits_for_the_dead(facts: &Facts, verdict: &mut Verdict) {
    let quiet = Quiet::of(facts);
    let mut by_name: BTreeMap<&str, Vec<(&Claim, i64)>> = BTreeMap::new();
    for claim in facts.claims.by_id.values() {
        let over = over(facts, &quiet, claim);
        for one in &claim.uses {
            by_name.entry(&one.name).or_default().push((claim, over));
        }
    }
    for claim in facts.claims.by_id.values() {
        let Some(no) = claim.no().filter(|_| waits_for_callers_alone(facts, claim)) else {
            continue;
        };
        let names = claim.uses.iter().map(|one| one.name.as_str());
        let others = names.flat_map(|name| &by_name[name]);
        let others: Vec<_> = others
            .filter(|(other, _)| other.begun != claim.begun)
            .collect();
        for at in waiting(claim).filter(|at| quiet.at(*at, SLACK_US)) {
            let is_dead = |other: &Claim| other.left.is_some_and(|left| left < at);
            let mut dead = others.iter().filter(|(other, over)| {
                is_dead(other) && *over < i64::MAX && other.no() < Some(no)
            });
            if dead.next().is_none() {
                continue;
            }
            let mut alive = others.iter().filter(|(_, over)| *over >= at - SLACK_US);
            let in_the_way = alive.any(|(other, _)| may_be_in_the_way(claim, other, at));
            verdict.expect("nobody waits for the dead", in_the_way, || {
                let uses = &claim.uses;
                format!("claim {no} ({uses:?}) waits at {at}, and there is nobody before it")
            });
        }
    }
}

/// Whether another claim, if it is not over, may keep one waiting: it is ahead, or may hold what
/// this one asks for.
fn may_be_in_the_way(claim: &Claim, other: &Claim, at: i64) -> bool {
    if other.no().is_none() || other.no() < claim.no() {
        return other.begun <= at;
    }
    let waited = [ClaimEnd::Withdrawn, ClaimEnd::TimedOut, ClaimEnd::Abandoned].map(i32::from);
    let never_held = other.ended().is_some_and(|(how, _)| waited.contains(&how));
    let token = |claim: &Claim| claim.granted().map(|(token, _)| token);
    let held_later = token(claim)
        .zip(token(other))
        .is_some_and(|(own, other)| own < other);
    !never_held && !held_later && other.granted_after() <= at
}

/// When it was surely waiting.
fn waiting(claim: &Claim) -> impl Iterator<Item = i64> {
    let waiting = claim.shown.iter();
    let waiting = waiting.filter(|shown| shown.phase == Phase::Waiting);
    waiting.map(|shown| shown.begun)
}

/// Neither for tasks nor for permits that come back by time.
fn waits_for_callers_alone(facts: &Facts, claim: &Claim) -> bool {
    claim.uses.iter().all(|one| {
        let definition = facts.claims.definition(&one.name);
        let refills = definition.is_none_or(|definition| definition.refill.is_some());
        !refills && !is_used_by_tasks(&one.name)
    })
}

/// From when on a claim surely keeps nobody waiting; [`i64::MAX`]: perhaps never.
fn over(facts: &Facts, quiet: &Quiet, claim: &Claim) -> i64 {
    let delays = claim.uses.iter();
    let delays = delays.filter_map(|one| facts.claims.definition(&one.name));
    // The service counts it by a clock that may run at half speed.
    let delay = 2 * delays.map(|one| one.lock_delay).max().unwrap_or(0);
    if let Some((how, at)) = claim.ended() {
        let was_lost = how == i32::from(ClaimEnd::Expired);
        return at + if was_lost { delay } else { 0 };
    }
    let last_call = claim.last_call();
    if claim.is_refused && claim.shown.is_empty() {
        return last_call;
    }
    let from = last_heard(facts, last_call, claim.renewed_by_caller);
    // One that is granted to the dead is held for a lease.
    let leases = match claim.granted() {
        Some(_) => claim.lease,
        None => 2 * claim.lease,
    };
    let kept_until = quiet.after(from, leases + delay);
    kept_until.unwrap_or(i64::MAX)
}

/// No renewal is taken in later, by a call or by the stream of a claim.
fn last_heard(facts: &Facts, last_call: i64, renewed_by_caller: bool) -> i64 {
    let faults = WITHHOLDING
        .iter()
        .filter_map(|kind| facts.faults.get(*kind));
    let faults = faults.flatten();
    let withheld = faults.filter(|fault| {
        fault.begun <= last_call + SECOND_US && last_call <= fault.ended + SECOND_US
    });
    match (withheld.map(|fault| fault.ended).max(), renewed_by_caller) {
        (None, _) => last_call,
        (Some(ended), true) => last_call.max(ended) + LATE_US,
        (Some(ended), false) => last_call.max(ended) + SILENT_STREAM_US,
    }
}
