//! What may be asked about jobs, and what is answered.

use super::{
    AgentImage, JobImage, JobKey, JobSettings, JobState, RunImage, RunState, StopMode, Submit, Time,
};
use std::sync::Arc;
use uuid::Uuid;

/// What a caller asks about jobs of its namespace, or an operator about the agent.
#[derive(Clone, Debug)]
pub enum JobVerb {
    /// Define a job.
    Create {
        /// Its name.
        name: Arc<str>,
        /// What is said of it.
        job: Arc<NewJob>,
    },
    /// Put this in place of the present definition.
    Update {
        /// Its name.
        name: Arc<str>,
        /// What is said of it.
        job: Arc<NewJob>,
        /// Only if this is its version; `None`: whichever it is.
        version: Option<i64>,
    },
    /// Delete a job: what runs goes on, what waits is skipped.
    Delete {
        /// Its name.
        name: Arc<str>,
        /// Only if this is its version; `None`: whichever it is.
        version: Option<i64>,
    },
    /// Start nothing more of a job.
    Pause {
        /// Its name.
        name: Arc<str>,
        /// Why.
        reason: Arc<str>,
    },
    /// Go on.
    Resume(Arc<str>),
    /// Start a run now.
    Run {
        /// Of which job.
        name: Arc<str>,
        /// Makes the call repeatable.
        request: Option<Uuid>,
        /// Leave out steps of lower orders.
        from_order: Option<i64>,
    },
    /// Cancel a run.
    CancelRun {
        /// Of which job.
        name: Arc<str>,
        /// Which one.
        due: Time,
    },
    /// Fire jobs.
    StartAgent,
    /// Fire nothing.
    StopAgent {
        /// What becomes of runs.
        mode: StopMode,
        /// Why.
        reason: Arc<str>,
    },
}

/// A definition. Its schedule and its steps have been checked.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// What is said of it besides its steps.
    pub settings: Arc<JobSettings>,
    /// The tasks of a run.
    pub steps: Arc<Submit>,
}

/// The answer to a [`JobVerb`]. The last field says whether this call changed something.
#[derive(Clone, Debug)]
pub enum JobReply {
    /// Create, Update, Delete, Pause, Resume.
    Job(JobImage, JobState, bool),
    /// Run, CancelRun.
    Run(RunImage, bool),
    /// StartAgent, StopAgent.
    Agent(AgentView, bool),
}

/// The agent, and what runs.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentView {
    /// Whether it fires.
    pub image: AgentImage,
    /// Some of the runs that go on.
    pub running: Vec<(JobKey, RunImage)>,
    /// How many go on.
    pub count: usize,
}

/// Counts over all jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// Whether the agent fires.
    pub agent: AgentImage,
    /// Jobs.
    pub jobs: usize,
    /// Of them, paused.
    pub paused: usize,
    /// Of them, those whose last run failed.
    pub failing: usize,
    /// Of them, those with a due time that should have fired.
    pub late: usize,
    /// Runs that go on.
    pub running: usize,
    /// Runs that wait for another one, or for their next attempt.
    pub waiting: usize,
    /// The next due time of all; `None`: nothing is due.
    pub next_due: Option<Time>,
}

/// Why a verb had no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobReject {
    /// There is no job of this name.
    UnknownJob(Arc<str>),
    /// There is one, and it is another one.
    JobExists,
    /// It has been changed since: its version.
    JobChanged(i64),
    /// It follows a job that does not exist.
    FollowsNone(Arc<str>),
    /// It would follow itself: these one after the other.
    FollowsItself(Vec<Arc<str>>),
    /// This job follows it.
    JobFollowed(Arc<str>),
    /// A run goes on, and there may be one at a time.
    JobRuns(Time),
    /// The job has no run of this due time that goes on.
    UnknownRun,
    /// It is over.
    RunEnded(RunState),
    /// No step is left from this order on.
    NoSteps,
    /// The agent is stopped.
    AgentStopped,
}
