//! What can be done, as values: an action that was confirmed, and what the person said with it.

use super::subject::TaskName;
use rallypoint_client::api::{PauseMode, ReleaseMode, StopMode};

/// An action.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Call {
    CancelTask(TaskName),
    RetryTask(TaskName),
    PauseScheduler(String),
    ResumeScheduler {
        handle: String,
        ignore_failures: bool,
    },
    RetryFailed(String),
    CancelWaiting(String),
    Release {
        handle: String,
        mode: ReleaseMode,
    },
    ForceRelease {
        claim: i64,
        reason: String,
    },
    RunJob(String),
    PauseJob {
        name: String,
        reason: String,
    },
    ResumeJob(String),
    CancelRun {
        name: String,
        due: prost_types::Timestamp,
    },
    StartAgent,
    StopAgent {
        reason: String,
        mode: StopMode,
    },
    /// `None`: all of them.
    PauseTarget {
        target: Option<String>,
        reason: String,
        mode: PauseMode,
    },
    ResumeTarget {
        target: Option<String>,
        reason: String,
    },
    DeclareDead {
        target: String,
        replica: String,
        reason: String,
    },
}

impl Call {
    /// The method of the service that does it.
    pub(super) fn path(&self) -> &'static str {
        match self {
            Call::CancelTask(_) => "/rallypoint.v1.SchedulerService/CancelTask",
            Call::RetryTask(_) => "/rallypoint.v1.SchedulerService/RetryTask",
            Call::PauseScheduler(_) => "/rallypoint.v1.SchedulerService/PauseScheduler",
            Call::ResumeScheduler { .. } => "/rallypoint.v1.SchedulerService/ResumeScheduler",
            Call::RetryFailed(_) => "/rallypoint.v1.SchedulerService/RetryFailed",
            Call::CancelWaiting(_) => "/rallypoint.v1.SchedulerService/CancelTasks",
            Call::Release { .. } => "/rallypoint.v1.SchedulerService/ReleaseScheduler",
            Call::ForceRelease { .. } => "/rallypoint.v1.ResourceService/ForceRelease",
            Call::RunJob(_) => "/rallypoint.v1.JobService/RunJob",
            Call::PauseJob { .. } => "/rallypoint.v1.JobService/PauseJob",
            Call::ResumeJob(_) => "/rallypoint.v1.JobService/ResumeJob",
            Call::CancelRun { .. } => "/rallypoint.v1.JobService/CancelRun",
            Call::StartAgent => "/rallypoint.v1.JobService/StartAgent",
            Call::StopAgent { .. } => "/rallypoint.v1.JobService/StopAgent",
            Call::PauseTarget { .. } => "/rallypoint.v1.OperatorService/PauseTarget",
            Call::ResumeTarget { .. } => "/rallypoint.v1.OperatorService/ResumeTarget",
            Call::DeclareDead { .. } => "/rallypoint.v1.OperatorService/DeclareDead",
        }
    }

    /// What could not be done, where it could not.
    pub(super) fn failure(&self) -> &'static str {
        match self {
            Call::CancelTask(_) => "cannot cancel the task",
            Call::RetryTask(_) => "cannot retry the task",
            Call::PauseScheduler(_) => "cannot pause the scheduler",
            Call::ResumeScheduler { .. } => "cannot resume the scheduler",
            Call::RetryFailed(_) => "cannot retry what failed",
            Call::CancelWaiting(_) => "cannot cancel what waits",
            Call::Release { .. } => "cannot release the scheduler",
            Call::ForceRelease { .. } => "cannot end the claim",
            Call::RunJob(_) => "cannot run the job",
            Call::PauseJob { .. } => "cannot pause the job",
            Call::ResumeJob(_) => "cannot resume the job",
            Call::CancelRun { .. } => "cannot cancel the run",
            Call::StartAgent => "cannot start the agent",
            Call::StopAgent { .. } => "cannot stop the agent",
            Call::PauseTarget { .. } => "cannot pause the target",
            Call::ResumeTarget { .. } => "cannot resume the target",
            Call::DeclareDead { .. } => "cannot declare the sessions dead",
        }
    }

    /// The action with the reason that the person gives, and the choice by its number.
    pub(super) fn answered(mut self, said: &str, choice: usize) -> Call {
        match &mut self {
            Call::Release { mode, .. } if choice == 1 => *mode = ReleaseMode::Cancel,
            Call::StopAgent { reason, mode } => {
                said.clone_into(reason);
                if choice == 1 {
                    *mode = StopMode::CancelRunning;
                }
            }
            Call::PauseTarget { reason, mode, .. } => {
                said.clone_into(reason);
                if choice == 1 {
                    *mode = PauseMode::CancelRunning;
                }
            }
            Call::ForceRelease { reason, .. }
            | Call::PauseJob { reason, .. }
            | Call::ResumeTarget { reason, .. }
            | Call::DeclareDead { reason, .. } => said.clone_into(reason),
            _ => {}
        }
        self
    }
}
