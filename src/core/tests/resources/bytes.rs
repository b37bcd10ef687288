//! What claims say is kept in memory, and limited.

use super::{WRITER, settings, spec};
use crate::core::{
    ClaimNo, ClaimSpec, Reject, ResourceReject, ResourceVerb,
    model::limits::{Limit, Limits},
    tests::world::World,
};

fn talkative() -> ClaimSpec {
    ClaimSpec {
        reason: "x".repeat(10_000).into(),
        ..spec("", &[("orders", WRITER)])
    }
}

#[test]
fn open_claims_of_a_namespace_say_so_much_and_no_more() {
    let limits = Limits {
        claim_bytes: 2 * talkative().bytes(),
        ..Limits::default()
    };
    let mut w = World::limited(0, limits);
    w.define("orders", settings(1));
    let claims = [(); 2].map(|()| w.try_claim(talkative()).expect("there is room").no.0);
    let refused = |w: &mut World| match w.try_claim(talkative()) {
        Err(Reject::LimitReached { limit, value, .. }) => (limit, value),
        other => panic!("answered with {other:?}"),
    };
    let limit = (Limit::ClaimBytes, limits.claim_bytes as i64);
    assert_eq!(refused(&mut w), limit);
    w.crash();
    assert_eq!(refused(&mut w), limit);
    w.give_back(claims[0]);
    w.try_claim(talkative()).expect("there is room again");
    assert_eq!(refused(&mut w), limit);
}

#[test]
fn ended_claims_are_remembered_as_far_as_what_they_say_allows() {
    let limits = Limits {
        ended_claim_bytes: 2 * talkative().bytes(),
        ..Limits::default()
    };
    let mut w = World::limited(0, limits);
    w.define("orders", settings(1));
    for _ in 0..5 {
        let claim = w.try_claim(talkative()).expect("it is free");
        w.give_back(claim.no.0);
    }
    let is_known = |w: &mut World, no| match w.ask(ResourceVerb::Look(ClaimNo(no))) {
        Ok(_) => true,
        Err(Reject::Resource(ResourceReject::UnknownClaim)) => false,
        Err(other) => panic!("refused with {other:?}"),
    };
    let known: Vec<i64> = (1..=5).filter(|no| is_known(&mut w, *no)).collect();
    assert_eq!(known, [4, 5]);
}
