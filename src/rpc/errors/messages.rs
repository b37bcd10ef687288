//! Errors of messages as they arrive, before anybody has looked at what they say.

use super::{RETRY_DELAY, info, reason::Reason};
use crate::core::model::limits::CALL_BYTES;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// The message of a call exceeds the limit of its method.
pub(in crate::rpc) fn call_too_large(most: usize) -> Status {
    let most = most.min(CALL_BYTES);
    let details = info(Reason::CallTooLarge, &[("limit_bytes", most.to_string())]);
    let message = format!(
        "a message of this call is at most {}; make several calls",
        in_words(most)
    );
    Status::with_error_details(Code::InvalidArgument, message, details)
}

/// A number of bytes that is whole in one of these units.
pub(super) fn in_words(bytes: usize) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        mebibytes => format!("{mebibytes} MiB"),
    }
}

/// The message of a call did not arrive in time. The call had no effect.
pub(in crate::rpc) fn message_late() -> Status {
    let mut details = info(Reason::MessageLate, &[]);
    details.set_retry_info(Some(RETRY_DELAY));
    let message = "the request did not arrive within 30 s; call again";
    Status::with_error_details(Code::DeadlineExceeded, message, details)
}

/// A method that takes one message got more.
pub(in crate::rpc) fn more_than_one_message() -> Status {
    let details = info(Reason::MessageMalformed, &[]);
    let message = "this method takes one message; send each with a call of its own";
    Status::with_error_details(Code::InvalidArgument, message, details)
}

pub(in crate::rpc) fn message_malformed() -> Status {
    let details = info(Reason::MessageMalformed, &[]);
    Status::with_error_details(
        Code::InvalidArgument,
        "the request is not a message of this API",
        details,
    )
}
