//! Who would wait for itself is refused, and whoever might wait in vain is not.

use super::{READER, WRITER, settings, spec};
use crate::core::{Mode, Reject, ResourceReject, tests::world::World};

/// The steps of the circle that a claim would close, or `None`: it is accepted.
fn circle(w: &mut World, owner: &str, wants: &[(&str, Mode)]) -> Option<Vec<(String, String)>> {
    match w.try_claim(spec(owner, wants)) {
        Ok(_) => None,
        Err(Reject::Resource(ResourceReject::CircularWait(circle))) => {
            let step =
                |waits: crate::core::Waits| (waits.owner.to_string(), waits.resource.to_string());
            Some(circle.into_iter().map(step).collect())
        }
        Err(other) => panic!("refused for {other:?}"),
    }
}

fn steps(steps: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
    let owned = |(owner, name): &(&str, &str)| (owner.to_string(), name.to_string());
    Some(steps.iter().map(owned).collect())
}

fn resources(names: &[(&str, u32)]) -> World {
    let mut w = World::new(0);
    for (name, capacity) in names {
        w.define(name, settings(*capacity));
    }
    w
}

#[test]
fn separate_claims_in_opposite_orders_are_found() {
    let mut w = resources(&[("a", 1), ("b", 1), ("c", 1)]);
    w.claim("x", &[("a", WRITER)]);
    w.claim("y", &[("b", WRITER)]);
    w.claim("z", &[("c", WRITER)]);
    w.claim("x", &[("b", WRITER)]);
    w.claim("y", &[("c", WRITER)]);
    let found = circle(&mut w, "z", &[("a", WRITER)]);
    assert_eq!(found, steps(&[("z", "a"), ("x", "b"), ("y", "c")]));
    assert_eq!(circle(&mut w, "other", &[("a", WRITER)]), None);
}

#[test]
fn a_reader_that_wants_to_write_and_an_owner_that_claims_again_wait_for_themselves() {
    let mut w = resources(&[("a", 2)]);
    w.claim("x", &[("a", READER)]);
    let own = steps(&[("x", "a")]);
    assert_eq!(circle(&mut w, "x", &[("a", WRITER)]), own);
    w.claim("y", &[("a", WRITER)]);
    let behind_a_writer = steps(&[("x", "a"), ("y", "a")]);
    assert_eq!(circle(&mut w, "x", &[("a", READER)]), behind_a_writer);
}

#[test]
fn a_permit_that_somebody_else_may_give_back_is_waited_for() {
    let mut w = resources(&[("a", 1), ("b", 2)]);
    w.claim("x", &[("a", WRITER)]);
    w.claim("y", &[("b", READER)]);
    let free = w.claim("z", &[("b", READER)]);
    w.claim("y", &[("a", WRITER)]);
    assert_eq!(circle(&mut w, "x", &[("b", READER)]), None);
    w.give_back(free);
    assert_eq!(w.holds([5]), [5], "the permit of the one who did not wait");
}

#[test]
fn nobody_is_known_who_does_not_say_who_it_is() {
    let mut w = resources(&[("a", 1)]);
    w.claim("", &[("a", WRITER)]);
    assert_eq!(circle(&mut w, "", &[("a", WRITER)]), None);
}
