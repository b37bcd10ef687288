//! Every error of the service becomes a gRPC status here, with `google.rpc` details: always ErrorInfo, and what belongs to
//! the code. A definite code means "no effect"; UNAVAILABLE means "unknown". What does not exist and what is another
//! namespace's get the same bytes. Never says anything of a statement, a file or the database's own words.

mod limits;
pub(crate) mod reason;
pub(crate) mod transport;
pub(crate) mod violations;

use crate::{
    coordinator::CallError,
    core::{Handle, Reject, Reply, model::limits::CALL_BYTES},
    journal::JournalError,
};
use reason::Reason;
use std::{collections::HashMap, time::Duration};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};
use violations::Violations;

/// The domain of our reasons.
pub(super) const DOMAIN: &str = "rallypoint";
/// When to call again when the server cannot answer at the moment.
const RETRY: Duration = Duration::from_secs(1);
/// The same when the shard changes hands: that is quick, or has another server to look for it.
const RETRY_OWNER: Duration = Duration::from_millis(200);
const SHUTDOWN: &str = "shutdown";
const SCHEDULER: &str = "rallypoint.v1.Scheduler";

/// The answer to a malformed request: every field at fault, as many as fit.
impl From<Violations> for Status {
    fn from(violations: Violations) -> Status {
        let (reported, count) = (violations.reported(), violations.count());
        let Some(first) = reported.first() else {
            return Status::invalid_argument("malformed request");
        };
        let mut details = info(first.reason, &[("violations", count.to_string())]);
        details.set_bad_request(reported.iter().map(field_violation).collect::<Vec<_>>());
        let message = match count {
            1 => format!("{}: {}", first.field, first.message),
            _ => format!(
                "{count} fields are wrong, first {}: {}",
                first.field, first.message
            ),
        };
        Status::with_error_details(Code::InvalidArgument, message, details)
    }
}

/// A call about `handle` that the coordinator did not carry out.
pub(super) fn call(error: CallError, handle: Handle) -> Status {
    match error {
        CallError::Rejected(reject) => rejected(reject, handle),
        CallError::NotOwner => not_owner(),
        CallError::OwnerChanged => owner_changed(),
        CallError::Unavailable {
            retry_after,
            reason,
        } => {
            let mut details = info(Reason::TEMPORARILY_UNAVAILABLE, &[("cause", reason.into())]);
            details.set_retry_info(Some(retry_after));
            let message = format!(
                "{reason}: the call may or may not have had an effect; repeat it with the same request_id"
            );
            Status::with_error_details(Code::Unavailable, message, details)
        }
        CallError::Truncated { oldest } => truncated("after", oldest.0),
        CallError::Overloaded { retry_after, limit } => {
            let mut details = info(Reason::OVERLOADED, &[("limit", limit.into())]);
            details.set_retry_info(Some(retry_after));
            details.add_quota_failure_violation("server", limit);
            Status::with_error_details(
                Code::Unavailable,
                "more calls are waiting than this server holds; call again",
                details,
            )
        }
    }
}

/// Another replica owns the shard, or nobody does at the moment. The call had no effect.
pub(super) fn not_owner() -> Status {
    let mut details = info(Reason::NOT_OWNER, &[]);
    details.set_retry_info(Some(RETRY_OWNER));
    Status::with_error_details(
        Code::Unavailable,
        "no replica that can be reached owns the shard at the moment; call again",
        details,
    )
}

/// The shard changed hands while the call was under way.
pub(super) fn owner_changed() -> Status {
    let mut details = info(Reason::OWNER_CHANGED, &[]);
    details.set_retry_info(Some(RETRY_OWNER));
    let message = "the shard has changed hands: the call may or may not have had an effect; repeat it with the same request_id";
    Status::with_error_details(Code::Unavailable, message, details)
}

/// A call about `handle` that was decided against.
pub(super) fn rejected(reject: Reject, handle: Handle) -> Status {
    match reject {
        Reject::UnknownHandle => handle_not_found(),
        Reject::Released => released(handle),
        Reject::OrderClosed {
            index,
            order,
            current,
        } => order_closed(index, order.0, current.0, handle),
        Reject::RequestIdReused => {
            let details = info(Reason::REQUEST_ID_REUSED, &[]);
            let message = "the request_id was used with another payload within the last 15 minutes";
            Status::with_error_details(Code::AlreadyExists, message, details)
        }
        Reject::LimitReached {
            limit,
            namespace,
            value,
            wait,
        } => limits::reached(limit, &namespace, value, wait, handle),
        Reject::CursorAhead { last } => {
            let mut details = info(Reason::CURSOR_AHEAD, &[("last", last.0.to_string())]);
            details.set_bad_request([violation(
                "after",
                Reason::CURSOR_AHEAD,
                format!("the last event is {}", last.0),
            )]);
            Status::with_error_details(
                Code::OutOfRange,
                "`after` is beyond the last event of the scheduler",
                details,
            )
        }
        Reject::UnknownTask => task_not_found(),
        Reject::JournalRejected => {
            let details = info(Reason::JOURNAL_REJECTED, &[]);
            Status::with_error_details(
                Code::InvalidArgument,
                "the coordination database refused to store the call",
                details,
            )
        }
    }
}

/// What is asked for is older than the retention; `oldest` is the lowest value of `field` that can be answered.
pub(super) fn truncated(field: &str, oldest: i64) -> Status {
    let mut details = info(Reason::CURSOR_TRUNCATED, &[("oldest", oldest.to_string())]);
    let description = format!("older than the retention; begin at {oldest}");
    details.set_bad_request([violation(field, Reason::CURSOR_TRUNCATED, description)]);
    Status::with_error_details(
        Code::OutOfRange,
        format!("`{field}` is older than the retention"),
        details,
    )
}

/// Not there, or not the caller's: the same answer.
pub(super) fn handle_not_found() -> Status {
    Status::with_error_details(
        Code::NotFound,
        "no such scheduler",
        info(Reason::HANDLE_NOT_FOUND, &[]),
    )
}

/// No such task in a scheduler of the caller's.
pub(super) fn task_not_found() -> Status {
    Status::with_error_details(
        Code::NotFound,
        "no such task",
        info(Reason::TASK_NOT_FOUND, &[]),
    )
}

/// The scheduler is released.
pub(super) fn released(handle: Handle) -> Status {
    let mut details = info(Reason::HANDLE_RELEASED, &[]);
    let description = "released schedulers take no tasks and no changes";
    details.add_precondition_failure_violation(
        Reason::HANDLE_RELEASED.as_str(),
        handle.to_string(),
        description,
    );
    details.set_resource_info(SCHEDULER, handle.to_string(), "", description);
    Status::with_error_details(
        Code::FailedPrecondition,
        "the scheduler is released",
        details,
    )
}

/// A namespace was named where that is not trusted.
pub(super) fn namespace_not_trusted(key: &'static str) -> Status {
    let details = info(Reason::NAMESPACE_NOT_TRUSTED, &[("metadata", key.into())]);
    let message =
        "this server does not take the namespace from metadata (it was not started to trust it)";
    Status::with_error_details(Code::PermissionDenied, message, details)
}

/// A metadata entry is wrong.
pub(super) fn metadata(key: &'static str, reason: Reason, message: &str) -> Status {
    let mut details = info(reason, &[("metadata", key.into())]);
    details.set_bad_request([violation(
        &format!("metadata.{key}"),
        reason,
        message.into(),
    )]);
    Status::with_error_details(
        Code::InvalidArgument,
        format!("metadata {key}: {message}"),
        details,
    )
}

/// The request is larger than the transport takes.
pub(super) fn call_too_large() -> Status {
    let details = info(
        Reason::CALL_TOO_LARGE,
        &[("limit_bytes", CALL_BYTES.to_string())],
    );
    Status::with_error_details(
        Code::InvalidArgument,
        "a call is at most 4 MiB; make several calls",
        details,
    )
}

/// The request cannot be decoded.
pub(super) fn message_malformed() -> Status {
    let details = info(Reason::MESSAGE_MALFORMED, &[]);
    Status::with_error_details(
        Code::InvalidArgument,
        "the request is not a message of this API",
        details,
    )
}

/// The journal could not be read. What the database says is for the operator only.
pub(super) fn journal(error: JournalError) -> Status {
    tracing::warn!(%error, "the journal could not be read for a caller");
    unavailable(
        "journal",
        "the journal cannot be read at the moment; call again",
    )
}

/// The server is going down; another one, or this one again, will answer.
pub(super) fn stopping() -> Status {
    unavailable(SHUTDOWN, "the server is going down; call again")
}

/// Whether that is what `status` says, of another replica.
pub(super) fn is_stopping(status: &Status) -> bool {
    let details = status.get_error_details();
    details.error_info().is_some_and(|info| {
        info.metadata
            .get("cause")
            .is_some_and(|cause| cause == SHUTDOWN)
    })
}

/// The coordinator answered another question.
pub(super) fn bug(reply: &Reply) -> Status {
    let question = std::mem::discriminant(reply);
    tracing::error!(?question, "the coordinator's reply does not fit the call");
    Status::with_error_details(
        Code::Internal,
        "a fault of the server; please report it",
        info(Reason::INTERNAL, &[]),
    )
}

fn unavailable(cause: &str, message: &str) -> Status {
    let mut details = info(Reason::TEMPORARILY_UNAVAILABLE, &[("cause", cause.into())]);
    details.set_retry_info(Some(RETRY));
    Status::with_error_details(Code::Unavailable, message, details)
}

fn order_closed(index: usize, order: i64, current: i64, handle: Handle) -> Status {
    let numbers = [
        ("index", index.to_string()),
        ("order", order.to_string()),
        ("current_order", current.to_string()),
    ];
    let mut details = info(Reason::ORDER_CLOSED, &numbers);
    let field = format!("tasks[{index}].order");
    let description = format!("order {order} is below the current order {current}");
    details.add_precondition_failure_violation(
        Reason::ORDER_CLOSED.as_str(),
        format!("{handle} {field}"),
        &description,
    );
    Status::with_error_details(
        Code::FailedPrecondition,
        format!("{field}: {description}"),
        details,
    )
}

fn info(reason: Reason, metadata: &[(&str, String)]) -> ErrorDetails {
    let metadata: HashMap<String, String> = metadata
        .iter()
        .map(|(key, value)| (key.to_string(), value.clone()))
        .collect();
    ErrorDetails::with_error_info(reason.as_str(), DOMAIN, metadata)
}

fn field_violation(found: &violations::Violation) -> FieldViolation {
    violation(&found.field, found.reason, found.message.clone())
}

fn violation(field: &str, reason: Reason, description: String) -> FieldViolation {
    let mut violation = FieldViolation::new(field, description);
    violation.reason = reason.as_str().into();
    violation
}
