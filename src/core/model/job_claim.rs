//! Claims of runs: an outside program does the work of a job, and says so.

use super::{job::RunKey, time::Time};
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

/// Fencing token of a claim: above that of every earlier claim of a run of the shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunToken(pub i64);

/// A claim of a run as the journal has it: always the whole image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunClaim {
    /// Of which run.
    pub run: RunKey,
    /// Its token.
    pub token: RunToken,
    /// Who has it, in the caller's words.
    pub owner: Arc<str>,
    /// Who asked for it, as the caller names itself.
    pub caller: Arc<str>,
    /// The call that asked for it.
    pub request: Option<Uuid>,
    /// How long it lasts without a renewal.
    pub lease: Duration,
    /// When it was given.
    pub claimed_at: Time,
    /// When and how it ended; `None`: it has not.
    pub end: Option<RunClaimEnd>,
    /// What its owner said after its end.
    pub late: Option<LateReport>,
}

/// The end of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunClaimEnd {
    /// When.
    pub at: Time,
    /// How.
    pub outcome: RunClaimOutcome,
    /// What its owner said.
    pub detail: Arc<str>,
}

/// How a claim of a run ended. The numbers are those of the journal and of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i16)]
pub enum RunClaimOutcome {
    /// Its owner has done the work.
    Succeeded = 1,
    /// Its owner has not.
    Failed = 2,
    /// It was not renewed within its lease.
    Lost = 3,
    /// It took longer than `max_runtime`.
    TimedOut = 4,
    /// The run was cancelled.
    Cancelled = 5,
}

/// The owner of a claim said after its end how the work had gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateReport {
    /// When.
    pub at: Time,
    /// The work was done.
    pub succeeded: bool,
    /// What else was said.
    pub detail: Arc<str>,
}

impl RunClaim {
    /// Its owner has said how the work went, in time.
    pub fn is_finished(&self) -> bool {
        let outcome = self.end.as_ref().map(|end| end.outcome);
        matches!(
            outcome,
            Some(RunClaimOutcome::Succeeded | RunClaimOutcome::Failed)
        )
    }
}

impl RunClaimOutcome {
    /// From the journal's number.
    pub fn from_number(number: i16) -> Option<Self> {
        use RunClaimOutcome::*;
        let all = [Succeeded, Failed, Lost, TimedOut, Cancelled];
        all.into_iter().find(|outcome| *outcome as i16 == number)
    }
}
