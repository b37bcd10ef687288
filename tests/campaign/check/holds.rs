//! Promises about what is held: at every moment by no more than the resource allows, under fencing
//! tokens that rise.
//!
//! A hold counts from when its holder knew of it to when the holder was last sure of it, by two
//! orders: that of the marks on the Postgres of the tasks, and that of the callers' clock, which
//! nobody sets. Of tasks the marks count.

use super::{Facts, Verdict};
use crate::{claims::Use, load::resources::uses_of_task};
use std::collections::{BTreeMap, BTreeSet};

/// One use of one resource from a place in an order to another.
struct Hold {
    from: i64,
    to: i64,
    permits: Option<u32>,
    token: i64,
    /// It was granted between these times.
    granted: (i64, i64),
    who: String,
}

/// By resource.
type Holds = BTreeMap<String, Vec<Hold>>;

pub(super) fn holds_respect_mode_and_capacity(facts: &Facts, verdict: &mut Verdict) {
    for (order, holds) in [("marks", by_marks(facts)), ("time", by_time(facts))] {
        for (name, holds) in holds {
            check(facts, verdict, (order, &name), holds);
        }
    }
}

/// No two claims have a token, and whoever was granted something later has a higher one.
pub(super) fn tokens_rise(facts: &Facts, verdict: &mut Verdict) {
    let promise = "fencing tokens rise";
    let claims = facts.claims.by_id.values();
    let mut grants: Vec<(i64, i64, i64, i64)> = claims
        .filter_map(|claim| {
            let (token, known) = claim.granted()?;
            Some((claim.granted_after(), known, token, claim.no()?))
        })
        .collect();
    let of_tasks = facts.marks.values().flatten().filter(|mark| mark.start);
    grants.extend(of_tasks.filter_map(|mark| {
        let known = facts.moments.latest(mark.number);
        Some((i64::MIN, known, mark.hold?, -mark.number))
    }));
    grants.sort_unstable();
    let mut owners: BTreeMap<i64, i64> = BTreeMap::new();
    let mut known: Vec<(i64, i64)> = grants.iter().map(|one| (one.1, one.2)).collect();
    known.sort_unstable();
    let (mut earlier, mut highest) = (known.into_iter().peekable(), i64::MIN);
    for (after, _, token, claim) in grants {
        while let Some((_, before)) = earlier.next_if(|(at, _)| *at < after) {
            highest = highest.max(before);
        }
        verdict.expect(promise, token > highest, || {
            format!("claim {claim} got token {token} when {highest} was known")
        });
        // An attempt marks one start; a claim of a caller is one claim.
        let other = owners.insert(token, claim).filter(|other| *other != claim);
        verdict.expect(promise, other.is_none(), || {
            format!("token {token} is of {claim} and of {other:?}")
        });
    }
}

/// In the order of the marks.
fn by_marks(facts: &Facts) -> Holds {
    let mut holds = Holds::new();
    for claim in facts.claims.by_id.values() {
        let marks = || claim.held.iter().filter_map(|(_, mark)| *mark);
        if let (Some(from), Some(to)) = (marks().min(), marks().max()) {
            of_claim(claim, (from, to), &mut holds);
        }
    }
    for (uses, (from, to), token, who) in runs(facts) {
        let known = facts.moments.latest(from);
        add(
            &mut holds,
            &uses,
            (from, to),
            token,
            (i64::MIN, known),
            &who,
        );
    }
    holds
}

/// By the clock of this machine.
fn by_time(facts: &Facts) -> Holds {
    let mut holds = Holds::new();
    for claim in facts.claims.by_id.values() {
        let granted = claim.granted().map(|(_, at)| at);
        if let (Some(from), Some((to, _))) = (granted, claim.held.last()) {
            of_claim(claim, (from, *to), &mut holds);
        }
    }
    for (uses, (start, end), token, who) in runs(facts) {
        let (from, to) = (facts.moments.latest(start), facts.moments.earliest(end));
        if from <= to {
            add(&mut holds, &uses, (from, to), token, (i64::MIN, from), &who);
        }
    }
    holds
}

fn of_claim(claim: &super::claims::Claim, between: (i64, i64), holds: &mut Holds) {
    if let (Some((token, known)), Some(no)) = (claim.granted(), claim.no()) {
        let granted = (claim.granted_after(), known);
        let who = format!("claim {no}");
        add(holds, &claim.uses, between, token, granted, &who);
    }
}

fn add(
    holds: &mut Holds,
    uses: &[Use],
    (from, to): (i64, i64),
    token: i64,
    granted: (i64, i64),
    who: &str,
) {
    for one in uses {
        holds.entry(one.name.clone()).or_default().push(Hold {
            from,
            to,
            permits: one.permits,
            token,
            granted,
            who: who.to_owned(),
        });
    }
}

/// What tasks held: for what, between which marks, and under which token.
fn runs(facts: &Facts) -> Vec<(Vec<Use>, (i64, i64), i64, String)> {
    let mut found = Vec::new();
    for (handle, rows) in facts.conversations() {
        for row in rows {
            let asked = facts.asked.get(&row.token);
            let Some(place) = asked.and_then(|asked| asked.uses) else {
                continue;
            };
            for run in facts.runs_of(row.token) {
                let mut marks = facts.marks_of(row.token).iter();
                let start = marks.find(|mark| mark.number == run.start);
                if let Some(token) = start.and_then(|mark| mark.hold) {
                    let who = format!("task {handle}/{}", row.seq);
                    found.push((uses_of_task(place), (run.start, run.end), token, who));
                }
            }
        }
    }
    found
}

/// Goes through the holds of one resource in order. What is held at the same time was held when the
/// last of it was granted, which has the highest token.
fn check(facts: &Facts, verdict: &mut Verdict, (order, name): (&str, &str), mut holds: Vec<Hold>) {
    let definition = facts.claims.definition(name);
    if definition.is_none_or(|definition| definition.refill.is_some()) {
        return;
    }
    let mut live: BTreeSet<(i64, usize)> = BTreeSet::new();
    let mut highest_ended = (i64::MIN, i64::MIN);
    holds.sort_by_key(|hold| hold.from);
    for (place, hold) in holds.iter().enumerate() {
        while let Some((to, ended)) = live.first().copied().filter(|(to, _)| *to < hold.from) {
            live.remove(&(to, ended));
            let ended = &holds[ended];
            highest_ended.0 = highest_ended.0.max(ended.token);
            if ended.permits.is_none() {
                highest_ended.1 = highest_ended.1.max(ended.token);
            }
        }
        live.insert((hold.to, place));
        let together: Vec<&Hold> = live.iter().map(|(_, place)| &holds[*place]).collect();
        let is_within = fits(facts, name, &together);
        verdict.expect("holds respect mode and capacity", is_within, || {
            let who: Vec<_> = together.iter().map(|one| (&one.who, one.permits)).collect();
            format!("{name}, by {order} {}: {who:?}", hold.from)
        });
        // Beside a writer there is nobody, so that tokens follow the order of the holds.
        let before = match hold.permits {
            None => highest_ended.0,
            Some(_) => highest_ended.1,
        };
        verdict.expect("fencing tokens rise", hold.token > before, || {
            format!("{name}: {} has {} after {before}", hold.who, hold.token)
        });
    }
}

fn fits(facts: &Facts, name: &str, together: &[&Hold]) -> bool {
    if together.len() <= 1 {
        return true;
    }
    let last = together.iter().max_by_key(|hold| hold.token);
    let (from, to) = last.map_or((i64::MIN, i64::MAX), |last| last.granted);
    let permits = together.iter().map(|hold| hold.permits);
    let permits: Option<u32> = permits.sum();
    permits.is_some_and(|permits| permits <= facts.claims.capacity(name, from, to))
}
