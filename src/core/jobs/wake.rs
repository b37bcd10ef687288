//! What a timer of jobs is about.

use crate::core::{JobNo, RunKey};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wake {
    /// A due time of a job.
    Job(JobNo),
    /// The longest time of a run, its next attempt, or the end of the time to claim it.
    Run(RunKey),
    /// The lease of a claim.
    Claim(RunKey),
    /// The target of a claimed run, which there was no room to ask.
    Ask(RunKey),
    /// Runs of a job that wait for their turn, which may have come.
    Turn(JobNo),
}
