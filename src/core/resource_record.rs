//! What is remembered of resources: definitions as whole images, of a claim a record for its
//! request, its grant and its end.

use super::{ClaimEnding, ClaimNo, ClaimSpec, ResourceImage, ResourceKey, Taken, Time, Token};
use std::{collections::BTreeMap, sync::Arc};

/// The records of one batch about resources.
#[derive(Clone, Debug, Default)]
pub struct ResourceRecords {
    /// Changed definitions, the last image of each.
    pub definitions: BTreeMap<ResourceKey, ResourceImage>,
    /// What happened to claims, in order.
    pub claims: Vec<ClaimRecord>,
    /// What a recovery needs of claims.
    pub checkpoint: Option<ClaimsCheckpoint>,
}

/// Something that happened to a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimRecord {
    /// Which claim.
    pub no: ClaimNo,
    /// When.
    pub at: Time,
    /// What.
    pub what: ClaimEvent,
}

/// What happened to a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum ClaimEvent {
    /// It was requested, and waits.
    Requested(Arc<ClaimSpec>),
    /// It was granted; with what it asks for if it never waited.
    Granted {
        /// Its token.
        token: Token,
        /// `None`: it was requested before.
        spec: Option<Arc<ClaimSpec>>,
        /// What it took of resources that refill.
        taken: Vec<Taken>,
    },
    /// It ended.
    Ended(Arc<ClaimEnding>),
}

/// Which claims a recovery reads: those that were open or remembered, and all later ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimsCheckpoint {
    /// The last claim so far.
    pub last: ClaimNo,
    /// The highest token so far.
    pub token: Token,
    /// Those that are still needed, as ranges.
    pub needed: Vec<(ClaimNo, ClaimNo)>,
}

/// What a recovery reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecoveredResources {
    /// Definitions that are not deleted.
    pub definitions: Vec<ResourceImage>,
    /// Claims, by number.
    pub claims: Vec<RecoveredClaim>,
    /// The last claim so far, also of those that cannot be read.
    pub last: ClaimNo,
    /// The highest token so far, likewise.
    pub token: Token,
}

/// A claim as its records tell it.
#[derive(Clone, Debug, PartialEq)]
pub struct RecoveredClaim {
    /// Its number.
    pub no: ClaimNo,
    /// What it asks for.
    pub spec: Arc<ClaimSpec>,
    /// When it was requested.
    pub requested_at: Time,
    /// Its token, and when it was granted.
    pub granted: Option<(Token, Time)>,
    /// What it took of resources that refill.
    pub taken: Vec<Taken>,
    /// When and how it ended.
    pub ended: Option<(Time, Arc<ClaimEnding>)>,
}

impl ClaimEvent {
    /// Its number in the journal.
    pub fn number(&self) -> i16 {
        match self {
            ClaimEvent::Requested(_) => 1,
            ClaimEvent::Granted { .. } => 2,
            ClaimEvent::Ended(_) => 3,
        }
    }
}

impl ResourceRecords {
    /// Nothing to remember.
    pub fn is_empty(&self) -> bool {
        self.definitions.is_empty() && self.claims.is_empty() && self.checkpoint.is_none()
    }
}

impl RecoveredResources {
    /// Takes in what a batch writes, as the journal does.
    #[doc(hidden)]
    pub fn remember(&mut self, records: &ResourceRecords) {
        for (key, image) in &records.definitions {
            self.definitions.retain(|known| known.key != *key);
            let image = Some(image).filter(|image| !image.deleted);
            self.definitions.extend(image.cloned());
        }
        for record in &records.claims {
            self.last = self.last.max(record.no);
            if let ClaimEvent::Granted { token, .. } = record.what {
                self.token = self.token.max(token);
            }
            let at = self.claims.binary_search_by_key(&record.no, |one| one.no);
            let at = at.unwrap_or_else(|at| {
                let (ClaimEvent::Requested(spec)
                | ClaimEvent::Granted {
                    spec: Some(spec), ..
                }) = &record.what
                else {
                    panic!("claim {} ends before it begins", record.no.0);
                };
                let claim = RecoveredClaim::first(record.no, spec.clone(), record.at);
                self.claims.insert(at, claim);
                at
            });
            match &record.what {
                ClaimEvent::Requested(_) => {}
                ClaimEvent::Granted { token, taken, .. } => {
                    self.claims[at].granted = Some((*token, record.at));
                    self.claims[at].taken = taken.clone();
                }
                ClaimEvent::Ended(ending) => {
                    self.claims[at].ended = Some((record.at, ending.clone()));
                }
            }
        }
        if let Some(checkpoint) = &records.checkpoint {
            let is_needed = |no: ClaimNo| {
                let mut ranges = checkpoint.needed.iter();
                ranges.any(|(first, last)| (*first..=*last).contains(&no))
            };
            self.claims
                .retain(|claim| is_needed(claim.no) || claim.no > checkpoint.last);
            self.last = self.last.max(checkpoint.last);
            self.token = self.token.max(checkpoint.token);
        }
    }
}

impl RecoveredClaim {
    /// A claim of which this is the first record.
    pub fn first(no: ClaimNo, spec: Arc<ClaimSpec>, at: Time) -> Self {
        RecoveredClaim {
            no,
            spec,
            requested_at: at,
            granted: None,
            taken: Vec::new(),
            ended: None,
        }
    }
}
