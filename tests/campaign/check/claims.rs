//! Claims on resources as their callers know them, and what the resources were like.

use crate::{
    claims::{Call, ClaimEntry, Definition, Phase, Use},
    history::{Answer, Entry},
};
use std::collections::{BTreeMap, HashMap};

/// A change that nobody has acknowledged may come about for so long.
const LATE_US: i64 = 15_000_000;

/// The service has said how a claim fares.
pub(crate) struct Shown {
    pub call: Call,
    pub begun: i64,
    pub at: i64,
    pub claim: i64,
    pub phase: Phase,
}

#[derive(Default)]
pub(crate) struct Claim {
    pub id: u64,
    pub begun: i64,
    pub uses: Vec<Use>,
    pub lease: i64,
    pub renewed_by_caller: bool,
    /// In order of `at`.
    pub shown: Vec<Shown>,
    /// Some try of a call is of unknown outcome, or the call was refused.
    pub failed: Vec<(Call, i64)>,
    pub is_refused: bool,
    /// When its holder was sure of it, with the number of a mark.
    pub held: Vec<(i64, Option<i64>)>,
    /// When its caller left it.
    pub left: Option<i64>,
}

/// A resource is made, changed or deleted.
struct Change {
    begun: i64,
    ended: i64,
    definition: Option<Definition>,
    is_known: bool,
}

#[derive(Default)]
pub(crate) struct Claims {
    pub by_id: BTreeMap<u64, Claim>,
    changes: HashMap<String, Vec<Change>>,
    /// When the shard got other owners.
    pub epochs: Vec<i64>,
    /// When an owner renewed its own lease.
    pub renewed: Vec<i64>,
    /// How many are open at the end.
    pub open: Option<i64>,
}

impl Claims {
    pub(super) fn take(&mut self, entry: &Entry) {
        match entry {
            Entry::Claim { id, what } => {
                let claim = self.by_id.entry(*id).or_default();
                claim.id = *id;
                claim.take(what);
            }
            Entry::Epoch { at, .. } => self.epochs.push(*at),
            Entry::Renewed { at } => self.renewed.push(*at),
            Entry::OpenClaims { count } => self.open = Some(*count),
            Entry::Resource {
                begun,
                ended,
                name,
                definition,
                answer,
            } if !matches!(answer, Answer::Refused(_)) => {
                self.changes.entry(name.clone()).or_default().push(Change {
                    begun: *begun,
                    ended: *ended,
                    definition: *definition,
                    is_known: matches!(answer, Answer::Ok(())),
                });
            }
            _ => {}
        }
    }

    fn changes_of(&self, name: &str) -> &[Change] {
        let own = self.changes.get(name);
        let pattern = || {
            let (stem, _) = name.split_once('/')?;
            self.changes.get(&format!("{stem}/*"))
        };
        own.or_else(pattern).map(Vec::as_slice).unwrap_or_default()
    }

    /// What a resource is like, but for its capacity at a certain time.
    pub(super) fn definition(&self, name: &str) -> Option<Definition> {
        let mut changes = self.changes_of(name).iter();
        changes.find_map(|change| change.definition)
    }

    /// The highest capacity that may have been in force at some time between these.
    pub(super) fn capacity(&self, name: &str, from: i64, to: i64) -> u32 {
        self.capacities(name, from, to).max().unwrap_or(0)
    }

    /// The lowest one, 0 if there may have been no such resource.
    pub(super) fn least_capacity(&self, name: &str, from: i64, to: i64) -> u32 {
        self.capacities(name, from, to).min().unwrap_or(0)
    }

    /// The capacities that may have been in force at some time between these.
    fn capacities(&self, name: &str, from: i64, to: i64) -> impl Iterator<Item = u32> {
        let changes = self.changes_of(name);
        let in_force = changes.iter().enumerate().filter(move |(place, change)| {
            let mut later = changes[place + 1..].iter().filter(|later| later.is_known);
            let replaced = later.next().map_or(i64::MAX, |later| later.ended);
            let until = match change.is_known {
                true => replaced,
                false => replaced.max(change.ended + LATE_US),
            };
            change.begun <= to && from <= until
        });
        in_force.map(|(_, change)| {
            change
                .definition
                .map_or(0, |definition| definition.capacity)
        })
    }
}

impl Claim {
    fn take(&mut self, what: &ClaimEntry) {
        match what {
            ClaimEntry::Asked {
                at,
                uses,
                lease,
                renewed_by_caller,
            } => {
                (self.begun, self.lease) = (*at, *lease);
                self.uses.clone_from(uses);
                self.renewed_by_caller = *renewed_by_caller;
            }
            ClaimEntry::Shown {
                call,
                begun,
                at,
                claim,
                phase,
            } => self.shown.push(Shown {
                call: *call,
                begun: *begun,
                at: *at,
                claim: *claim,
                phase: *phase,
            }),
            ClaimEntry::Failed {
                call, at, refused, ..
            } => {
                let asks = matches!(call, Call::Acquire | Call::TryAcquire);
                self.is_refused |= asks && *refused;
                self.failed.push((*call, *at));
            }
            ClaimEntry::Held { at, mark } => self.held.push((*at, *mark)),
            ClaimEntry::Left { at } => self.left = Some(*at),
        }
    }

    /// Its number, which is its place in line.
    pub(super) fn no(&self) -> Option<i64> {
        self.shown.first().map(|shown| shown.claim)
    }

    /// Its token, and when that was known.
    pub(super) fn granted(&self) -> Option<(i64, i64)> {
        self.shown.iter().find_map(|shown| match shown.phase {
            Phase::Held(token) => Some((token, shown.at)),
            _ => None,
        })
    }

    /// It surely waited then.
    pub(super) fn last_waiting(&self) -> Option<i64> {
        let waiting = self.shown.iter();
        let waiting = waiting.filter(|shown| shown.phase == Phase::Waiting);
        waiting.map(|shown| shown.begun).max()
    }

    /// It was not granted before.
    pub(super) fn granted_after(&self) -> i64 {
        self.last_waiting().unwrap_or(i64::MIN).max(self.begun)
    }

    /// How it ended, and when that was known.
    pub(super) fn ended(&self) -> Option<(i32, i64)> {
        self.shown.iter().find_map(|shown| match shown.phase {
            Phase::Ended(how) => Some((how, shown.at)),
            _ => None,
        })
    }

    /// No call of it comes later.
    pub(super) fn last_call(&self) -> i64 {
        let shown = self.shown.iter().map(|shown| shown.at);
        let failed = self.failed.iter().map(|(_, at)| *at);
        let left = self.left.into_iter().chain([self.begun]);
        shown.chain(failed).chain(left).max().unwrap_or(self.begun)
    }

    /// How it uses a resource, if it does.
    pub(super) fn use_of(&self, name: &str) -> Option<&Use> {
        self.uses.iter().find(|one| one.name == name)
    }
}
