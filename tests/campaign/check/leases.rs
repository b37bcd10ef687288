//! Promises about claims and time: who renews a claim keeps it, who does not has it no longer than
//! its lease and the delay of the resource, counted while the service was there; and nobody holds
//! for longer than the resource allows.

use super::{Facts, Verdict, claims::Claim, quiet::Quiet};
use crate::claims::{Call, Phase};
use rallypoint_client::api::ClaimEnd;
use std::collections::HashSet;

const SECOND_US: i64 = 1_000_000;
/// How long the service may take to grant what can be granted, on a busy machine.
pub(super) const SLACK_US: i64 = 1_500_000;
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

/// Who has lost a claim, by whatever, or has given it back, never has it again.
pub(super) fn what_has_ended_stays_ended(facts: &Facts, verdict: &mut Verdict) {
    for claim in facts.claims.by_id.values() {
        let Some((how, ended)) = claim.ended() else {
            continue;
        };
        for later in claim.shown.iter().filter(|shown| ended < shown.begun) {
            let is_over = later.phase == Phase::Ended(how);
            verdict.expect("what has ended stays ended", is_over, || {
                let (no, phase) = (later.claim, later.phase);
                format!("claim {no} had ended as {how} at {ended}, and later is {phase:?}")
            });
        }
    }
}

/// However often a hold is renewed, it ends after the longest time that one of its resources
/// allows.
pub(super) fn no_hold_is_too_long(facts: &Facts, verdict: &mut Verdict) {
    let quiet = Quiet::of(facts);
    for claim in facts.claims.by_id.values() {
        let definitions = claim.uses.iter();
        let definitions = definitions.filter_map(|one| facts.claims.definition(&one.name));
        let longest = definitions.filter_map(|one| one.max_hold).min();
        let (Some(longest), Some((_, granted))) = (longest, claim.granted()) else {
            continue;
        };
        // The service counts it by a clock that may run at half speed.
        let Some(over) = quiet.after(granted, 2 * longest + SLACK_US) else {
            continue;
        };
        let held = claim
            .shown
            .iter()
            .filter(|shown| matches!(shown.phase, Phase::Held(_)) && shown.call != Call::Acquire);
        let last = held.map(|shown| shown.begun).max().unwrap_or(granted);
        verdict.expect("no hold is too long", last <= over, || {
            let no = claim.no();
            format!("claim {no:?}, granted before {granted}, is held at {last}")
        });
    }
}

pub(super) fn every_claim_ends(facts: &Facts, verdict: &mut Verdict) {
    if let Some(open) = facts.claims.open {
        verdict.expect("every claim ends", open == 0, || {
            format!("{open} claims are open, and nobody keeps them")
        });
    }
}

/// From when on a claim surely keeps nobody waiting; [`i64::MAX`]: perhaps never.
pub(super) fn over(facts: &Facts, quiet: &Quiet, claim: &Claim) -> i64 {
    let delays = claim.uses.iter();
    let delays = delays.filter_map(|one| facts.claims.definition(&one.name));
    // The service counts it by a clock that may run at half speed.
    let delay = 2 * delays.map(|one| one.lock_delay).max().unwrap_or(0);
    if let Some((how, at)) = claim.ended() {
        let losses = [ClaimEnd::Expired, ClaimEnd::HeldTooLong, ClaimEnd::Forced];
        let was_lost = losses.map(i32::from).contains(&how);
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
