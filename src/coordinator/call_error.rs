//! Why a call got no answer, and whether it may have had an effect. `rpc/errors` translates these,
//! once.

use crate::{
    core::{DoneNo, Reject},
    journal::JournalError,
};
use std::time::Duration;

/// What a caller is told to wait before the next try.
const RETRY_AFTER: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The core refused the call; it had no effect.
    Rejected(Reject),
    /// No effect here: another replica owns the shard, or nobody does.
    NotOwner,
    /// The shard changed hands during the call: its effect is unknown.
    OwnerChanged,
    /// The effect is unknown: call again with the same request id.
    Unavailable {
        retry_after: Duration,
        /// For people.
        reason: &'static str,
    },
    /// The events after the cursor are older than the retention and have been dropped.
    Truncated {
        /// The lowest cursor whose events are still there.
        oldest: DoneNo,
    },
    /// What is stored of the scheduler makes no sense to this version; the call had no effect.
    Unreadable,
    /// A queue is full; the call had no effect.
    Overloaded {
        retry_after: Duration,
        /// Which queue.
        limit: &'static str,
    },
}

impl CallError {
    pub(crate) fn unavailable(reason: &'static str) -> Self {
        CallError::Unavailable {
            retry_after: RETRY_AFTER,
            reason,
        }
    }

    pub(crate) fn overloaded(limit: &'static str) -> Self {
        CallError::Overloaded {
            retry_after: RETRY_AFTER,
            limit,
        }
    }

    /// A read of the journal failed.
    pub fn from_journal(error: JournalError) -> Self {
        tracing::warn!(%error, "a read of the journal failed");
        if let JournalError::Corrupt(_) = error {
            return CallError::Unreadable;
        }
        CallError::unavailable("the coordination database cannot be read")
    }
}
