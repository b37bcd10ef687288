//! The errors of RetryTask and RetryFailed alone.

use super::{OWNER_RETRY_DELAY, info, reason::Reason};
use crate::core::{Seq, TaskId};
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// A task that cannot be retried as it is.
pub(in crate::rpc) fn not_retriable(reason: Reason, task: TaskId, description: &str) -> Status {
    let mut details = info(reason, &[]);
    details.add_precondition_failure_violation(reason.as_str_name(), task.to_string(), description);
    Status::with_error_details(Code::FailedPrecondition, description, details)
}

/// The retry that the task has runs something else than this call asks for. `last`: of its
/// retries, each of the one before.
pub(in crate::rpc) fn already_retried(task: TaskId, retry: Seq, last: Seq) -> Status {
    let reason = Reason::AlreadyRetried;
    let mut details = info(reason, &[("retry", last.0.to_string())]);
    let description = format!(
        "task {} has a retry, task {}, which runs another statement than this call gives: if that \
         failed as well, retry task {}",
        task.seq.0, retry.0, last.0
    );
    details.add_precondition_failure_violation(
        reason.as_str_name(),
        task.to_string(),
        &description,
    );
    Status::with_error_details(Code::FailedPrecondition, description, details)
}

/// Others retry tasks of the same scheduler, and were ahead each time. The call had no effect.
pub(in crate::rpc) fn retried_meanwhile() -> Status {
    let limit = "retries_of_a_scheduler";
    let mut details = info(Reason::Overloaded, &[("limit", limit.into())]);
    details.set_retry_info(Some(OWNER_RETRY_DELAY));
    details.add_quota_failure_violation("scheduler", limit);
    Status::with_error_details(
        Code::Unavailable,
        "other calls retry tasks of this scheduler at the same time, and were ahead of this one; \
         call again",
        details,
    )
}
