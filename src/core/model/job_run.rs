//! Runs of jobs, and what becomes of due times: values only.

use super::{
    ids::{Handle, JobNo},
    time::Time,
};
use std::sync::Arc;
use uuid::Uuid;

/// Names a run: a job has one run for each due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunKey {
    /// The job.
    pub job: JobNo,
    /// The due time; of a run that no schedule names, when it was asked for.
    pub due: Time,
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
    /// Somebody asked for the due times of a range in the past.
    Backfilled = 4,
}

/// What became of a due time. The numbers are those of the journal and of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i16)]
pub enum RunState {
    /// Its turn is behind other runs of the job.
    Waiting = 1,
    /// It runs.
    Running = 2,
    /// It has failed, and waits for its next attempt; or, without a time of that, it has ended
    /// under an owner that could not read its job.
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
    /// Whoever had claimed it did not renew the claim.
    ClaimantLost = 14,
    /// Whoever had claimed it, and lost it, completed it nevertheless.
    CompletedLate = 15,
    /// Nobody claimed it.
    NotClaimed = 16,
    /// Whoever had claimed it says so.
    Reported = 17,
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
            ClaimantLost,
            CompletedLate,
            NotClaimed,
            Reported,
        ];
        all.into_iter().find(|reason| *reason as i16 == number)
    }
}

impl RunCause {
    /// From the journal's number.
    pub fn from_number(number: i16) -> Option<Self> {
        use RunCause::*;
        let all = [Scheduled, Asked, Followed, Backfilled];
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
