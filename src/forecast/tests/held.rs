//! What forecasts say of tasks that want resources which somebody else has.

use super::{
    answers::{assert_about, seconds, seen, simply},
    world::{Law, World, spec},
};
use crate::{
    core::{
        Caller, ClaimSpec, Command, Handle, Mode, Namespace, Order, ResourceSettings, ResourceVerb,
        Run, Spec, Want,
    },
    forecast::Reason,
};
use std::{sync::Arc, time::Duration};

const TWO: Law = Law::Constant(2.0);

fn wants(name: &str) -> Vec<Want> {
    let mode = Mode::Shared(1);
    vec![Want {
        name: name.into(),
        mode,
    }]
}

fn ask(w: &mut World, verb: ResourceVerb) {
    let caller = Caller {
        namespace: Namespace("default".into()),
        name: "test".into(),
    };
    let reply = w.command(Command::Resource { caller, verb });
    assert!(
        matches!(reply, Some(crate::core::Reply::Resource(_))),
        "{reply:?}"
    );
}

fn define(w: &mut World, name: &str, capacity: u32) {
    let settings = ResourceSettings {
        capacity,
        ..ResourceSettings::default()
    };
    let name = name.into();
    ask(w, ResourceVerb::Create { name, settings });
}

/// Somebody claims a permit, and is to renew it every ten seconds.
fn claim(w: &mut World, name: &str) {
    let spec = ClaimSpec {
        namespace: Namespace("default".into()),
        wants: wants(name),
        owner: "somebody".into(),
        caller: "test".into(),
        reason: "why".into(),
        labels: Default::default(),
        request: None,
        lease: Duration::from_secs(10),
        wait: None,
        task: None,
    };
    let spec = Arc::new(spec);
    let if_free = false;
    ask(w, ResourceVerb::Acquire { spec, if_free });
}

/// Two tasks without resources, then two that want one.
fn submit(w: &mut World, name: &str) -> Handle {
    let handle = w.open(|_| {});
    let plain = spec(0);
    let mut wanting = Spec::clone(&plain);
    wanting.options.resources = wants(name).into();
    let run = |order, spec| Run {
        count: 2,
        order: Some(Order(order)),
        spec,
    };
    w.submit_runs(handle, vec![run(1, plain), run(2, Arc::new(wanting))]);
    handle
}

#[test]
fn a_resource_that_somebody_holds_makes_the_end_unknown_and_is_named() {
    let mut w = World::new(1, 2, vec![TWO]);
    define(&mut w, "printer", 1);
    claim(&mut w, "printer");
    let s = submit(&mut w, "printer");
    let made = simply(&mut w, s, &seen(&[TWO], 50));
    assert_about(seconds(&w, &made.orders[0].end).0, 2.0);
    let held = [Reason::Claimed("printer".into())];
    assert_eq!((made.all.p50, &made.all.reasons[..]), (None, &held[..]));
    assert_eq!(made.orders[1].end.p90, None);
}

#[test]
fn with_permits_left_beside_those_that_somebody_holds_it_ends() {
    let mut w = World::new(1, 2, vec![TWO]);
    define(&mut w, "printer", 2);
    claim(&mut w, "printer");
    let s = submit(&mut w, "printer");
    let made = simply(&mut w, s, &seen(&[TWO], 50));
    // One after the other in the permit that is left.
    assert_about(seconds(&w, &made.all).0, 6.0);
    assert!(made.all.reasons.is_empty(), "{:?}", made.all);
}
