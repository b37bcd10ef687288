//! What is recorded of recurring jobs: what they are, what the journal and the target hold of their
//! runs at the end, and what claimants were told. Times in microseconds; those of runs are the
//! service's.

use serde::{Deserialize, Serialize};

/// A line about jobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum JobEntry {
    /// A job is there, and due every so many microseconds.
    Defined {
        job: String,
        every: i64,
        /// Its runs may go on side by side.
        side_by_side: bool,
        /// Programs claim its runs.
        claimed: bool,
        /// How often a run may be repeated. `None`: in histories of before this was recorded.
        #[serde(default)]
        repeats: Option<i32>,
        /// What becomes of a due time while a run goes on, as the API numbers it.
        #[serde(default)]
        overlap: Option<i32>,
    },
    /// A due time has a row, or a range of them.
    Run(JobRun),
    /// A scheduler was opened for a run.
    Opened {
        job: String,
        due: i64,
        handle: String,
    },
    /// A claim has a row.
    Claim {
        job: String,
        due: i64,
        token: i64,
        /// How it ended, as the journal numbers it.
        outcome: Option<i32>,
    },
    /// The work of a run is on the target.
    Settled { job: String, due: i64, token: i64 },
    /// A claimant was told that its work is committed, and that its run is finished in time.
    Finished { job: String, due: i64, token: i64 },
    /// The agent was stopped: schedulers of runs, soon after that was acknowledged and before it
    /// was started again.
    Stopped { before: i64, after: i64 },
    /// When the agent was stopped for good, by the time of the service.
    StoppedForGood { at: i64 },
    /// The agent was stopped, and what ran was waited for: runs that run nevertheless.
    Drained { left: i64 },
}

/// What became of a due time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct JobRun {
    pub job: String,
    pub due: i64,
    /// The last due time of a range.
    pub last: Option<i64>,
    /// As the journal numbers it.
    pub state: i32,
    pub attempt: i32,
    pub started: Option<i64>,
    pub ended: Option<i64>,
    /// Its target was not there to say whether its work is done.
    #[serde(default)]
    pub unasked: bool,
    /// Why, as the journal numbers it.
    #[serde(default)]
    pub reason: Option<i32>,
    /// It waits whatever the rule of overlap says.
    #[serde(default)]
    pub catches_up: bool,
}

impl JobRun {
    /// It runs, as `RunState` numbers that.
    pub(crate) const RUNNING: i32 = 2;
    /// It was done, as `RunState` numbers that.
    pub(crate) const SUCCEEDED: i32 = 4;
    const SKIPPED: i32 = 8;
    const MISSED: i32 = 9;
    /// Reasons of the rules of overlap, as `RunReason` numbers them.
    pub(crate) const STILL_RUNNING: i32 = 1;
    pub(crate) const QUEUE_FULL: i32 = 2;
    pub(crate) const REPLACED: i32 = 3;

    pub(crate) fn is_over(&self) -> bool {
        self.state >= Self::SUCCEEDED
    }

    /// It has run, or was to.
    pub(crate) fn has_run(&self) -> bool {
        !matches!(self.state, Self::SKIPPED | Self::MISSED)
    }
}
