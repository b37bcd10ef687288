//! Histories of claims that wait for no reason, or are held for too long, and ones beside them in
//! which there is a reason: the checks tell them apart.

use super::bad_claims::{Claimed, claim, judged, lock, resource, tells_apart};
use crate::{
    claims::{Call, Definition, Phase},
    history::{Answer, Entry},
};
use rallypoint_client::api::ClaimEnd;

const MOVES: &str = "a line moves when it may";

/// Seen waiting every second.
fn waiting(id: u64, name: &'static str, permits: Option<u32>, until: u8) -> Claimed {
    let asked = claim(id, name, permits).asked(1.5);
    (2..=until).fold(asked, |claim, second| claim.waits(f64::from(second)))
}

#[test]
fn who_waits_for_a_lease_that_is_over_is_noticed() {
    let promise = "nobody waits for the dead";
    // It may hold until the fourth second, and the service may take a moment.
    let waits_until = |at| {
        vec![
            claim(1, "lock", None).asked(1.0).granted(1.1, 1).left(2.0),
            claim(2, "lock", None).asked(2.5).waits(3.0).waits(at),
        ]
    };
    tells_apart(promise, lock, waits_until(5.0), waits_until(6.0));
    // Whoever holds it is a reason, and whoever waits behind is none.
    let and = |other: Claimed| {
        let mut claims = waits_until(6.0);
        claims.push(other);
        judged(promise, lock(), claims)
    };
    let another = || claim(3, "lock", None).asked(5.0);
    assert_eq!(and(another().granted(5.1, 2)), (true, true));
    assert_eq!(and(another().waits(5.5).waits(7.0)), (true, false));
}

#[test]
fn a_line_that_stands_still_is_noticed() {
    // The holder releases; of those in line the first is granted, or nobody.
    let holder = || claim(1, "lock", None).asked(1.0).granted(1.1, 1);
    let held = |until: f64| holder().held(1.2, until, (10, 20));
    let line = |until, first| vec![held(3.0).ended(until, ClaimEnd::Released), first];
    let and_behind = |mut claims: Vec<Claimed>| {
        claims.push(waiting(3, "lock", None, 20));
        claims
    };
    let granted = || {
        let granted = waiting(2, "lock", None, 3).granted(3.5, 2);
        (4..=20).fold(granted, |claim, second| {
            claim.shown(Call::Renew, f64::from(second), Phase::Held(2))
        })
    };
    let stuck = || waiting(2, "lock", None, 20);
    tells_apart(MOVES, lock, line(20.0, stuck()), line(3.1, stuck()));
    // Those who wait are no reason for one another.
    let good = and_behind(line(3.1, granted()));
    tells_apart(MOVES, lock, good, and_behind(line(3.1, stuck())));
}

#[test]
fn who_waits_for_permits_that_are_free_is_noticed() {
    let pool = || vec![resource("pool", 3, 0.0)];
    let beside = |permits| {
        let held = claim(1, "pool", Some(permits)).asked(1.0).granted(1.1, 1);
        let held = (2..=20).fold(held, |claim, second| {
            claim.shown(Call::Renew, f64::from(second), Phase::Held(1))
        });
        vec![held, waiting(2, "pool", Some(2), 20)]
    };
    tells_apart(MOVES, pool, beside(2), beside(1));
}

#[test]
fn who_waits_behind_one_that_waits_elsewhere_has_a_reason() {
    let both = |second: &'static str| {
        let mut first = claim(2, "lock", None);
        first.also(second);
        let first = (2..=20).fold(first.asked(1.2), |claim, at| claim.waits(f64::from(at)));
        let holder = claim(1, "key", None).asked(1.0).granted(1.1, 1);
        let holder = (2..=20).fold(holder, |claim, at| {
            claim.shown(Call::Renew, f64::from(at), Phase::Held(1))
        });
        vec![holder, first, waiting(3, "lock", None, 20)]
    };
    let all = || {
        ["lock", "key", "free"]
            .map(|name| resource(name, 1, 0.0))
            .into()
    };
    tells_apart(MOVES, all, both("key"), both("free"));
}

#[test]
fn what_is_held_after_its_end_is_noticed() {
    let lost = |phase| {
        let held = claim(1, "lock", None).asked(1.0).granted(1.1, 1);
        let lost = held.shown(
            Call::ForceRelease,
            3.0,
            Phase::Ended(ClaimEnd::Forced.into()),
        );
        vec![lost.shown(Call::Look, 4.0, phase)]
    };
    let (ended, held) = (Phase::Ended(ClaimEnd::Forced.into()), Phase::Held(1));
    tells_apart("what has ended stays ended", lock, lost(ended), lost(held));
}

#[test]
fn a_hold_that_is_longer_than_the_resource_allows_is_noticed() {
    let short = || {
        vec![Entry::Resource {
            begun: 0,
            ended: 0,
            name: "lock".into(),
            definition: Some(Definition {
                capacity: 1,
                lock_delay: 0,
                max_hold: Some(2_000_000),
                refill: None,
                reader_preferred: false,
            }),
            answer: Answer::Ok(()),
        }]
    };
    let held = |until| {
        let held = claim(1, "lock", None).asked(1.0).granted(1.1, 1);
        vec![held.shown(Call::Renew, until, Phase::Held(1))]
    };
    // Twice as long by a slow clock, and a moment.
    tells_apart("no hold is too long", short, held(6.5), held(6.7));
}
