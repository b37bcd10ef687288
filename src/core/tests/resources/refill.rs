//! Resources whose permits come back by time.

use super::{READER, WRITER, settings, spec};
use crate::core::{
    ClaimEnd, ClaimPhase, Mode, Refill, Reject, ResourceField, ResourceReject, ResourceSettings,
    ResourceVerb,
    model::limits::Limits,
    tests::world::{NONE, World},
};
use std::time::Duration;

fn rate(capacity: u32, permits: u32, seconds: u64) -> ResourceSettings {
    ResourceSettings {
        refill: Some(Refill {
            permits,
            period: Duration::from_secs(seconds),
        }),
        ..settings(capacity)
    }
}

#[test]
fn as_many_pass_as_there_are_permits_and_then_one_after_the_other() {
    let mut w = World::new(0);
    w.define("mail", rate(3, 1, 2));
    let claims = [(); 6].map(|()| w.claim("", &[("mail", READER)]));
    assert_eq!(w.holds(claims), claims[..3]);
    w.give_back(1);
    w.give_back(2);
    assert_eq!(
        w.holds(claims),
        [3],
        "what is given back does not come back"
    );
    w.seconds(1.9);
    assert_eq!(w.holds(claims), [3]);
    w.seconds(0.1);
    assert_eq!(w.holds(claims), [3, 4]);
    w.seconds(2.0);
    assert_eq!(w.holds(claims), [3, 4, 5]);
    w.seconds(2.0);
    assert_eq!(w.holds(claims), claims[2..]);
}

#[test]
fn a_request_that_comes_when_permits_are_back_keeps_nobody_waiting() {
    let mut w = World::new(0);
    w.define("mail", rate(1, 1, 2));
    w.claim("", &[("mail", READER)]);
    let first = w.claim("", &[("mail", READER)]);
    let second = w.claim("", &[("mail", READER)]);
    w.now = w.now + Duration::from_secs(2);
    let third = w.claim("", &[("mail", READER)]);
    assert_eq!(w.holds([first, second, third]), [first]);
}

#[test]
fn a_turn_that_comes_by_another_resource_takes_permits_that_come_back_all_the_same() {
    let mut w = World::new(0);
    w.define("mail", rate(1, 1, 2));
    w.define("lock", settings(1));
    let holder = w.claim("", &[("lock", WRITER)]);
    let both = w.claim("", &[("lock", WRITER), ("mail", READER)]);
    let last = w.claim("", &[("mail", READER)]);
    w.give_back(holder);
    assert_eq!(w.holds([both, last]), [both]);
    w.seconds(2.0);
    assert_eq!(w.holds([both, last]), [both, last]);
}

#[test]
fn whoever_asks_for_many_is_not_passed_and_the_wait_is_known() {
    let mut w = World::new(0);
    w.define("mail", rate(10, 10, 1));
    let all = w.claim("", &[("mail", Mode::Shared(10))]);
    let many = w.claim("", &[("mail", Mode::Shared(8))]);
    let one = w.claim("", &[("mail", READER)]);
    assert_eq!(w.holds([all, many, one]), [all]);
    let wait = w.look(many).expected_wait;
    assert_eq!(wait, Some(Duration::from_millis(800)));
    w.seconds(0.7);
    assert_eq!(w.holds([many, one]), NONE);
    w.seconds(0.1);
    assert_eq!(w.holds([many, one]), [many]);
    w.seconds(0.1);
    assert_eq!(w.holds([many, one]), [many, one]);
}

#[test]
fn nothing_is_guessed_of_a_wait_for_what_has_no_capacity() {
    let mut w = World::new(0);
    w.define("mail", rate(10, 10, 1));
    w.define("closed", settings(0));
    let all = w.claim("", &[("mail", Mode::Shared(10))]);
    let both = w.claim("", &[("closed", READER), ("mail", Mode::Shared(8))]);
    assert_eq!(w.holds([all, both]), [all]);
    let seen = w.look(both);
    assert_eq!((seen.position, seen.expected_wait), (1, None));
}

#[test]
fn a_new_owner_gives_no_more_than_the_rate() {
    let limits = Limits {
        checkpoint_tasks: 1,
        ended_claims: 0,
        ..Limits::default()
    };
    let mut w = World::limited(0, limits);
    w.define("day/*", rate(2, 2, 86_400));
    for _ in 0..2 {
        let no = w.claim("", &[("day/a", READER)]);
        w.give_back(no);
        w.crash();
    }
    // Long after the claims themselves are forgotten, others are remembered.
    w.seconds(3_600.0);
    for hour in 2..=25 {
        let other = w.claim("", &[("day/b", READER)]);
        w.give_back(other);
        w.crash();
        let claimed = w.claim("", &[("day/a", READER)]);
        let held = w.holds([claimed]);
        assert_eq!(held.is_empty(), hour != 13 && hour != 25, "at hour {hour}");
        w.give_back(claimed);
        w.seconds(3_600.0);
    }
}

#[test]
fn two_takeovers_in_a_row_give_no_more_than_the_rate_however_many_names_it_is_of() {
    let limits = Limits {
        checkpoint_tasks: 1,
        ended_claims: 0,
        slice: 1,
        ..Limits::default()
    };
    let mut w = World::limited(0, limits);
    w.define("day/*", rate(1, 1, 86_400));
    w.define("x", settings(1));
    for name in ["day/a", "day/b", "day/c", "x"] {
        let no = w.claim("", &[(name, READER)]);
        w.give_back(no);
    }
    w.crash();
    w.crash();
    for name in ["day/a", "day/b", "day/c"] {
        let no = w.claim("", &[(name, READER)]);
        assert_eq!(w.holds([no]), NONE, "{name}");
    }
}

#[test]
fn what_has_come_back_is_forgotten() {
    let mut w = World::new(0);
    w.define("key/*", rate(1, 1, 1));
    for key in 0..100 {
        let no = w.claim("", &[(&format!("key/{key}"), READER)]);
        w.give_back(no);
    }
    let names = |w: &mut World| match w.ask(ResourceVerb::Get {
        name: "key/*".into(),
        limit: 1,
    }) {
        Ok(super::ResourceReply::Resource(view, _)) => (view.names, view.used),
        other => panic!("answered with {other:?}"),
    };
    assert_eq!(names(&mut w), (100, 100));
    w.seconds(1.0);
    assert_eq!(names(&mut w), (0, 0));
}

#[test]
fn a_hold_of_a_rate_has_a_lease_and_keeps_nobody_out() {
    let mut w = World::new(0);
    let delayed = ResourceSettings {
        lock_delay: Duration::from_secs(600),
        max_hold: Some(Duration::from_secs(1)),
        ..rate(1, 1, 1)
    };
    w.define("mail", delayed);
    w.define("lock", settings(1));
    let both = w.claim("", &[("lock", WRITER), ("mail", READER)]);
    let next = w.claim("", &[("mail", READER)]);
    w.seconds(1.0);
    assert_eq!(w.holds([both, next]), [both, next]);
    w.seconds(9.0);
    assert_eq!(w.end(both), Some(ClaimEnd::Expired));
    let again = w.claim("", &[("lock", WRITER), ("mail", READER)]);
    assert_eq!(w.look(again).state.phase(), ClaimPhase::Held);
}

#[test]
fn nobody_has_a_rate_alone() {
    let mut w = World::new(0);
    w.define("mail", rate(2, 1, 1));
    let refused = w.try_claim(spec("", &[("mail", WRITER)]));
    let refills = Reject::Resource(ResourceReject::PermitsRefill("mail".into()));
    assert_eq!(refused.map(|view| view.no), Err(refills));
}

#[test]
fn a_changed_rate_counts_from_the_last_grant() {
    let mut w = World::new(0);
    w.define("mail", rate(1, 1, 100));
    let [_, second, third] = [(); 3].map(|()| w.claim("", &[("mail", READER)]));
    w.seconds(1.0);
    let update = |settings| ResourceVerb::Update {
        name: "mail".into(),
        settings,
        fields: vec![ResourceField::Refill],
    };
    w.ask(update(rate(1, 1, 2))).expect("it is there");
    w.seconds(0.9);
    assert_eq!(w.holds([second]), NONE);
    w.seconds(0.1);
    assert_eq!(w.holds([second, third]), [second]);
    w.ask(update(settings(1))).expect("it is there");
    assert_eq!(
        w.holds([second, third]),
        [second, third],
        "nothing is missing"
    );
}

#[test]
fn a_thousand_at_a_time_are_granted_by_time_alone() {
    let mut w = World::new(0);
    w.define("fast", rate(1, 1_000_000, 1));
    let claims: Vec<i64> = (0..1_000)
        .map(|_| w.claim("", &[("fast", READER)]))
        .collect();
    let mut steps = 0;
    while w.holds([claims[999]]).is_empty() {
        w.seconds(0.000_001);
        steps += 1;
        assert!(steps < 1_000, "one each microsecond");
    }
}
