//! What keeps a call from a scheduler, or from opening one.

use super::{Reason, info};
use crate::core::Handle;
use tonic::{Code, Status};
use tonic_types::StatusExt;

const SCHEDULER: &str = "rallypoint.v1.Scheduler";

/// It does not exist or belongs to another namespace: the same answer.
pub(super) fn not_found() -> Status {
    Status::with_error_details(
        Code::NotFound,
        "no such scheduler in this namespace: ListSchedulers shows which there are",
        info(Reason::HandleNotFound, &[]),
    )
}

pub(super) fn released(handle: Handle) -> Status {
    let mut details = info(Reason::HandleReleased, &[]);
    let description = "a released scheduler takes no tasks, retries or changes: submit to another \
                       one (GetScheduler), and leave it open as long as tasks may have to be retried";
    details.add_precondition_failure_violation(
        Reason::HandleReleased.as_str_name(),
        handle.to_string(),
        description,
    );
    details.set_resource_info(SCHEDULER, handle.to_string(), "", description);
    let message = "the scheduler is released";
    Status::with_error_details(Code::FailedPrecondition, message, details)
}

pub(super) fn request_id_reused() -> Status {
    let details = info(Reason::RequestIdReused, &[]);
    let message = "the request_id was used with another payload within the last 15 minutes";
    Status::with_error_details(Code::AlreadyExists, message, details)
}

/// `holder` is open under the name.
pub(super) fn name_taken(holder: Handle) -> Status {
    let handle = holder.to_string();
    let mut details = info(Reason::NameTaken, &[("handle", handle.clone())]);
    let description = "set `reuse` to get the scheduler that is open, or release it first";
    details.set_resource_info(SCHEDULER, &handle, "", description);
    let message = format!("scheduler {handle} is open under this name: {description}");
    Status::with_error_details(Code::AlreadyExists, message, details)
}
