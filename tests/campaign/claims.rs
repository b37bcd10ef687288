//! What callers record of resources and of their claims on them.

use serde::{Deserialize, Serialize};

/// One of the resources of a claim or of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Use {
    pub name: String,
    /// `None`: nobody else has it meanwhile.
    pub permits: Option<u32>,
}

/// What a resource, or the names below a pattern, are like. Times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Definition {
    pub capacity: u32,
    pub lock_delay: i64,
    /// The longest hold.
    #[serde(default)]
    pub max_hold: Option<i64>,
    /// So many permits come back in a period.
    pub refill: Option<(u32, i64)>,
    pub reader_preferred: bool,
}

/// A call about a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Call {
    Acquire,
    TryAcquire,
    Renew,
    Look,
    Release,
    ForceRelease,
    /// Of the Rust client, which makes calls of its own.
    Client,
}

/// The state of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Phase {
    Waiting,
    /// With its fencing token.
    Held(i64),
    /// How it ended: a ClaimEnd.
    Ended(i32),
}

/// What happened to a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ClaimEntry {
    /// It is asked for, for the first time.
    Asked {
        at: i64,
        uses: Vec<Use>,
        /// In microseconds.
        lease: i64,
        /// By calls; otherwise the service does while its stream is open.
        renewed_by_caller: bool,
    },
    /// The service says how it fares: in the answer to a call, or on the stream of one, which was
    /// made at `begun`.
    Shown {
        call: Call,
        begun: i64,
        at: i64,
        claim: i64,
        phase: Phase,
    },
    /// A call brought nothing; `refused`: and has surely done nothing.
    Failed {
        call: Call,
        begun: i64,
        at: i64,
        refused: bool,
        why: String,
    },
    /// Its holder is sure of it at this time: by the lease that the service has granted, less what
    /// a holder leaves for late messages. `mark`: a number of the witnesses, drawn while it was
    /// held.
    Held { at: i64, mark: Option<i64> },
    /// Nothing is done for it any more, though it may be open.
    Left { at: i64 },
}
