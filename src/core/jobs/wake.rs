//! What a timer of jobs is about.

use crate::core::{JobNo, RunKey};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wake {
    /// A due time of a job.
    Job(JobNo),
    /// The longest time of a run, or its next attempt.
    Run(RunKey),
}
