//! The enumerations of the API in the words of the command line.

use rallypoint_client::api::{
    AttemptState, ExecutionState, OnFailure, Outcome, Scheduler, SchedulerState, SlotKind,
    TaskState, TaskView, slot_kind,
};

/// What a server of an earlier version does not say.
const UNKNOWN: &str = "unknown";

/// A value of an enumeration by its name: RUN_STATE_TIMED_OUT is "timed out".
pub(super) fn in_words(name: &str, prefix: &str) -> String {
    let name = name.strip_prefix(prefix).unwrap_or(name);
    name.to_lowercase().replace('_', " ")
}

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
        TaskState::Unspecified => UNKNOWN,
    }
}

/// Where an attempt stands, or how it ended.
pub(super) fn attempt_state(state: AttemptState) -> &'static str {
    match state {
        AttemptState::Running => "running",
        AttemptState::Succeeded => "succeeded",
        AttemptState::Failed => "failed",
        AttemptState::TimedOut => "timed out",
        AttemptState::Cancelled => "cancelled",
        AttemptState::Lost => "lost",
        AttemptState::HandedBack => "handed back",
        AttemptState::Unspecified => "-",
    }
}

/// The target of slots.
pub(super) fn slot_kind(kind: Option<&SlotKind>) -> String {
    match kind.and_then(|kind| kind.kind.as_ref()) {
        Some(slot_kind::Kind::SqlTarget(target)) => target.clone(),
        Some(slot_kind::Kind::Noop(())) => "no-op".to_owned(),
        None => UNKNOWN.to_owned(),
    }
}

/// What a slot does.
pub(super) fn execution_state(state: ExecutionState) -> &'static str {
    match state {
        ExecutionState::Idle => "idle",
        ExecutionState::Connecting => "connecting",
        ExecutionState::Running => "running",
        ExecutionState::Unspecified => UNKNOWN,
    }
}

/// Who submitted a task.
pub(super) fn submitted_by(caller: Option<&String>) -> String {
    caller.map_or_else(|| UNKNOWN.to_owned(), String::clone)
}

/// The state of a scheduler, with what holds it up.
pub(super) fn scheduler(scheduler: &Scheduler) -> &'static str {
    match scheduler.state() {
        SchedulerState::Open if scheduler.paused => "paused",
        SchedulerState::Open if scheduler.halt.is_some() => "halted",
        state => scheduler_state(state),
    }
}

/// The state of a scheduler.
pub(super) fn scheduler_state(state: SchedulerState) -> &'static str {
    match state {
        SchedulerState::Open => "open",
        SchedulerState::Releasing => "releasing",
        SchedulerState::Released => "released",
        SchedulerState::Unspecified => "-",
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
    #[value(alias = "cancel_rest")]
    CancelRest,
}

impl FailurePolicy {
    /// As the command line has it.
    pub(super) fn name(self) -> &'static str {
        match self {
            FailurePolicy::Continue => "continue",
            FailurePolicy::Halt => "halt",
            FailurePolicy::CancelRest => "cancel-rest",
        }
    }
}

impl From<OnFailure> for FailurePolicy {
    fn from(on_failure: OnFailure) -> FailurePolicy {
        match on_failure {
            OnFailure::Continue | OnFailure::Unspecified => FailurePolicy::Continue,
            OnFailure::Halt => FailurePolicy::Halt,
            OnFailure::CancelRest => FailurePolicy::CancelRest,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_tasks_without_a_target_have_a_name() {
        let noop = SlotKind {
            kind: Some(slot_kind::Kind::Noop(())),
        };
        assert_eq!(slot_kind(Some(&noop)), "no-op");
        assert_eq!(slot_kind(None), UNKNOWN);
    }
}
