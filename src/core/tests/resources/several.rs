//! Claims on several resources at once, and patterns of names.

use super::{READER, WRITER, settings};
use crate::core::{
    ClaimNo, ClaimPhase, Command, Mode, Reject, ResourceReject, ResourceReply, ResourceVerb,
    model::limits::Limits,
    scheduler::queue::step_counter::steps_of,
    tests::world::{NONE, World},
};

#[test]
fn one_who_wants_many_permits_is_not_passed_by_those_who_want_few() {
    let mut w = World::new(0);
    w.define("disk", settings(3));
    let claims = [2, 3, 1].map(|permits| w.claim("", &[("disk", Mode::Shared(permits))]));
    assert_eq!(w.holds(claims), [1]);
    w.give_back(1);
    assert_eq!(w.holds(claims), [2]);
    w.give_back(2);
    assert_eq!(w.holds(claims), [3]);
}

#[test]
fn several_resources_are_granted_together_or_not_at_all() {
    let mut w = World::new(0);
    w.define("a", settings(1));
    w.define("b", settings(1));
    let first = w.claim("", &[("a", WRITER)]);
    let both = w.claim("", &[("a", WRITER), ("b", WRITER)]);
    let later = w.claim("", &[("b", WRITER)]);
    assert_eq!(w.holds([first, both, later]), [first]);
    w.give_back(first);
    assert_eq!(
        w.holds([both, later]),
        [both],
        "its place was kept in both queues"
    );
    w.give_back(both);
    assert_eq!(w.holds([later]), [later]);
}

#[test]
fn whoever_takes_nothing_from_an_earlier_claim_passes_it() {
    let mut w = World::new(0);
    w.define("a", settings(1));
    w.define("b", settings(3));
    let first = w.claim("", &[("a", WRITER)]);
    let waits = w.claim("", &[("a", WRITER), ("b", Mode::Shared(2))]);
    let passes = w.claim("", &[("b", READER)]);
    let kept_out = w.claim("", &[("b", READER)]);
    assert_eq!(w.holds([waits, passes, kept_out]), [passes]);
    w.give_back(first);
    assert_eq!(w.holds([waits, passes, kept_out]), [waits, passes]);
}

#[test]
fn opposite_orders_cannot_block_each_other() {
    let mut w = World::new(0);
    w.define("a", settings(1));
    w.define("b", settings(1));
    let claims = [["a", "b"], ["b", "a"], ["a", "b"]]
        .map(|names| w.claim("", &names.map(|name| (name, WRITER))));
    for no in claims {
        assert_eq!(w.holds(claims), [no]);
        w.give_back(no);
    }
}

#[test]
fn a_name_below_a_pattern_is_a_resource_of_its_own_while_it_is_used() {
    let mut w = World::new(0);
    w.define("tenant/*", settings(1));
    w.define("tenant/vip/*", settings(2));
    let claims = [
        "tenant/1",
        "tenant/2",
        "tenant/1",
        "tenant/vip/9",
        "tenant/vip/9",
    ]
    .map(|name| w.claim("", &[(name, READER)]));
    assert_eq!(w.holds(claims), [1, 2, 4, 5]);
    let Ok(ResourceReply::Resources(all, false)) = w.ask(ResourceVerb::List {
        after: "".into(),
        limit: 10,
    }) else {
        panic!("a page")
    };
    let counts: Vec<_> = all
        .iter()
        .map(|one| (&*one.name, one.names, one.holds, one.waiting))
        .collect();
    assert_eq!(counts, [("tenant/*", 2, 2, 1), ("tenant/vip/*", 1, 2, 0)]);
    let deleted = w.ask(ResourceVerb::Delete("tenant/*".into()));
    assert!(matches!(
        deleted,
        Err(Reject::Resource(ResourceReject::ResourceInUse {
            holds: 2,
            waiting: 1
        }))
    ));
    [1, 2, 3].into_iter().for_each(|no| w.give_back(no));
    w.ask(ResourceVerb::Delete("tenant/*".into()))
        .expect("idle");
    let unknown = w.try_claim(super::spec("", &[("tenant/1", READER)]));
    assert!(matches!(
        unknown,
        Err(Reject::Resource(ResourceReject::UnknownResource(_)))
    ));
}

#[test]
fn what_is_in_use_follows_a_changed_definition_slice_by_slice() {
    let limits = Limits {
        slice: 1,
        ..Limits::default()
    };
    let mut w = World::limited(0, limits);
    let (pattern, single) = ("tenant/*", "single");
    w.define(pattern, settings(1));
    w.define(single, settings(1));
    let mut names: Vec<String> = (0..10).map(|name| format!("tenant/{name}")).collect();
    names.push(single.to_owned());
    let mut claims = Vec::new();
    for name in &names {
        claims.extend([(); 2].map(|()| w.claim("", &[(name, READER)])));
    }
    assert_eq!(w.holds(claims.clone()).len(), names.len());
    w.resize(pattern, 2);
    w.resize(single, 2);
    w.seconds(0.1);
    assert_eq!(w.holds(claims.clone()), claims);
}

#[test]
fn a_changed_definition_counts_at_once_also_where_it_is_followed_later() {
    let limits = Limits {
        slice: 1,
        ..Limits::default()
    };
    let mut w = World::limited(0, limits);
    let pattern = "tenant/*";
    w.define(pattern, settings(2));
    w.define("lock", settings(1));
    let names: Vec<String> = (0..20).map(|name| format!("tenant/{name:02}")).collect();
    let mut held: Vec<_> = names
        .iter()
        .map(|name| w.claim("", &[(name, READER)]))
        .collect();
    let one = w.claim("", &[("tenant/18", READER)]);
    let next = w.claim("", &[("tenant/18", READER)]);
    let lock = w.claim("", &[("lock", WRITER)]);
    let both = w.claim("", &[("lock", WRITER), ("tenant/17", READER)]);
    w.resize(pattern, 1);
    let late = w.claim("", &[("tenant/19", READER)]);
    w.give_back(one);
    w.give_back(lock);
    assert_eq!(
        w.holds([late, next, both]),
        NONE,
        "one has it, and that is all"
    );
    w.seconds(0.1);
    assert_eq!(w.holds([late, next, both]), NONE);
    held.drain(17..).for_each(|no| w.give_back(no));
    assert_eq!(w.holds([late, next, both]), [late, next, both]);
}

#[test]
fn what_is_not_free_at_once_leaves_no_claim() {
    let mut w = World::new(0);
    w.define("a", settings(1));
    w.define("b", settings(1));
    let first = w.claim("first", &[("a", WRITER)]);
    let verb = ResourceVerb::Acquire {
        spec: super::spec("second", &[("a", WRITER), ("b", WRITER)]).into(),
        if_free: true,
    };
    let Ok(ResourceReply::NotFree(holders)) = w.ask(verb.clone()) else {
        panic!("it is held")
    };
    assert_eq!(&*holders[0].owner, "first");
    let other = w.claim("", &[("b", WRITER)]);
    assert_eq!(w.holds([other]), [other], "nothing stands in its way");
    w.give_back(first);
    w.give_back(other);
    assert!(matches!(w.ask(verb), Ok(ResourceReply::Claim(..))));
}

#[test]
fn streams_of_one_claim_do_not_answer_each_other() {
    let mut w = World::new(0);
    w.define("a", settings(1));
    let [first, second] = [(); 2].map(|()| w.claim("", &[("a", WRITER)]));
    let awaits = || Command::Resource {
        caller: super::caller("default"),
        verb: ResourceVerb::Await {
            claim: ClaimNo(second),
            phase: ClaimPhase::Waiting,
        },
    };
    for _ in 0..4 {
        assert!(w.commands([awaits()]).is_empty(), "nothing has changed");
    }
    assert_eq!(w.commands([awaits()]).len(), 1, "so many and no more");
    let verb = ResourceVerb::Release {
        claim: ClaimNo(first),
        token: w.token(first),
    };
    let caller = super::caller("default");
    let replies = w.commands([Command::Resource { caller, verb }]);
    assert_eq!(replies.len(), 5, "the release, and all who wait");
}

#[test]
fn a_place_is_counted_among_those_of_the_queue_alone() {
    let mut w = World::new(0);
    w.define("a", settings(1));
    w.define("b", settings(1));
    let mut waiting = Vec::new();
    for _ in 0..600 {
        waiting.push(w.claim("", &[("a", WRITER)]));
        let other = w.claim("", &[("b", WRITER)]);
        w.give_back(other);
    }
    for gone in waiting.extract_if(1.., |no| *no % 3 == 0) {
        w.give_back(gone);
    }
    for (place, no) in waiting.iter().enumerate() {
        assert_eq!(w.look(*no).position, place as u64);
    }
}

#[test]
fn nobody_looks_at_those_who_wait_for_something_else_besides() {
    let mut w = World::new(0);
    for (name, capacity) in [("wide", 10_000), ("also wide", 10_000), ("narrow", 1)] {
        w.define(name, settings(capacity));
    }
    let wants = [("also wide", READER), ("narrow", WRITER), ("wide", READER)];
    let narrow = w.claim("", &[("narrow", WRITER)]);
    let passing = w.claim("", &[("also wide", READER), ("wide", READER)]);
    let mut waiting: Vec<i64> = (0..1_000).map(|_| w.claim("", &wants)).collect();
    let steps = steps_of(|| w.give_back(passing));
    assert!(steps <= 50, "{steps} steps of a release");
    let mut passing = 0;
    let steps = steps_of(|| passing = w.claim("", &[("wide", READER)]));
    assert!(steps <= 600, "{steps} steps of a claim");
    assert_eq!(w.holds([passing]), [passing]);
    let gone = waiting.remove(500);
    let steps = steps_of(|| w.give_back(gone));
    assert!(steps <= 1_500, "{steps} steps of one that is withdrawn");
    w.give_back(narrow);
    assert_eq!(w.holds(waiting.iter().copied()), waiting[..1]);
}

#[test]
fn a_claim_is_granted_by_whichever_of_its_resources_is_the_last_one_to_be_free() {
    let names = ["a", "b", "c"];
    for last in 0..3 {
        let mut w = World::new(0);
        names.iter().for_each(|name| w.define(name, settings(1)));
        let held = names.map(|name| w.claim("", &[(name, WRITER)]));
        let all = w.claim("", &names.map(|name| (name, WRITER)));
        for at in [1, 2, 3].map(|n| (last + n) % 3) {
            assert_eq!(w.holds([all]), NONE);
            w.give_back(held[at]);
        }
        assert_eq!(w.holds([all]), [all]);
        // Also after a takeover, which knows of nobody where it waits.
        let again = w.claim("", &names.map(|name| (name, WRITER)));
        w.crash();
        w.give_back(all);
        assert_eq!(w.holds([again]), [again]);
    }
}

#[test]
fn a_page_of_patterns_with_many_names_is_shorter() {
    let mut w = World::new(0);
    for pattern in 10..25 {
        w.define(&format!("{pattern}/*"), settings(1));
        for part in 0..10 {
            let names = (0..100).map(|name| format!("{pattern}/{part}/{name}"));
            let names: Vec<String> = names.collect();
            let wants: Vec<_> = names.iter().map(|name| (name.as_str(), WRITER)).collect();
            w.claim("", &wants);
        }
    }
    let (mut pages, mut after) = (Vec::new(), "".into());
    loop {
        let page = w.ask(ResourceVerb::List { after, limit: 100 });
        let Ok(ResourceReply::Resources(page, has_more)) = page else {
            panic!("a page")
        };
        assert!(page.iter().all(|one| one.names == 1_000));
        pages.push(page.len());
        after = page[page.len() - 1].name.clone();
        if !has_more {
            break;
        }
    }
    assert_eq!(pages, [10, 5]);
}
