//! The enumerations of the API in the words of the command line.

use rallypoint_client::api::{OnFailure, Outcome, TaskState, TaskView};

/// How a task ended.
pub(super) fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded => "succeeded",
        Outcome::Failed => "failed",
        Outcome::Cancelled => "cancelled",
        Outcome::TimedOut => "timed out",
        Outcome::Exhausted => "exhausted",
        Outcome::Unspecified => "-",
    }
}

/// The state of a task, or how it ended.
pub(super) fn state(task: &TaskView) -> &'static str {
    match (task.state(), &task.done) {
        (TaskState::Done, Some(done)) => outcome(done.outcome()),
        (state, _) => task_state(state),
    }
}

/// The state of a task.
pub(super) fn task_state(state: TaskState) -> &'static str {
    match state {
        TaskState::Done => "done",
        TaskState::Blocked => "blocked",
        TaskState::Queued => "queued",
        TaskState::Running => "running",
        TaskState::Retrying => "retrying",
        TaskState::Unspecified => "-",
    }
}

/// An order, or a dash.
pub(super) fn order(order: Option<i64>) -> String {
    order.map_or_else(|| "-".to_owned(), |order| order.to_string())
}

/// What a failure does to later orders, as an option of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FailurePolicy {
    /// Nothing: the next order starts
    Continue,
    /// Later orders stay blocked, and are cancelled at the release
    Halt,
    /// Later orders are cancelled at once
    CancelRest,
}

impl From<FailurePolicy> for OnFailure {
    fn from(policy: FailurePolicy) -> OnFailure {
        match policy {
            FailurePolicy::Continue => OnFailure::Continue,
            FailurePolicy::Halt => OnFailure::Halt,
            FailurePolicy::CancelRest => OnFailure::CancelRest,
        }
    }
}
