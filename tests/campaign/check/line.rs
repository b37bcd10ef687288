//! Promises about who is next: no claim is granted past an earlier one that it keeps waiting, and
//! what comes back by time is given no faster.

use super::{Facts, Verdict, claims::Claim};
use crate::claims::Use;
use std::collections::BTreeSet;

/// From when on a clock may run at up to double speed, time passes so much faster at most.
const FASTEST: f64 = 2.0;
/// Grants are known this precisely, in microseconds.
const PRECISION_US: f64 = 1_000.0;

/// Claims of callers on one resource.
struct Asked<'a> {
    claim: &'a Claim,
    no: i64,
    of: &'a Use,
}

fn names(facts: &Facts) -> BTreeSet<&str> {
    let claims = facts.claims.by_id.values();
    let uses = claims.flat_map(|claim| &claim.uses);
    uses.map(|one| one.name.as_str()).collect()
}

fn of_resource<'a>(facts: &'a Facts, name: &str) -> Vec<Asked<'a>> {
    let claims = facts.claims.by_id.values();
    let asked = claims.filter_map(|claim| {
        let (no, of) = (claim.no()?, claim.use_of(name)?);
        Some(Asked { claim, no, of })
    });
    asked.collect()
}

/// Tokens say in which order claims were granted, numbers in which they were made. An earlier claim
/// that was granted later, or was seen waiting later, waited when the other was granted; so there
/// was room for both.
pub(super) fn grants_keep_the_line(facts: &Facts, verdict: &mut Verdict) {
    for name in names(facts) {
        let Some(definition) = facts.claims.definition(name) else {
            continue;
        };
        let mut asked = of_resource(facts, name);
        asked.sort_by_key(|one| one.no);
        for (place, one) in asked.iter().enumerate() {
            let Some((token, known)) = one.claim.granted() else {
                continue;
            };
            let passes = definition.reader_preferred && one.of.permits.is_some();
            let waited = |other: &&Asked<'_>| {
                let is_behind = passes && other.of.permits.is_none();
                !is_behind && waited_at(other.claim, token, known)
            };
            // Nobody waits for longer than this many others ask.
            let near = &asked[place.saturating_sub(1_000)..place];
            let earlier: Vec<&Asked<'_>> = near.iter().filter(waited).collect();
            let permits = earlier.iter().copied().chain([one]);
            let permits: Option<u32> = permits.map(|asked| asked.of.permits).sum();
            let capacity = facts
                .claims
                .capacity(name, one.claim.granted_after(), known);
            let is_next = earlier.is_empty() || permits.is_some_and(|sum| sum <= capacity);
            verdict.expect("grants keep the line", is_next, || {
                let passed: Vec<_> = earlier.iter().map(|one| (one.no, one.of.permits)).collect();
                let (no, of) = (one.no, one.of.permits);
                format!("{name}: claim {no} ({of:?}) was granted past {passed:?}")
            });
        }
    }
}

/// Whether a claim surely waited when another one was granted, with this token, which was known
/// then.
fn waited_at(claim: &Claim, token: i64, known: i64) -> bool {
    match claim.granted() {
        Some((own, _)) => own > token,
        None => claim.last_waiting().is_some_and(|at| at > known),
    }
}

/// Between any two grants there are no more than the capacity and what has come back meanwhile.
pub(super) fn rates_are_kept(facts: &Facts, verdict: &mut Verdict) {
    for name in names(facts) {
        let Some(definition) = facts.claims.definition(name) else {
            continue;
        };
        let Some((permits, period)) = definition.refill else {
            continue;
        };
        let mut grants: Vec<(i64, i64, i64, u32)> = Vec::new();
        for one in of_resource(facts, name) {
            if let (Some((token, known)), Some(taken)) = (one.claim.granted(), one.of.permits) {
                grants.push((token, one.claim.granted_after(), known, taken));
            }
        }
        grants.sort_unstable();
        for (place, (_, from, _, _)) in grants.iter().enumerate() {
            let mut taken = 0;
            for (token, _, to, more) in grants[place..].iter().take(100) {
                taken += more;
                let speed = if *to < facts.clock_set() {
                    1.0
                } else {
                    FASTEST
                };
                let passed = (to - from).max(0) as f64 * speed + PRECISION_US;
                let back = passed * f64::from(permits) / period as f64;
                let most = f64::from(definition.capacity) + back;
                verdict.expect("rates are kept", f64::from(taken) <= most, || {
                    format!("{name}: {taken} permits in {passed} us up to token {token}")
                });
            }
        }
    }
}
