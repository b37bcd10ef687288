//! Every error of the service becomes a gRPC status here, with `google.rpc` details: always
//! ErrorInfo with the effect of the call, and what belongs to the code. A scheduler that does not
//! exist and one of another namespace get identical answers. Nothing of a statement, a file or the
//! database's own messages is ever included.

pub(super) mod access;
pub(super) mod gateway;
pub(super) mod job;
mod limits;
mod messages;
pub(crate) mod reason;
pub(super) mod resource;
mod retries;
mod room;
mod schedulers;
pub(super) mod trailers;
pub(crate) mod transport;
pub(crate) mod violations;

use crate::{
    coordinator::CallError,
    core::{Handle, Reject, Reply, Seq},
    journal::JournalError,
};
pub(super) use messages::{call_too_large, message_late, message_malformed, more_than_one_message};
use reason::Reason;
pub(super) use retries::{already_retried, not_retriable, retried_meanwhile};
pub(super) use room::{
    no_answer_room, no_event_room, no_message_room, no_stream_room, no_watch_room,
};
use std::{collections::HashMap, time::Duration};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};
use violations::Violations;

/// `ErrorInfo.domain` of every reason.
pub(super) const DOMAIN: &str = "rallypoint";
/// Retry delay while the server cannot answer.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Retry delay during a change of ownership, which is quick.
const OWNER_RETRY_DELAY: Duration = Duration::from_millis(200);
const SHUTDOWN: &str = "shutdown";

/// The answer to a malformed request: every field at fault, as many as fit.
impl From<Violations> for Status {
    fn from(violations: Violations) -> Status {
        let (reported, count) = (violations.reported(), violations.count());
        let Some(first) = reported.first() else {
            return Status::invalid_argument("malformed request");
        };
        let mut details = info(first.reason, &[("violations", count.to_string())]);
        details.set_bad_request(reported.iter().map(field_violation).collect::<Vec<_>>());
        let message = violations.in_words();
        Status::with_error_details(Code::InvalidArgument, message, details)
    }
}

/// Why the coordinator did not carry out a call about `handle`.
pub(super) fn call(error: CallError, handle: Handle) -> Status {
    not_carried_out(error, |reject| rejected(reject, handle))
}

/// Why the coordinator did not do what an operator asked for.
pub(super) fn of_operator(error: CallError) -> Status {
    not_carried_out(error, |_| journal_rejected())
}

fn not_carried_out(error: CallError, rejected: impl FnOnce(Reject) -> Status) -> Status {
    match error {
        CallError::Rejected(reject) => rejected(reject),
        CallError::NotOwner => not_owner(),
        CallError::OwnerChanged => owner_changed(),
        CallError::Unavailable {
            retry_after,
            reason,
        } => {
            let mut details = info(Reason::TemporarilyUnavailable, &[("cause", reason.into())]);
            details.set_retry_info(Some(retry_after));
            let message = format!(
                "{reason}: the call may or may not have had an effect; \
                 repeat it with the same request_id"
            );
            Status::with_error_details(Code::Unavailable, message, details)
        }
        CallError::Truncated { oldest } => {
            let begin = format!("begin at {}", oldest.0);
            truncated(
                "after",
                Some(oldest.0),
                &format!("without a resume_token, {begin}"),
            )
        }
        CallError::Unreadable => unreadable(),
        CallError::Overloaded { retry_after, limit } => call_overloaded(limit, retry_after),
    }
}

fn call_overloaded(limit: &'static str, retry_after: Duration) -> Status {
    let mut details = info(Reason::Overloaded, &[("limit", limit.into())]);
    details.set_retry_info(Some(retry_after));
    details.add_quota_failure_violation("server", limit);
    Status::with_error_details(
        Code::Unavailable,
        "too many calls are waiting on this server; call again",
        details,
    )
}

/// An operator's call that could not be put on record. It may have had an effect.
pub(super) fn not_audited() -> Status {
    let cause = "the audit cannot be written";
    let mut details = info(Reason::TemporarilyUnavailable, &[("cause", cause.into())]);
    details.set_retry_info(Some(RETRY_DELAY));
    let message = "the call could not be put on record, so it counts as unanswered: it may or may \
                   not have had an effect; call again";
    Status::with_error_details(Code::Unavailable, message, details)
}

/// Another replica owns the shard, or none does. The call had no effect.
pub(super) fn not_owner() -> Status {
    let mut details = info(Reason::NotOwner, &[]);
    details.set_retry_info(Some(OWNER_RETRY_DELAY));
    Status::with_error_details(
        Code::Unavailable,
        "no reachable replica owns the shard at the moment; call again",
        details,
    )
}

/// Ownership of the shard changed during the call, which may have had an effect.
pub(super) fn owner_changed() -> Status {
    let mut details = info(Reason::OwnerChanged, &[]);
    details.set_retry_info(Some(OWNER_RETRY_DELAY));
    let message = "ownership of the shard changed: the call may or may not have had an effect; \
                   repeat it with the same request_id";
    Status::with_error_details(Code::Unavailable, message, details)
}

/// What failed behind a step of the call that has had its effect: never that it had none.
pub(super) fn after_effect(failed: Status) -> Status {
    let details = failed.get_error_details();
    let reason = details.error_info().map(|info| info.reason.as_str());
    let without = [Reason::NotOwner, Reason::Overloaded].map(|one| one.as_str_name());
    match reason.is_some_and(|reason| without.contains(&reason)) {
        true => unavailable(
            "coordinator",
            "the call has begun to have its effect, and how it goes on is not known: call again",
        ),
        false => failed,
    }
}

/// Why the core rejected a call about `handle`.
pub(super) fn rejected(reject: Reject, handle: Handle) -> Status {
    match reject {
        Reject::UnknownHandle => schedulers::not_found(),
        Reject::Released => schedulers::released(handle),
        Reject::OrderClosed {
            index,
            order,
            current,
        } => order_closed(index, order.0, current.0, handle),
        Reject::RequestIdReused => schedulers::request_id_reused(),
        Reject::NameTaken { holder } => schedulers::name_taken(holder),
        Reject::LimitReached {
            limit,
            namespace,
            value,
            wait,
        } => limits::reached(limit, &namespace, value, wait, Some(handle)),
        Reject::CursorAhead { last } => {
            let mut details = info(Reason::CursorAhead, &[("last", last.0.to_string())]);
            details.set_bad_request([violation(
                "after",
                Reason::CursorAhead,
                format!("the last event is {}", last.0),
            )]);
            Status::with_error_details(
                Code::OutOfRange,
                "`after` is beyond the last event of the scheduler",
                details,
            )
        }
        Reject::UnknownTask => task_not_found(),
        Reject::Retried { .. } | Reject::RetriesUnknown => retried_meanwhile(),
        Reject::JournalRejected => journal_rejected(),
        Reject::TaskResource {
            index,
            name,
            by_default,
            reject,
        } => resource::of_task(index, &name, by_default, reject),
        Reject::Resource(reject) => resource::rejected(reject),
        Reject::Job(reject) => job::rejected(reject),
    }
}

fn request_id_reused() -> Status {
    let message = "the request_id was used with another payload, or by another identity, within \
                   the last 15 minutes";
    plain(Code::AlreadyExists, Reason::RequestIdReused, message)
}

/// An error that its reason says all of.
fn plain(code: Code, reason: Reason, message: &str) -> Status {
    Status::with_error_details(code, message, info(reason, &[]))
}

fn journal_rejected() -> Status {
    Status::with_error_details(
        Code::InvalidArgument,
        "the coordination database refused to store the call",
        info(Reason::JournalRejected, &[]),
    )
}

/// The requested rows are past their retention; `oldest` is the lowest value of `field` that still
/// has rows, if that is known, and `remedy` says what to do.
fn truncated(field: &str, oldest: Option<i64>, remedy: &str) -> Status {
    let facts = oldest.map(|oldest| ("oldest", oldest.to_string()));
    let mut details = info(Reason::CursorTruncated, facts.as_slice());
    let description = format!("older than the retention; {remedy}");
    details.set_bad_request([violation(field, Reason::CursorTruncated, description)]);
    Status::with_error_details(
        Code::OutOfRange,
        format!("`{field}` is older than the retention"),
        details,
    )
}

/// So is a task; `oldest` is the first that is left.
pub(super) fn task_truncated(oldest: Seq) -> Status {
    let begin = format!("begin at {}", oldest.0);
    truncated("id.seq", Some(oldest.0), &begin)
}

/// So is what became of a task.
pub(super) fn past_retention() -> Status {
    truncated("id.seq", None, "nobody knows any more what became of it")
}

/// So is the last task of the page before.
pub(super) fn page_truncated() -> Status {
    truncated("page_token", None, "begin again without it")
}

pub(super) fn task_not_found() -> Status {
    plain(
        Code::NotFound,
        Reason::TaskNotFound,
        "no such task in this scheduler: ListTasks shows which there are",
    )
}

/// The call names a namespace, and metadata is not trusted.
pub(super) fn namespace_not_trusted(key: &'static str) -> Status {
    let details = info(Reason::NamespaceNotTrusted, &[("metadata", key.into())]);
    let message = "this server was not started to trust the namespace in metadata";
    Status::with_error_details(Code::PermissionDenied, message, details)
}

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

/// The deadline that the caller set has passed. What had been decided by then takes effect.
pub(super) fn deadline_exceeded() -> Status {
    let message = "the deadline of the call has passed: it may or may not have had an effect; \
                   repeat it with the same request_id";
    Status::with_error_details(
        Code::DeadlineExceeded,
        message,
        info(Reason::DeadlineExceeded, &[]),
    )
}

/// The journal could not be read. The database's message goes to the log only.
pub(super) fn journal(error: JournalError) -> Status {
    tracing::warn!(%error, "cannot read the journal for a caller");
    if let JournalError::Corrupt(_) = error {
        return unreadable();
    }
    unavailable(
        "journal",
        "the journal cannot be read at the moment; call again",
    )
}

/// What is stored makes no sense to this version.
fn unreadable() -> Status {
    let message = "what is stored for this answer cannot be read by this version of the service: \
                   its rows are kept as they are; see the log of the owner, and run the version \
                   that wrote them or restore them from a backup";
    let details = info(Reason::DataUnreadable, &[]);
    Status::with_error_details(Code::DataLoss, message, details)
}

/// The server waits for its coordination database.
pub(super) fn starting() -> Status {
    unavailable(
        "journal",
        "this server waits for its coordination database; call again",
    )
}

/// The server is shutting down; another one will answer, or this one once it is back.
pub(super) fn stopping() -> Status {
    unavailable(SHUTDOWN, "the server is shutting down; call again")
}

/// Whether `status` is [`stopping`] of another replica.
pub(super) fn is_stopping(status: &Status) -> bool {
    let details = status.get_error_details();
    details.error_info().is_some_and(|info| {
        info.metadata
            .get("cause")
            .is_some_and(|cause| cause == SHUTDOWN)
    })
}

/// The coordinator's reply is of another kind than the command.
pub(super) fn mismatched_reply(reply: &Reply) -> Status {
    let kind = std::mem::discriminant(reply);
    tracing::error!(?kind, "the coordinator's reply does not match the call");
    fault(kind)
}

/// A fault of the server, of which only the log says more.
pub(super) fn fault(error: impl std::fmt::Debug) -> Status {
    tracing::debug!(?error, "an answer cannot be given");
    Status::with_error_details(
        Code::Internal,
        "a fault of the server; please report it",
        info(Reason::Internal, &[]),
    )
}

fn unavailable(cause: &str, message: &str) -> Status {
    let mut details = info(Reason::TemporarilyUnavailable, &[("cause", cause.into())]);
    details.set_retry_info(Some(RETRY_DELAY));
    Status::with_error_details(Code::Unavailable, message, details)
}

fn order_closed(index: usize, order: i64, current: i64, handle: Handle) -> Status {
    let numbers = [
        ("index", index.to_string()),
        ("order", order.to_string()),
        ("current_order", current.to_string()),
    ];
    let mut details = info(Reason::OrderClosed, &numbers);
    let field = format!("tasks[{index}].order");
    let description = format!("order {order} is below the current order {current}");
    details.add_precondition_failure_violation(
        Reason::OrderClosed.as_str_name(),
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
    let effect = [("effect", reason::effect(reason).to_owned())];
    let metadata: HashMap<String, String> = metadata
        .iter()
        .chain(&effect)
        .map(|(key, value)| (key.to_string(), value.clone()))
        .collect();
    ErrorDetails::with_error_info(reason.as_str_name(), DOMAIN, metadata)
}

fn field_violation(found: &violations::Violation) -> FieldViolation {
    violation(&found.field, found.reason, found.message.clone())
}

fn violation(field: &str, reason: Reason, description: String) -> FieldViolation {
    let mut violation = FieldViolation::new(field, description);
    violation.reason = reason.as_str_name().into();
    violation
}
