//! What an action is about: as much of a row, or of a whole view, as it takes to say which actions
//! there are and to ask before one is done.

use rallypoint_client::api::{
    Job, JobRun, RunState, Scheduler, SchedulerState, TaskState, TaskView,
};

/// Something that can be acted on.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Subject {
    Scheduler {
        state: SchedulerState,
        standstill: Standstill,
        handle: String,
        /// It may have none.
        name: String,
    },
    Task(TaskName, Progress),
    Claim(i64, String),
    Job {
        name: String,
        paused: bool,
        claimed: bool,
    },
    Run(String, prost_types::Timestamp),
    Agent {
        stopped: bool,
    },
    Target {
        name: String,
        paused: bool,
    },
    AllTargets {
        paused: bool,
    },
    Fence {
        target: String,
        replica: String,
    },
}

/// The name of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TaskName {
    pub(super) handle: String,
    pub(super) seq: i64,
}

/// What keeps a scheduler from starting tasks, and how many wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standstill {
    pub(super) paused: bool,
    pub(super) halted: bool,
    pub(super) waiting: i64,
}

/// How far a task has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Waits,
    Runs,
    Succeeded,
    /// It ended otherwise, and may be retried.
    Failed,
    /// It ended otherwise, and has a retry, or cannot have one.
    Over,
}

impl Subject {
    pub(super) fn scheduler(one: &Scheduler) -> Subject {
        let standstill = Standstill {
            paused: one.paused,
            halted: one.halt.is_some(),
            waiting: one.queued + one.blocked + one.retrying,
        };
        Subject::Scheduler {
            state: one.state(),
            standstill,
            handle: one.handle.clone(),
            name: one.name.clone(),
        }
    }

    /// `open`: its scheduler takes tasks.
    pub(super) fn task(task: &TaskView, open: bool) -> Subject {
        use rallypoint_client::api::Outcome::Succeeded;
        let id = task.id.clone().unwrap_or_default();
        let progress = match (task.state(), &task.done) {
            (TaskState::Running, _) => Progress::Runs,
            (TaskState::Done, Some(done)) if done.outcome() == Succeeded => Progress::Succeeded,
            (TaskState::Done, _) if open && task.retried_as.is_none() => Progress::Failed,
            (TaskState::Done, _) => Progress::Over,
            _ => Progress::Waits,
        };
        let (handle, seq) = (id.handle, id.seq);
        Subject::Task(TaskName { handle, seq }, progress)
    }

    pub(super) fn job(job: &Job) -> Subject {
        let settings = job.settings.as_ref();
        Subject::Job {
            name: job.name.clone(),
            paused: job.paused.is_some(),
            claimed: settings.is_some_and(|settings| settings.claims.is_some()),
        }
    }

    /// A run that can be cancelled.
    pub(super) fn run(run: &JobRun) -> Option<Subject> {
        use RunState::{Retrying, Running, Waiting};
        let is_open = matches!(run.state(), Waiting | Running | Retrying);
        let due = run.due.filter(|_| is_open)?;
        Some(Subject::Run(run.job.clone(), due))
    }
}
