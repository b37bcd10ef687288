//! Recurring jobs and their runs: values only.

use super::{
    ids::{Handle, Namespace},
    settings::Settings,
    time::Time,
};
use crate::core::{Submit, schedule::ScheduleText};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

/// Number of a job in its shard: 1, 2, … A job that is deleted and made anew has another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobNo(pub i64);

/// What a job is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobKey {
    /// Whose it is.
    pub namespace: Namespace,
    /// Unique there.
    pub name: Arc<str>,
}

/// Names a run: a job has one run for each due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunKey {
    /// The job.
    pub job: JobNo,
    /// The due time; of a run that no schedule names, when it was asked for.
    pub due: Time,
}

/// What is said of a job besides its steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSettings {
    /// When it is due.
    pub schedule: ScheduleText,
    /// What becomes of a due time while an earlier run goes on.
    pub overlap: Overlap,
    /// What becomes of due times that nobody served.
    pub misfire: Misfire,
    /// Whether a failed run is repeated under its due time; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerun: Option<Rerun>,
    /// How long an attempt of a run may take; `None`: any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_runtime: Option<Duration>,
    /// Failed runs in a row behind which it is paused; `None`: it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_after_failures: Option<u32>,
    /// Those of the scheduler that a run opens.
    pub scheduler: Arc<Settings>,
}

/// What becomes of a due time while an earlier run of the job goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Overlap {
    /// There is no run.
    Skip,
    /// One run waits; further due times are skipped.
    QueueOne,
    /// A run for each due time waits.
    QueueAll,
    /// One run waits: that of the newest due time.
    KeepNewest,
    /// The earlier run is cancelled, and the new one begins when it has ended.
    CancelRunning,
    /// They run side by side.
    Allow,
}

/// What becomes of due times that nobody served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Misfire {
    /// They are missed.
    Skip,
    /// The newest one has a run, which stands for all.
    RunOnce,
    /// So many of the newest have a run each, one after the other.
    CatchUp(u32),
}

/// How a run that failed is repeated under its due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rerun {
    /// Only while its window is open.
    pub within_window: bool,
    /// Further attempts at most; `None`: any number.
    pub max: Option<u32>,
    /// Between the end of an attempt and the next one.
    pub delay: Duration,
}

/// A definition as the journal has it: always the whole image.
#[derive(Clone, Debug)]
pub struct JobImage {
    /// Its number.
    pub no: JobNo,
    /// What it is called.
    pub key: JobKey,
    /// Rises with each change: 1, 2, …
    pub version: i64,
    /// As last set.
    pub settings: Arc<JobSettings>,
    /// The tasks of a run.
    pub steps: Arc<Submit>,
    /// When it was created.
    pub created_at: Time,
    /// When it was created, changed or deleted last.
    pub changed_at: Time,
    /// Who did that: the caller of its runs.
    pub changed_by: Arc<str>,
    /// It is there no more.
    pub deleted: bool,
}

/// Where a job stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobState {
    /// The first due time whose fate is open; `None`: there is none to come.
    pub next_due: Option<Time>,
    /// The release of the time zone database it was computed with.
    pub time_zones: Arc<str>,
    /// The last run that no schedule names.
    pub last_unscheduled: Time,
    /// Failed runs in a row.
    pub failures: u32,
    /// It starts nothing.
    pub paused: Option<JobPause>,
}

/// A job is paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobPause {
    /// Since when.
    pub since: Time,
    /// Who paused it; empty: the service, after failures.
    pub by: Arc<str>,
    /// Why.
    pub reason: Arc<str>,
}

/// Why there is a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i16)]
pub enum RunCause {
    /// The schedule names its due time.
    Scheduled = 1,
    /// Somebody asked for it.
    Asked = 2,
    /// A run of the job that it follows has succeeded.
    Followed = 3,
}

/// What became of a due time. The numbers are those of the journal and of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i16)]
pub enum RunState {
    /// Its turn is behind other runs of the job.
    Waiting = 1,
    /// It runs.
    Running = 2,
    /// It has failed, and waits for its next attempt.
    Retrying = 3,
    /// All its tasks succeeded.
    Succeeded = 4,
    /// A task failed.
    Failed = 5,
    /// Somebody cancelled it, or one of its tasks.
    Cancelled = 6,
    /// It took longer than it may.
    TimedOut = 7,
    /// There was no run, as the rules of the job say.
    Skipped = 8,
    /// There was no run, since nobody started it in time.
    Missed = 9,
    /// It began, and what became of it is not known.
    Lost = 10,
}

/// Why a run is in its state, where that does not go without saying. The numbers are those of the
/// journal and of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i16)]
pub enum RunReason {
    /// An earlier run of the job went on.
    StillRunning = 1,
    /// As many runs waited as may.
    QueueFull = 2,
    /// A later due time took its place.
    Replaced = 3,
    /// The job was paused.
    JobPaused = 4,
    /// The job was deleted.
    JobDeleted = 5,
    /// No server was there.
    NoServer = 6,
    /// The agent was stopped.
    AgentStopped = 7,
    /// Its window had closed.
    WindowClosed = 8,
    /// The service was too late for it.
    TooLate = 9,
    /// It took longer than `max_runtime`.
    MaxRuntime = 10,
    /// A caller asked for it.
    Asked = 11,
    /// Its steps were refused.
    Refused = 12,
    /// Its scheduler is not known any more.
    SchedulerGone = 13,
}

/// A run as the journal has it, or a range of due times that had none: always the whole image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunImage {
    /// Which one. Of a range: the first due time.
    pub key: RunKey,
    /// The last due time of a range.
    pub last: Option<Time>,
    /// Due times of a range, counted to [`crate::core::schedule::COUNTED`]; else 1.
    pub count: i64,
    /// Why there is one.
    pub cause: RunCause,
    /// What became of it.
    pub state: RunState,
    /// Why.
    pub reason: Option<RunReason>,
    /// More about that, for people.
    pub detail: Arc<str>,
    /// Who asked for it, or cancelled it.
    pub by: Arc<str>,
    /// The call that asked for it.
    pub request: Option<Uuid>,
    /// Only steps of this order or a higher one, and those without an order.
    pub from_order: Option<i64>,
    /// When its window closes.
    pub closes: Option<Time>,
    /// It catches up: it waits for its turn whatever the rules of overlap say.
    pub catches_up: bool,
    /// Attempts begun.
    pub attempt: u32,
    /// The scheduler of the last attempt.
    pub handle: Option<Handle>,
    /// When the last attempt began.
    pub started_at: Option<Time>,
    /// When it ended, if it has.
    pub ended_at: Option<Time>,
    /// When its next attempt begins.
    pub next_attempt_at: Option<Time>,
    /// Tasks of the last attempt that failed.
    pub failed: i64,
    /// Tasks of the last attempt that were cancelled.
    pub cancelled: i64,
}

/// Whether the service fires jobs at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentImage {
    /// It fires nothing.
    pub is_stopped: bool,
    /// When it was started or stopped last.
    pub changed_at: Time,
    /// When it was stopped last.
    pub stopped_at: Option<Time>,
    /// Who started or stopped it last.
    pub changed_by: Arc<str>,
    /// Why.
    pub reason: Arc<str>,
}

/// What stopping the agent does to runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// They go on.
    Drain,
    /// They are cancelled.
    CancelRunning,
}

impl RunKey {
    /// Every run of a job.
    pub(crate) fn all_of(job: JobNo) -> std::ops::RangeInclusive<RunKey> {
        let at = |due| RunKey { job, due };
        at(Time(i64::MIN))..=at(Time::NEVER)
    }
}

impl RunState {
    /// From the journal's number.
    pub fn from_number(number: i16) -> Option<Self> {
        use RunState::*;
        let all = [
            Waiting, Running, Retrying, Succeeded, Failed, Cancelled, TimedOut, Skipped, Missed,
            Lost,
        ];
        all.into_iter().find(|state| *state as i16 == number)
    }

    /// Nothing more comes of it.
    pub fn is_over(self) -> bool {
        !matches!(
            self,
            RunState::Waiting | RunState::Running | RunState::Retrying
        )
    }

    /// Counts as a failure of its job.
    pub fn is_failure(self) -> bool {
        matches!(self, RunState::Failed | RunState::TimedOut | RunState::Lost)
    }
}

impl RunReason {
    /// From the journal's number.
    pub fn from_number(number: i16) -> Option<Self> {
        use RunReason::*;
        let all = [
            StillRunning,
            QueueFull,
            Replaced,
            JobPaused,
            JobDeleted,
            NoServer,
            AgentStopped,
            WindowClosed,
            TooLate,
            MaxRuntime,
            Asked,
            Refused,
            SchedulerGone,
        ];
        all.into_iter().find(|reason| *reason as i16 == number)
    }
}

impl RunCause {
    /// From the journal's number.
    pub fn from_number(number: i16) -> Option<Self> {
        let all = [RunCause::Scheduled, RunCause::Asked, RunCause::Followed];
        all.into_iter().find(|cause| *cause as i16 == number)
    }
}

impl RunImage {
    /// A due time of which nothing has become yet.
    pub(crate) fn new(key: RunKey, cause: RunCause) -> Self {
        RunImage {
            key,
            last: None,
            count: 1,
            cause,
            state: RunState::Waiting,
            reason: None,
            detail: "".into(),
            by: "".into(),
            request: None,
            from_order: None,
            closes: None,
            catches_up: false,
            attempt: 0,
            handle: None,
            started_at: None,
            ended_at: None,
            next_attempt_at: None,
            failed: 0,
            cancelled: 0,
        }
    }
}

impl JobImage {
    /// Whether it is what somebody says of it.
    pub fn says(&self, settings: &JobSettings, steps: &Submit) -> bool {
        *self.settings == *settings
            && self.steps.runs == steps.runs
            && self.steps.bodies == steps.bodies
            && self.steps.params == steps.params
    }
}
