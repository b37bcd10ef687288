//! Resources, and the claims on them that callers make: values only.

use super::{
    ids::{Namespace, TaskId},
    settings::Request,
    time::Time,
    want::Want,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Names a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceKey {
    /// Whose it is.
    pub namespace: Namespace,
    /// Unique there. Of a definition, `tenant/*` stands for every name that begins with `tenant/`.
    pub name: Arc<str>,
}

/// Number of a claim in its shard: 1, 2, … in the order of the requests, which is that of the
/// queue.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct ClaimNo(pub i64);

/// Fencing token of a hold: higher than that of every earlier hold of the shard, for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub i64);

/// What an operator says of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceSettings {
    /// Permits; 0: nothing is granted.
    pub capacity: u32,
    /// How long nobody else gets what a holder has lost without giving it back.
    #[serde(default)]
    pub lock_delay: Duration,
    /// The longest hold, renewed or not; `None`: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_hold: Option<Duration>,
    /// Permits come back by time, whatever becomes of the claim; `None`: when they are given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refill: Option<Refill>,
    /// Readers pass the writers in line.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reader_preferred: bool,
}

/// How fast permits come back by time: so many in a period, evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refill {
    /// One or more.
    pub permits: u32,
    /// A millisecond or more.
    pub period: Duration,
}

/// What a grant has left of a resource that refills.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Which resource.
    pub name: Arc<str>,
    /// Millionths of permits that were missing after the grant, its own among them.
    pub missing: u64,
}

/// A field of [`ResourceSettings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ResourceField {
    Capacity,
    LockDelay,
    MaxHold,
    Refill,
    ReaderPreferred,
}

/// A definition as the journal has it: always the whole image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceImage {
    /// What it is called.
    pub key: ResourceKey,
    /// As last set.
    pub settings: ResourceSettings,
    /// What a newer version has set besides, as JSON; the journal keeps it.
    pub unknown: Option<Arc<str>>,
    /// When it was created.
    pub created_at: Time,
    /// When it was created, changed or deleted last.
    pub changed_at: Time,
    /// Who did that.
    pub changed_by: Arc<str>,
    /// It is there no more.
    pub deleted: bool,
}

/// What a claim asks for, and for whom: all of its resources at once, or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimSpec {
    /// Whose resources.
    pub namespace: Namespace,
    /// Each name once, sorted by name.
    pub wants: Vec<Want>,
    /// For whom, in the caller's words; empty: not said. Claims of one owner that wait for each
    /// other are found.
    pub owner: Arc<str>,
    /// Who asks, as the service knows it.
    pub caller: Arc<str>,
    /// Why, for people.
    pub reason: Arc<str>,
    /// For people and programs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Makes the call repeatable.
    #[serde(with = "request")]
    pub request: Option<Request>,
    /// How long the claim outlives its last renewal, waiting or held.
    pub lease: Duration,
    /// How long it waits at most; `None`: for ever.
    pub wait: Option<Duration>,
    /// The task whose attempt it lasts as long as, in place of a lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
}

/// How a claim ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimEnd {
    /// Its holder gave it back.
    Released,
    /// It was withdrawn while it waited.
    Withdrawn,
    /// It waited for as long as it was to wait.
    TimedOut,
    /// It waited, and was not renewed.
    Abandoned,
    /// It was held, and not renewed.
    Expired,
    /// It was held for as long as the resource allows.
    HeldTooLong,
    /// An operator ended it, waiting or held.
    Forced,
}

/// How a claim ended, and what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimEnding {
    /// How.
    pub how: ClaimEnd,
    /// When others may have what it held: later than its end when that was lost.
    pub free_at: Time,
    /// Which operator ended it; empty: none.
    pub by: Arc<str>,
    /// Why, in the operator's words.
    pub reason: Arc<str>,
}

/// Where a claim stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimState {
    /// In the queues.
    Waiting,
    /// Granted.
    Held {
        /// Its fencing token.
        token: Token,
        /// Since when.
        since: Time,
    },
    /// Over.
    Ended {
        /// Its fencing token and when it was granted, if it was.
        granted: Option<(Token, Time)>,
        /// When.
        at: Time,
        /// How.
        ending: Arc<ClaimEnding>,
    },
}

/// The same without details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ClaimPhase {
    Waiting,
    Held,
    Ended,
}

impl ResourceSettings {
    /// With these fields of `other`.
    pub(crate) fn with(mut self, other: &ResourceSettings, fields: &[ResourceField]) -> Self {
        for field in fields {
            match field {
                ResourceField::Capacity => self.capacity = other.capacity,
                ResourceField::LockDelay => self.lock_delay = other.lock_delay,
                ResourceField::MaxHold => self.max_hold = other.max_hold,
                ResourceField::Refill => self.refill = other.refill,
                ResourceField::ReaderPreferred => self.reader_preferred = other.reader_preferred,
            }
        }
        self
    }
}

impl ClaimState {
    /// Without details.
    pub fn phase(&self) -> ClaimPhase {
        match self {
            ClaimState::Waiting => ClaimPhase::Waiting,
            ClaimState::Held { .. } => ClaimPhase::Held,
            ClaimState::Ended { .. } => ClaimPhase::Ended,
        }
    }

    /// Its fencing token and when it was granted, if it ever was.
    pub fn granted(&self) -> Option<(Token, Time)> {
        match self {
            ClaimState::Waiting => None,
            ClaimState::Held { token, since } => Some((*token, *since)),
            ClaimState::Ended { granted, .. } => *granted,
        }
    }
}

impl ClaimEnd {
    /// All of them.
    pub const ALL: [ClaimEnd; 7] = [
        ClaimEnd::Released,
        ClaimEnd::Withdrawn,
        ClaimEnd::TimedOut,
        ClaimEnd::Abandoned,
        ClaimEnd::Expired,
        ClaimEnd::HeldTooLong,
        ClaimEnd::Forced,
    ];

    /// Its number in the journal: 1, 2, …
    pub fn number(self) -> i16 {
        self as i16 + 1
    }

    /// Whether its holder has lost it, and may not know yet.
    pub(crate) fn is_loss(self) -> bool {
        use ClaimEnd::{Expired, Forced, HeldTooLong};
        matches!(self, Expired | HeldTooLong | Forced)
    }
}

/// A request id with the hash of its payload, as JSON.
mod request {
    use super::Request;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use uuid::Uuid;

    pub(super) fn serialize<S: Serializer>(of: &Option<Request>, to: S) -> Result<S::Ok, S::Error> {
        of.map(|request| (request.id.to_string(), request.hash))
            .serialize(to)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(
        from: D,
    ) -> Result<Option<Request>, D::Error> {
        let Some((id, hash)) = Option::<(String, i64)>::deserialize(from)? else {
            return Ok(None);
        };
        let id = Uuid::try_parse(&id).map_err(serde::de::Error::custom)?;
        Ok(Some(Request { id, hash }))
    }
}
