//! Who would wait for itself is refused, and whoever might wait in vain is not.

use super::{READER, WRITER, settings, spec};
use crate::core::{
    Mode, Reject, ResourceReject, scheduler::queue::step_counter::steps_of, tests::world::World,
};

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

#[test]
fn whoever_leaves_room_is_not_in_the_way() {
    let mut w = World::new(0);
    w.define("pool", settings(3));
    w.define("b", settings(1));
    w.claim("", &[("pool", Mode::Shared(2))]);
    let own = w.claim("ann", &[("b", WRITER)]);
    let stuck = w.claim("eve", &[("b", WRITER), ("pool", READER)]);
    let asks = w.claim("ann", &[("pool", Mode::Shared(2))]);
    w.give_back(1);
    assert_eq!(w.holds([own, stuck, asks]), [own, asks]);
}

#[test]
fn what_is_left_by_others_may_be_too_little() {
    let mut w = World::new(0);
    w.define("pool", settings(3));
    w.claim("ann", &[("pool", Mode::Shared(2))]);
    w.claim("", &[("pool", READER)]);
    let found = circle(&mut w, "ann", &[("pool", Mode::Shared(2))]);
    assert_eq!(found, steps(&[("ann", "pool")]));
}

#[test]
fn a_circle_behind_all_holders_of_a_semaphore_is_found() {
    let mut w = World::new(0);
    w.define("pool", settings(2));
    w.define("b", settings(1));
    w.claim("pia", &[("pool", READER)]);
    w.claim("quin", &[("pool", READER)]);
    w.claim("ann", &[("b", WRITER)]);
    w.claim("ann", &[("pool", READER)]);
    w.claim("pia", &[("b", WRITER)]);
    let found = circle(&mut w, "quin", &[("b", WRITER)]).expect("a circle");
    assert_eq!(found[0], ("quin".to_owned(), "b".to_owned()));
}

#[test]
fn parts_of_one_work_wait_for_each_other_but_not_for_the_whole() {
    let mut w = World::new(0);
    w.define("a", settings(1));
    w.define("b", settings(1));
    w.claim("make", &[("a", WRITER)]);
    let first = w.claim("make/1", &[("b", WRITER)]);
    let second = w.claim("make/2", &[("b", WRITER)]);
    w.give_back(first);
    assert_eq!(w.holds([second]), [second]);
    let found = circle(&mut w, "make/2", &[("a", WRITER)]);
    assert_eq!(found, steps(&[("make/2", "a")]));
}

#[test]
fn who_holds_a_resource_is_looked_at_once_however_many_wait_for_it() {
    let mut w = resources(&[("pool", 200), ("tenant/*", 1)]);
    for n in 0..200 {
        w.claim(&format!("holder {n}"), &[("pool", READER)]);
    }
    for n in 0..150 {
        let owner = format!("waiter {n}");
        w.claim(&owner, &[(format!("tenant/{n}").as_str(), WRITER)]);
        let steps = steps_of(|| {
            w.claim(&owner, &[("pool", READER)]);
        });
        assert!(steps <= 1_000, "{steps} steps");
    }
}
