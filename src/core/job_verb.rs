//! What may be asked about jobs, and what is answered.

use super::{
    AgentImage, Epoch, JobImage, JobKey, JobNo, JobSettings, JobState, RunClaim, RunImage,
    RunState, RunToken, StopMode, Submit, Time,
};
use std::{sync::Arc, time::Duration};
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
    /// Have runs for due times in the past.
    Backfill {
        /// Of which job.
        name: Arc<str>,
        /// Which ones.
        asked: Backfill,
    },
    /// An outside program takes a run upon itself.
    Claim {
        /// Of which job.
        name: Arc<str>,
        /// Which one; `None`: the oldest that can be claimed.
        due: Option<Time>,
        /// For whom.
        claimant: Claimant,
    },
    /// Keep a claim for another lease.
    RenewRun {
        /// Of which job.
        name: Arc<str>,
        /// Of which run.
        due: Time,
        /// The claim.
        token: RunToken,
    },
    /// The work of a run is done, or is not.
    FinishRun {
        /// Of which job.
        name: Arc<str>,
        /// Of which run.
        due: Time,
        /// What its claimant says.
        report: RunReport,
        /// The claim as the journal has it: the core has forgotten it.
        known: Option<Box<KnownClaim>>,
    },
    /// Fire jobs.
    StartAgent,
    /// Fire nothing.
    StopAgent(StopAgent),
}

impl JobVerb {
    /// The name of the job that it is about.
    pub(crate) fn job(&self) -> Option<&Arc<str>> {
        match self {
            JobVerb::Create { name, .. }
            | JobVerb::Update { name, .. }
            | JobVerb::Delete { name, .. }
            | JobVerb::Pause { name, .. }
            | JobVerb::Resume(name)
            | JobVerb::Run { name, .. }
            | JobVerb::CancelRun { name, .. }
            | JobVerb::Backfill { name, .. }
            | JobVerb::Claim { name, .. }
            | JobVerb::RenewRun { name, .. }
            | JobVerb::FinishRun { name, .. } => Some(name),
            JobVerb::StartAgent | JobVerb::StopAgent(_) => None,
        }
    }
}

/// How the agent is stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopAgent {
    /// What becomes of runs.
    pub mode: StopMode,
    /// Why.
    pub reason: Arc<str>,
    /// The call goes on with the stop of then ([`AgentView::goes_on`]): without effect when the
    /// agent was started since. [`StopAgent::NOT_YET`]: there has been no stop so far, and there
    /// is one when all is decided that comes before it.
    pub goes_on: Option<Time>,
}

impl StopAgent {
    /// A call that is to go on with this has stopped nothing yet.
    pub const NOT_YET: Time = Time(0);
}

/// Due times in the past that have had no run, as the journal was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backfill {
    /// The job, in this definition: its name may go to another one.
    pub job: JobNo,
    /// How often that definition has changed.
    pub version: i64,
    /// Those that are to have one, ascending.
    pub due: Vec<Time>,
    /// Rows that stand for many due times, less those: they are written anew.
    pub ranges: Vec<RunImage>,
    /// The last run that no schedule named, or backfill, when the journal was read.
    pub seen: Time,
}

/// Who claims a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// In the caller's words.
    pub owner: Arc<str>,
    /// Makes the call repeatable.
    pub request: Option<Uuid>,
    /// How long the claim lasts without a renewal.
    pub lease: Duration,
}

/// What a claimant says of its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReport {
    /// Its claim.
    pub token: RunToken,
    /// The work is done.
    pub succeeded: bool,
    /// More about that, for people.
    pub detail: Arc<str>,
}

/// A claim as the journal was read.
#[derive(Clone, Debug)]
pub struct KnownClaim {
    /// The owner of the shard that asked for this ([`JobReject::NoClaim`]): what was read for one
    /// is no word for the next, which may have been told more.
    pub owner: Epoch,
    /// The claim.
    pub claim: RunClaim,
    /// Nobody has claimed the run since.
    pub is_last: bool,
    /// Its run.
    pub run: RunImage,
}

/// A definition. Its schedule and its steps have been checked.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// What is said of it besides its steps.
    pub settings: Arc<JobSettings>,
    /// The tasks of a run.
    pub steps: Arc<Submit>,
    /// The tasks that follow a run that failed, was lost, missed or completed late.
    pub on_failure: Arc<Submit>,
}

/// The answer to a [`JobVerb`]. The last field says whether this call changed something.
#[derive(Clone, Debug)]
pub enum JobReply {
    /// Create, Update, Delete, Pause, Resume. A Delete that has changed nothing is to be asked once
    /// more: how its runs have ended was more to decide than one batch bears.
    Job(JobImage, JobState, bool),
    /// Run, CancelRun.
    Run(RunImage, bool),
    /// StartAgent, StopAgent.
    Agent(AgentView, bool),
    /// Claim.
    Claimed(RunClaimed, bool),
    /// Claim: there is nothing to claim. The run that is in the way, and who has it.
    NotClaimed(Option<(RunImage, Option<RunClaim>)>),
    /// RenewRun: for how long the claim is kept now.
    Renewed(RunKept),
    /// Backfill: the due times that have a run now.
    Backfilled(Vec<Time>),
    /// FinishRun: the claim, and its run if that is known.
    Finished(RunClaim, Option<RunImage>, bool),
}

/// A claim that was given.
#[derive(Clone, Debug, PartialEq)]
pub struct RunClaimed {
    /// The claim.
    pub claim: RunClaim,
    /// Its run.
    pub run: RunImage,
    /// For how long it is kept.
    pub kept: RunKept,
    /// How long it may take.
    pub max_runtime: Option<Duration>,
}

/// For how long a claim of a run is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunKept {
    /// Until then, unless it is renewed.
    pub lease_until: Time,
    /// However often it is renewed; `None`: any time.
    pub runtime_left: Option<Duration>,
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
    /// More runs are to be cancelled, or decided before the stop, than one batch bears: by the same
    /// call once more, which says this.
    pub goes_on: Option<Time>,
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
    /// Jobs that this version cannot read, or not with all their runs: they are not fired, and not
    /// among those above.
    pub unreadable: usize,
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
    /// There is one, which this version cannot read.
    Unreadable,
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
    /// So many jobs follow this one, which is the most.
    ManyFollow(Arc<str>, usize),
    /// A run goes on, and there may be one at a time.
    JobRuns(Time),
    /// A run waits until the job is resumed, and there may be one at a time.
    RunHeld(Time),
    /// The job has no run of this due time that goes on.
    UnknownRun,
    /// It is over.
    RunEnded(RunState),
    /// No step is left from this order on.
    NoSteps,
    /// The agent is stopped.
    AgentStopped,
    /// The service does its runs itself.
    NotForClaims,
    /// Programs outside the service do its runs, which have no steps.
    OnlyForClaims,
    /// Who does its runs cannot be changed.
    ClaimedChanged,
    /// So many runs of it go on or wait, which is the most.
    RunsWait(usize),
    /// No more than so many further runs may wait.
    TooManyRuns(usize),
    /// Others have asked for runs since the journal was read.
    RunsChanged,
    /// This owner knows no open claim with this token, nor one that has ended lately.
    NoClaim(Epoch),
    /// Another identity has made the claim.
    ClaimOfAnother,
}
