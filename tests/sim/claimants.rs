//! Model callers that claim resources: they renew some claims, release some, and forget about
//! others; what nobody told them they ask again under the same request id.

use crate::rng::Rng;
use rallypoint::{
    coordinator::machine::Envelope,
    core::{
        Caller, ClaimNo, ClaimPhase, ClaimSpec, ClaimView, Command, Mode, Namespace, Proof, Refill,
        Reply, Request, ResourceField, ResourceKey, ResourceReply, ResourceSettings, ResourceVerb,
        Ticket, Time, Token, Want,
    },
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use uuid::Uuid;

/// Whose resources there are: those of the schedulers and of jobs, whose tasks hold them too.
const NAMESPACES: [&str; 3] = ["one", "two", "jobs"];
/// Where claimants claim them.
const CLAIMED: [&str; 2] = ["one", "jobs"];
/// Their tickets are those from here on.
const FIRST_TICKET: u64 = 1 << 40;
/// Claims that are known to be open at a time, about.
const OPEN: usize = 8;
const OWNERS: [&str; 4] = ["", "ann", "ben", "cleo"];
/// What they claim, and the definitions for that.
const NAMES: [&str; 8] = [
    "lock", "pool", "rw", "news", "key/1", "key/2", "rate/1", "rate/2",
];
const DEFINITIONS: [(&str, u32, u64, Option<u64>); 6] = [
    ("lock", 1, 3, None),
    ("pool", 3, 0, None),
    ("rw", 2, 0, Some(20)),
    ("news", 2, 0, None),
    ("key/*", 1, 1, None),
    ("rate/*", 2, 0, None),
];

/// Slow beside the time that is simulated, so that takeovers come between.
const REFILL: Refill = Refill {
    permits: 2,
    period: Duration::from_secs(9),
};

pub(crate) struct Claimants {
    rng: Rng,
    next: u64,
    /// Resources that are known to be there.
    defined: BTreeSet<ResourceKey>,
    /// Calls whose answer is still to come.
    asked: FxHashMap<Ticket, (ResourceVerb, Time)>,
    /// Calls of unknown outcome.
    unknown: Vec<ResourceVerb>,
    /// Claims by request.
    claims: BTreeMap<Uuid, ClaimNo>,
    /// Open claims, as far as was told, with their namespace and token.
    known: BTreeMap<ClaimNo, (Namespace, Option<Token>)>,
}

impl Claimants {
    pub(crate) fn new(seed: u64) -> Self {
        Claimants {
            rng: Rng::new(seed ^ 0x5eed_c1a1),
            next: FIRST_TICKET,
            defined: BTreeSet::new(),
            asked: FxHashMap::default(),
            unknown: Vec::new(),
            claims: BTreeMap::new(),
            known: BTreeMap::new(),
        }
    }

    /// Something one of them does now.
    pub(crate) fn act(&mut self, now: Time) -> Option<Envelope> {
        if !self.rng.percent(40) {
            return None;
        }
        let verb = match self.unknown.pop() {
            Some(verb) => verb,
            None if !self.have_defined() => return Some(self.define(now)),
            None => self.verb()?,
        };
        Some(self.say(now, verb))
    }

    /// Whether every resource is there.
    pub(crate) fn have_defined(&self) -> bool {
        self.defined.len() == NAMESPACES.len() * DEFINITIONS.len()
    }

    fn say(&mut self, now: Time, verb: ResourceVerb) -> Envelope {
        let of = match &verb {
            ResourceVerb::Acquire { spec, .. } => Some(&spec.namespace),
            ResourceVerb::Renew { claim, .. }
            | ResourceVerb::Release { claim, .. }
            | ResourceVerb::ForceRelease { claim, .. }
            | ResourceVerb::Await { claim, .. }
            | ResourceVerb::Look(claim) => self.known.get(claim).map(|(of, _)| of),
            _ => None,
        };
        let namespace = of.cloned();
        let namespace = namespace.unwrap_or_else(|| namespace_of(&mut self.rng));
        self.say_as(now, namespace, verb)
    }

    fn say_as(&mut self, now: Time, namespace: Namespace, verb: ResourceVerb) -> Envelope {
        self.next += 1;
        let ticket = Ticket(self.next);
        self.asked.insert(ticket, (verb.clone(), now));
        let caller = Caller {
            namespace,
            name: "claimant".into(),
        };
        Envelope {
            ticket: Some(ticket),
            command: Command::Resource { caller, verb },
        }
    }

    fn define(&mut self, now: Time) -> Envelope {
        let all = NAMESPACES
            .iter()
            .flat_map(|of| DEFINITIONS.map(|one| (*of, one)));
        let is_missing = |(of, (name, ..)): &(&str, (&str, u32, u64, Option<u64>))| {
            let mut known = self.defined.iter();
            !known.any(|key| (&*key.namespace.0, &*key.name) == (*of, *name))
        };
        let mut missing = all.filter(is_missing);
        let (namespace, (name, capacity, delay, max_hold)) =
            missing.next().expect("one is missing");
        let create = ResourceVerb::Create {
            name: name.into(),
            settings: ResourceSettings {
                capacity,
                lock_delay: Duration::from_secs(delay),
                max_hold: max_hold.map(Duration::from_secs),
                refill: name.starts_with("rate").then_some(REFILL),
                reader_preferred: name == "news",
            },
        };
        self.say_as(now, Namespace(namespace.into()), create)
    }

    fn verb(&mut self) -> Option<ResourceVerb> {
        let known = self.known.iter().map(|(no, (_, token))| (*no, *token));
        let known: Vec<_> = known.collect();
        if known.is_empty() || known.len() < OPEN && self.rng.percent(30) {
            return Some(self.acquire());
        }
        let (claim, token) = *self.rng.one_of(&known);
        Some(match self.rng.below(20) {
            0..=8 => ResourceVerb::Renew {
                claim,
                proof: match self.rng.percent(30) {
                    true => Proof::Stream,
                    false => Proof::Token(token),
                },
            },
            9..=13 => ResourceVerb::Release { claim, token },
            14 => ResourceVerb::ForceRelease {
                claim,
                reason: "why".into(),
            },
            15..=16 => ResourceVerb::Look(claim),
            17 => ResourceVerb::Update {
                name: self.rng.one_of(&DEFINITIONS).0.into(),
                settings: ResourceSettings {
                    capacity: 1 + self.rng.below(3) as u32,
                    ..ResourceSettings::default()
                },
                fields: vec![ResourceField::Capacity],
            },
            // Whoever comes back after long.
            18 => {
                self.known.remove(&claim);
                return None;
            }
            _ => ResourceVerb::Await {
                claim,
                phase: match token {
                    Some(_) => ClaimPhase::Held,
                    None => ClaimPhase::Waiting,
                },
            },
        })
    }

    fn acquire(&mut self) -> ResourceVerb {
        let mut names: Vec<&str> = (0..=self.rng.place(2))
            .map(|_| *self.rng.one_of(&NAMES))
            .collect();
        names.sort_unstable();
        names.dedup();
        let want = |name: &str, rng: &mut Rng| Want {
            name: name.into(),
            mode: match rng.below(3) {
                0 if !name.starts_with("rate") => Mode::Exclusive,
                0 => Mode::Shared(1),
                permits => Mode::Shared(if name == "pool" { permits as u32 } else { 1 }),
            },
        };
        let rng = &mut self.rng;
        let spec = ClaimSpec {
            namespace: namespace_of(rng),
            wants: names.into_iter().map(|name| want(name, rng)).collect(),
            owner: (*rng.one_of(&OWNERS)).into(),
            caller: "claimant".into(),
            reason: "why".into(),
            labels: BTreeMap::new(),
            request: Some(Request {
                id: Uuid::from_u128(1 + u128::from(rng.next())),
                hash: 1,
            }),
            lease: Duration::from_secs(1 + rng.below(10)),
            wait: rng.percent(30).then(|| Duration::from_secs(rng.below(8))),
            task: None,
        };
        ResourceVerb::Acquire {
            spec: Arc::new(spec),
            if_free: rng.percent(20),
        }
    }

    /// Whether the answer is for one of them.
    pub(crate) fn waits(ticket: Ticket) -> bool {
        (FIRST_TICKET..FIRST_TICKET << 10).contains(&ticket.0)
    }

    /// An answer: returns the claim that was renewed, and when that was asked.
    pub(crate) fn answered(&mut self, ticket: Ticket, reply: &Reply) -> Option<(ClaimNo, Time)> {
        let (verb, asked_at) = self.asked.remove(&ticket)?;
        let reply = match reply {
            Reply::Resource(reply) => &**reply,
            // It has ended, or was refused.
            Reply::Rejected(_) => {
                if let ResourceVerb::Renew { claim, .. } = verb {
                    self.known.remove(&claim);
                }
                return None;
            }
            other => panic!("{verb:?} is answered with {other:?}"),
        };
        match (&verb, reply) {
            (ResourceVerb::Create { .. }, ResourceReply::Resource(view, _)) => {
                self.defined.insert(view.image.key.clone());
            }
            (ResourceVerb::Acquire { spec, .. }, ResourceReply::Claim(view, _)) => {
                let request = spec.request.expect("each has one");
                let known = *self.claims.entry(request.id).or_insert(view.no);
                assert_eq!(known, view.no, "one call, one claim");
                self.see(view);
            }
            (_, ResourceReply::Claim(view, _)) => self.see(view),
            _ => {}
        }
        match verb {
            ResourceVerb::Renew { claim, .. } => Some((claim, asked_at)),
            _ => None,
        }
    }

    fn see(&mut self, view: &ClaimView) {
        let token = view.state.granted().map(|(token, _)| token);
        match view.state.phase() {
            ClaimPhase::Ended => drop(self.known.remove(&view.no)),
            ClaimPhase::Held | ClaimPhase::Waiting => {
                let of = view.spec.namespace.clone();
                self.known.insert(view.no, (of, token));
            }
        }
    }

    /// Calls too old to be repeated are given up.
    pub(crate) fn give_up(&mut self) {
        self.unknown.clear();
        self.claims.clear();
    }

    /// Who waits for an answer that no longer comes asks again, or gives up.
    pub(crate) fn answers_lost(&mut self, still_undecided: &FxHashSet<Ticket>) {
        let mut lost: Vec<Ticket> = self.asked.keys().copied().collect();
        lost.retain(|ticket| !still_undecided.contains(ticket));
        lost.sort_unstable();
        for ticket in lost {
            let lost = self.asked.remove(&ticket).map(|(verb, _)| verb);
            let again = lost.filter(|verb| matches!(verb, ResourceVerb::Acquire { .. }));
            self.unknown.extend(again);
        }
    }
}

/// Most of them are where the callers are.
fn namespace_of(rng: &mut Rng) -> Namespace {
    let at = usize::from(rng.percent(25));
    Namespace(CLAIMED[at].into())
}
