//! Who gets a resource, when, and what becomes of those who do not come back.

mod bytes;
mod circles;
mod preference;
mod refill;
mod several;
mod slewed;
mod watch;

use super::world::{NONE, World};
use crate::core::{
    Caller, ClaimEnd, ClaimNo, ClaimPhase, ClaimSpec, ClaimState, ClaimView, Command, Mode,
    Namespace, Proof, Reject, Reply, Request, ResourceField, ResourceReject, ResourceReply,
    ResourceSettings, ResourceVerb, Token, Want, model::limits::Limits,
};
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

const LEASE: Duration = Duration::from_secs(10);
const WRITER: Mode = Mode::Exclusive;
const READER: Mode = Mode::Shared(1);

fn caller(namespace: &str) -> Caller {
    Caller {
        namespace: Namespace(namespace.into()),
        name: "test".into(),
    }
}

pub(super) fn settings(capacity: u32) -> ResourceSettings {
    ResourceSettings {
        capacity,
        ..ResourceSettings::default()
    }
}

pub(super) fn spec(owner: &str, wants: &[(&str, Mode)]) -> ClaimSpec {
    let want = |(name, mode): &(&str, Mode)| Want {
        name: (*name).into(),
        mode: *mode,
    };
    ClaimSpec {
        namespace: Namespace("default".into()),
        wants: wants.iter().map(want).collect(),
        owner: owner.into(),
        caller: "test".into(),
        reason: "why".into(),
        labels: Default::default(),
        request: None,
        lease: LEASE,
        wait: None,
        task: None,
    }
}

impl World {
    pub(super) fn ask(&mut self, verb: ResourceVerb) -> Result<ResourceReply, Reject> {
        let caller = caller("default");
        match self.command(Command::Resource { caller, verb }) {
            Some(Reply::Resource(reply)) => Ok(*reply),
            Some(Reply::Rejected(reject)) => Err(reject),
            other => panic!("answered with {other:?}"),
        }
    }

    pub(super) fn define(&mut self, name: &str, settings: ResourceSettings) {
        let name = name.into();
        self.ask(ResourceVerb::Create { name, settings })
            .expect("it is new");
    }

    pub(super) fn resize(&mut self, name: &str, capacity: u32) {
        self.ask(ResourceVerb::Update {
            name: name.into(),
            settings: settings(capacity),
            fields: vec![ResourceField::Capacity],
        })
        .expect("it is there");
    }

    fn try_claim(&mut self, spec: ClaimSpec) -> Result<ClaimView, Reject> {
        let verb = ResourceVerb::Acquire {
            spec: Arc::new(spec),
            if_free: false,
        };
        claim(self.ask(verb))
    }

    /// Claims resources; returns the number.
    pub(super) fn claim(&mut self, owner: &str, wants: &[(&str, Mode)]) -> i64 {
        let claimed = self.try_claim(spec(owner, wants));
        claimed.expect("it is accepted").no.0
    }

    pub(super) fn look(&mut self, no: i64) -> ClaimView {
        claim(self.ask(ResourceVerb::Look(ClaimNo(no)))).expect("it is known")
    }

    pub(super) fn token(&mut self, no: i64) -> Option<Token> {
        self.look(no).state.granted().map(|(token, _)| token)
    }

    pub(super) fn give_back(&mut self, no: i64) {
        let verb = ResourceVerb::Release {
            claim: ClaimNo(no),
            token: self.token(no),
        };
        claim(self.ask(verb)).expect("with its own token");
    }

    fn renew(&mut self, no: i64) -> Result<ClaimView, Reject> {
        let token = self.token(no);
        self.renew_with(no, token)
    }

    fn renew_with(&mut self, no: i64, token: Option<Token>) -> Result<ClaimView, Reject> {
        claim(self.ask(ResourceVerb::Renew {
            claim: ClaimNo(no),
            proof: Proof::Token(token),
        }))
    }

    /// Those of the claims that hold what they ask for.
    fn holds(&mut self, claims: impl IntoIterator<Item = i64>) -> Vec<i64> {
        let holds = |no: &i64| self.look(*no).state.phase() == ClaimPhase::Held;
        claims.into_iter().filter(holds).collect()
    }

    fn end(&mut self, no: i64) -> Option<ClaimEnd> {
        match self.look(no).state {
            ClaimState::Ended { ending, .. } => Some(ending.how),
            _ => None,
        }
    }
}

fn claim(reply: Result<ResourceReply, Reject>) -> Result<ClaimView, Reject> {
    match reply? {
        ResourceReply::Claim(view, _) => Ok(view),
        other => panic!("answered with {other:?}"),
    }
}

#[test]
fn a_writer_waits_for_readers_and_later_readers_wait_for_it() {
    let mut w = World::new(0);
    w.define("orders", settings(2));
    let claims = [READER, READER, READER, WRITER, READER];
    let claims = claims.map(|mode| w.claim("", &[("orders", mode)]));
    assert_eq!(w.holds(claims), [1, 2]);
    w.give_back(1);
    assert_eq!(w.holds(claims), [2, 3]);
    w.give_back(2);
    w.give_back(3);
    assert_eq!(w.holds(claims), [4], "the writer alone");
    assert_eq!(w.look(5).position, 1);
    w.give_back(4);
    assert_eq!(w.holds(claims), [5]);
}

#[test]
fn tokens_rise_over_takeovers_deletion_and_checkpoints() {
    let limits = Limits {
        checkpoint_tasks: 2,
        ended_claims: 0,
        ..Limits::default()
    };
    let mut w = World::limited(0, limits);
    let mut last = Token(0);
    for round in 0..6 {
        w.define("orders", settings(1));
        let no = w.claim("", &[("orders", WRITER)]);
        let token = w.token(no).expect("granted");
        assert!(token > last, "{token:?} after {last:?}");
        last = token;
        w.give_back(no);
        w.ask(ResourceVerb::Delete("orders".into())).expect("idle");
        if round % 2 == 0 {
            w.crash();
        }
    }
}

#[test]
fn a_hold_that_is_not_renewed_ends_and_others_get_it_after_the_delay() {
    let mut w = World::new(0);
    let delay = Duration::from_secs(5);
    w.define(
        "orders",
        ResourceSettings {
            lock_delay: delay,
            ..settings(1)
        },
    );
    let [first, second] = [(); 2].map(|()| w.claim("", &[("orders", WRITER)]));
    w.seconds(9.0);
    w.renew(first).expect("in time");
    w.renew(second).expect("it waits");
    w.seconds(9.0);
    w.renew(second).expect("it waits");
    assert_eq!(w.holds([first, second]), [first]);
    w.seconds(1.0);
    assert_eq!(w.end(first), Some(ClaimEnd::Expired));
    assert_eq!(w.holds([second]), NONE, "whoever lost it may not know yet");
    w.crash();
    w.seconds(4.9);
    assert_eq!(w.holds([second]), NONE);
    w.seconds(0.1);
    assert_eq!(w.holds([second]), [second]);
    let refused = w.renew(first).expect_err("it is over");
    assert!(matches!(
        refused,
        Reject::Resource(ResourceReject::ClaimEnded(_))
    ));
}

#[test]
fn a_claim_in_waiting_ends_by_its_own_limit_or_when_nobody_renews_it() {
    let mut w = World::new(0);
    w.define("orders", settings(1));
    let holder = w.claim("", &[("orders", WRITER)]);
    let patient = ClaimSpec {
        wait: Some(Duration::from_secs(4)),
        ..spec("", &[("orders", WRITER)])
    };
    let limited = w.try_claim(patient).expect("accepted").no.0;
    let left = w.claim("", &[("orders", WRITER)]);
    w.seconds(4.0);
    assert_eq!(w.end(limited), Some(ClaimEnd::TimedOut));
    w.renew(holder).expect("held");
    w.seconds(6.0);
    assert_eq!(w.end(left), Some(ClaimEnd::Abandoned));
    assert_eq!(w.end(holder), None);
}

#[test]
fn a_takeover_and_an_outage_give_every_open_claim_a_whole_lease() {
    let mut w = World::new(0);
    w.define("orders", settings(1));
    let claims = [(); 2].map(|()| w.claim("", &[("orders", WRITER)]));
    w.seconds(9.9);
    w.crash();
    w.seconds(9.9);
    assert_eq!(claims.map(|no| w.end(no)), [None; 2]);
    w.shard.set_outage(w.now, true);
    w.seconds(60.0);
    assert_eq!(claims.map(|no| w.end(no)), [None; 2]);
    w.shard.set_outage(w.now, false);
    w.seconds(9.9);
    assert_eq!(claims.map(|no| w.end(no)), [None; 2]);
    w.seconds(0.1);
    let ends = [ClaimEnd::Expired, ClaimEnd::Abandoned].map(Some);
    assert_eq!(claims.map(|no| w.end(no)), ends);
}

#[test]
fn renewing_writes_nothing() {
    let mut w = World::new(0);
    w.define("orders", settings(1));
    let no = w.claim("", &[("orders", WRITER)]);
    let before = w.remembered.resources.clone();
    for _ in 0..100 {
        w.seconds(5.0);
        w.renew(no).expect("in time");
    }
    assert_eq!(w.remembered.resources, before);
}

#[test]
fn no_hold_is_longer_than_the_resource_allows() {
    let mut w = World::new(0);
    let longest = Some(Duration::from_secs(12));
    w.define(
        "orders",
        ResourceSettings {
            max_hold: longest,
            ..settings(1)
        },
    );
    let no = w.claim("", &[("orders", WRITER)]);
    assert_eq!(w.look(no).hold_left, longest);
    w.seconds(8.0);
    let renewed = w.renew(no).expect("in time");
    assert_eq!(renewed.hold_left, Some(Duration::from_secs(4)));
    w.seconds(4.0);
    assert_eq!(w.end(no), Some(ClaimEnd::HeldTooLong));
}

#[test]
fn a_lower_capacity_ends_no_hold_and_drains() {
    let mut w = World::new(0);
    w.define("disk", settings(3));
    let claims = [(); 5].map(|()| w.claim("", &[("disk", READER)]));
    w.resize("disk", 1);
    assert_eq!(w.holds(claims), [1, 2, 3]);
    w.give_back(1);
    w.give_back(2);
    assert_eq!(w.holds(claims), [3]);
    w.resize("disk", 0);
    w.give_back(3);
    assert_eq!(w.holds(claims), NONE, "it is closed");
    w.resize("disk", 2);
    assert_eq!(w.holds(claims), [4, 5]);
}

#[test]
fn a_call_made_again_has_the_same_claim_also_after_its_end_and_a_takeover() {
    let mut w = World::new(0);
    w.define("orders", settings(1));
    let call = |id, hash| ClaimSpec {
        request: Some(Request {
            id: Uuid::from_u128(id),
            hash,
        }),
        ..spec("", &[("orders", WRITER)])
    };
    let no = w.try_claim(call(1, 1)).expect("accepted").no;
    w.crash();
    assert_eq!(w.try_claim(call(1, 1)).map(|view| view.no), Ok(no));
    let other = w.try_claim(call(1, 2));
    assert_eq!(other.unwrap_err(), Reject::RequestIdReused);
    w.give_back(no.0);
    w.crash();
    let again = w.try_claim(call(1, 1)).expect("it is remembered");
    assert_eq!((again.no, again.state.phase()), (no, ClaimPhase::Ended));
    w.seconds(16.0 * 60.0);
    let anew = w.try_claim(call(1, 1)).expect("it is forgotten");
    assert_eq!(anew.state.phase(), ClaimPhase::Held);
}

#[test]
fn a_hold_is_released_with_its_token_once_and_by_nobody_else() {
    let mut w = World::new(0);
    w.define("orders", settings(1));
    let no = w.claim("", &[("orders", WRITER)]);
    let with = |token| ResourceVerb::Release {
        claim: ClaimNo(no),
        token,
    };
    let wrong = Err(Reject::Resource(ResourceReject::WrongToken));
    for token in [None, Some(Token(77))] {
        assert_eq!(claim(w.ask(with(token))).map(|view| view.no), wrong);
        assert_eq!(w.renew_with(no, token).map(|view| view.no), wrong);
    }
    let own = w.token(no);
    for is_first in [true, false] {
        let Ok(ResourceReply::Claim(_, changed)) = w.ask(with(own)) else {
            panic!("it is idempotent");
        };
        assert_eq!(changed, is_first);
    }
    let stranger = Command::Resource {
        caller: caller("other"),
        verb: ResourceVerb::Look(ClaimNo(no)),
    };
    let unknown = Reject::Resource(ResourceReject::UnknownClaim);
    assert!(matches!(w.command(stranger), Some(Reply::Rejected(reject)) if reject == unknown));
}

#[test]
fn whoever_waits_for_a_change_is_told_with_the_batch_that_brings_it() {
    let mut w = World::new(0);
    w.define("orders", settings(1));
    let [first, second] = [(); 2].map(|()| w.claim("", &[("orders", WRITER)]));
    let verb = ResourceVerb::Await {
        claim: ClaimNo(second),
        phase: ClaimPhase::Waiting,
    };
    let awaits = Command::Resource {
        caller: caller("default"),
        verb,
    };
    assert!(w.command(awaits).is_none());
    let verb = ResourceVerb::Release {
        claim: ClaimNo(first),
        token: w.token(first),
    };
    let released = Command::Resource {
        caller: caller("default"),
        verb,
    };
    let phases = w.commands([released]).into_iter().map(|reply| match reply {
        Reply::Resource(reply) => claim(Ok(*reply)).expect("a claim").state.phase(),
        other => panic!("answered with {other:?}"),
    });
    let expected = [ClaimPhase::Held, ClaimPhase::Ended];
    assert_eq!(phases.collect::<Vec<_>>(), expected);
}
