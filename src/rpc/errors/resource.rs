//! Why a call about resources was refused. It had no effect.

use super::{
    info, journal_rejected, limits, not_carried_out, plain, reason::Reason, request_id_reused,
    violation,
};
use crate::{
    coordinator::CallError,
    core::{ClaimEnd, ClaimState, Reject, ResourceReject, TaskId, Waits},
};
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Why the coordinator did not carry out a call.
pub(crate) fn call(error: CallError) -> Status {
    not_carried_out(error, |reject| match reject {
        Reject::Resource(reject) => rejected(reject),
        Reject::RequestIdReused => request_id_reused(),
        Reject::LimitReached {
            limit,
            namespace,
            value,
            wait,
        } => limits::reached(limit, &namespace, value, wait, None),
        _ => journal_rejected(),
    })
}

/// A call on a stream of many has more than `largest` bytes.
pub(crate) fn call_too_large(largest: usize) -> Status {
    let facts = [("limit_bytes", largest.to_string())];
    let message = format!("a call about claims is at most {} KiB", largest >> 10);
    let details = info(Reason::CallTooLarge, &facts);
    Status::with_error_details(Code::InvalidArgument, message, details)
}

/// Whether it was refused because there is no such resource.
pub(crate) fn is_unknown_resource(error: &CallError) -> bool {
    let unknown =
        |reject: &Reject| matches!(reject, Reject::Resource(ResourceReject::UnknownResource(_)));
    matches!(error, CallError::Rejected(reject) if unknown(reject))
}

/// Why the core refused it.
pub(crate) fn rejected(reject: ResourceReject) -> Status {
    use ResourceReject::{
        CircularWait, ClaimEnded, ClaimOfAnother, ClaimOfTask, OfPattern, PermitsRefill,
        ResourceExists, ResourceInUse, TooManyPermits, UnknownClaim, UnknownResource, WrongToken,
    };
    match reject {
        UnknownResource(name) => {
            let message = format!(
                "no resource {name:?}, and no pattern for it: create it with CreateResource"
            );
            let details = info(Reason::ResourceNotFound, &[("resource", name.to_string())]);
            Status::with_error_details(Code::NotFound, message, details)
        }
        OfPattern { name, pattern } => of_pattern(&name, &pattern),
        ResourceExists => plain(
            Code::AlreadyExists,
            Reason::ResourceExists,
            "the resource is there with other settings: change them with UpdateResource",
        ),
        ResourceInUse { holds, waiting } => in_use(holds, waiting),
        TooManyPermits {
            name,
            definition,
            capacity,
        } => exceeded(&name, &definition, capacity),
        PermitsRefill(name) => {
            precondition(Reason::PermitsRefill, &[], &name, permits_refill(&name))
        }
        CircularWait(circle) => circular(&circle),
        UnknownClaim => plain(
            Code::NotFound,
            Reason::ClaimNotFound,
            "no such claim, or it ended long ago",
        ),
        WrongToken => {
            let message = "the token is not that of the hold (0: the claim waits); GetClaim tells \
                           how the claim fares";
            precondition(Reason::TokenMismatch, &[], "token", message.to_owned())
        }
        ClaimOfTask(task) => held_by(task),
        ClaimOfAnother => made_by_another(),
        ClaimEnded(state) => ended(&state),
    }
}

/// The fact that names what defines a resource: what is to be changed.
const DEFINITION: &str = "definition";

fn in_use(holds: usize, waiting: usize) -> Status {
    let message = match (holds, waiting) {
        (0, 0) => {
            "tasks wait for it, or permits of it have not come back yet: delete it when that \
                   is over"
                .to_owned()
        }
        _ => format!(
            "claims that hold it: {holds}, that wait: {waiting}; set its capacity to 0 to grant no \
             more, and delete it when all have ended"
        ),
    };
    let counts = [
        ("holds", holds.to_string()),
        ("waiting", waiting.to_string()),
    ];
    precondition(Reason::ResourceInUse, &counts, "resource", message)
}

fn exceeded(name: &str, definition: &str, capacity: u32) -> Status {
    let message = too_many_permits(name, definition, capacity);
    let facts = [
        ("capacity", capacity.to_string()),
        (DEFINITION, definition.to_owned()),
    ];
    precondition(Reason::PermitsExceedCapacity, &facts, name, message)
}

fn too_many_permits(name: &str, definition: &str, capacity: u32) -> String {
    let of = match name == definition {
        true => String::new(),
        false => format!(", of pattern {definition:?},"),
    };
    format!("resource {name:?}{of} has a capacity of {capacity}: ask for fewer")
}

/// A call is about the definition of a resource that has none of its own.
fn of_pattern(name: &str, pattern: &str) -> Status {
    let message = format!(
        "resource {name:?} comes from the pattern {pattern:?} and has no settings of its own: \
         UpdateResource and DeleteResource take the pattern"
    );
    let facts = [
        ("resource", name.to_owned()),
        (DEFINITION, pattern.to_owned()),
    ];
    let details = info(Reason::ResourceNotFound, &facts);
    Status::with_error_details(Code::NotFound, message, details)
}

fn made_by_another() -> Status {
    let message = "another identity has made the claim, which renews and releases it; an operator \
                   ends it with ForceRelease";
    plain(Code::PermissionDenied, Reason::ClaimOfAnother, message)
}

fn held_by(TaskId { handle, seq }: TaskId) -> Status {
    let message = format!(
        "task {handle}/{} holds it, and gives it back when its attempt is over: cancel the task, \
         or end the claim with ForceRelease",
        seq.0
    );
    let facts = [("handle", handle.to_string()), ("seq", seq.0.to_string())];
    precondition(Reason::ClaimOfTask, &facts, "claim", message)
}

/// Steps of a circle that an error names: it travels in the headers of the answer, which are short.
const STEPS_NAMED: usize = 5;

/// Why a task of a call cannot have the resource of this name, which it names itself or has from
/// its scheduler.
pub(super) fn of_task(
    index: usize,
    name: &str,
    by_default: bool,
    reject: ResourceReject,
) -> Status {
    let field = match by_default {
        true => "default_options.resources".to_owned(),
        false => format!("tasks[{index}].options.resources"),
    };
    match reject {
        ResourceReject::UnknownResource(_) => {
            let what = format!(
                "{field}: no resource {name:?}, and no pattern for it: create it with \
                 CreateResource"
            );
            let facts = [("index", index.to_string()), ("resource", name.to_owned())];
            let mut details = info(Reason::ResourceNotFound, &facts);
            details.set_bad_request([violation(&field, Reason::ResourceNotFound, what.clone())]);
            Status::with_error_details(Code::NotFound, what, details)
        }
        ResourceReject::TooManyPermits {
            definition,
            capacity,
            ..
        } => {
            let why = too_many_permits(name, &definition, capacity);
            let message = format!("{field}: {why}");
            let facts = [
                ("index", index.to_string()),
                ("capacity", capacity.to_string()),
                (DEFINITION, definition.to_string()),
            ];
            precondition(Reason::PermitsExceedCapacity, &facts, &field, message)
        }
        ResourceReject::PermitsRefill(_) => {
            let message = format!("{field}: {}", permits_refill(name));
            let facts = [("index", index.to_string())];
            precondition(Reason::PermitsRefill, &facts, &field, message)
        }
        other => rejected(other),
    }
}

fn permits_refill(name: &str) -> String {
    format!(
        "the permits of resource {name:?} come back by time, so nobody has it alone: set the mode \
         to SHARED"
    )
}

fn circular(circle: &[Waits]) -> Status {
    let step = |waits: &Waits| format!("{:?} waits for {:?}", &*waits.owner, &*waits.resource);
    let steps: Vec<String> = circle.iter().take(STEPS_NAMED).map(step).collect();
    let mut path = steps.join(", whose holder ");
    if circle.len() > STEPS_NAMED {
        path.push_str(&format!(", and {} more", circle.len() - STEPS_NAMED));
    }
    let first = circle.first().map_or("", |waits| &waits.owner);
    let message = format!(
        "this claim would wait for ever: {path}, held by {first:?} itself; release that first, \
         or claim all of it at once"
    );
    precondition(Reason::CircularWait, &[("circle", path)], "owner", message)
}

fn ended(state: &ClaimState) -> Status {
    let was_held = state.granted().is_some();
    let how = match state {
        ClaimState::Ended { ending, .. } => match ending.how {
            ClaimEnd::Released => "it was released",
            ClaimEnd::Withdrawn => "it was withdrawn",
            ClaimEnd::TimedOut => "it waited for as long as it was to wait",
            ClaimEnd::Abandoned => "it was not renewed while it waited",
            ClaimEnd::Expired => "it was not renewed within its lease",
            ClaimEnd::HeldTooLong => "it was held for as long as the resource allows",
            ClaimEnd::Forced => "an operator has ended it",
        },
        ClaimState::Waiting | ClaimState::Held { .. } => "it is over",
    };
    let then = match was_held {
        true => "stop using what it held, and claim it anew",
        false => "it was never granted; claim it anew",
    };
    let message = format!("the claim has ended: {how}; {then}");
    precondition(
        Reason::ClaimEnded,
        &[("end", how.to_owned())],
        "claim",
        message,
    )
}

fn precondition(
    reason: Reason,
    metadata: &[(&str, String)],
    subject: &str,
    message: String,
) -> Status {
    let mut details = info(reason, metadata);
    details.add_precondition_failure_violation(reason.as_str_name(), subject, &message);
    Status::with_error_details(Code::FailedPrecondition, message, details)
}
