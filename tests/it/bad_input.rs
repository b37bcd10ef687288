//! Wrong requests to a running server: each gets its code, its reason and the field at fault; none
//! harms the server.

mod every_call;
mod fields;
mod isolation;
pub(crate) mod live;
mod state;
mod transport;

use tonic::{Code, Status};
use tonic_types::StatusExt;

/// The parts of an error that a program of a caller reads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub code: Code,
    pub reason: String,
    pub fields: Vec<String>,
}

/// The error of a call that must fail.
pub(crate) fn answer<T: std::fmt::Debug>(result: Result<T, Status>) -> Answer {
    answer_of(&result.expect_err("the request is wrong"))
}

pub(crate) fn answer_of(status: &Status) -> Answer {
    let details = status.get_error_details();
    let info = details
        .error_info()
        .unwrap_or_else(|| panic!("no ErrorInfo: {status:?}"));
    assert_eq!(info.domain, "rallypoint");
    assert_eq!(info.metadata["effect"], effect(status.code(), &info.reason));
    let fields = details
        .bad_request()
        .map(|bad| bad.field_violations.as_slice())
        .unwrap_or_default();
    Answer {
        code: status.code(),
        reason: info.reason.clone(),
        fields: fields.iter().map(|f| f.field.clone()).collect(),
    }
}

/// Whether a call that fails so may have had an effect, as the proto says.
fn effect(code: Code, reason: &str) -> &'static str {
    let had_none = ["NOT_OWNER", "OVERLOADED", "MESSAGE_LATE"].contains(&reason);
    match code {
        Code::Unavailable | Code::DeadlineExceeded if !had_none => "unknown",
        Code::Internal => "unknown",
        _ => "none",
    }
}

/// An error that names no field.
pub(crate) fn refusal(code: Code, reason: &str) -> Answer {
    Answer {
        code,
        reason: reason.to_owned(),
        fields: Vec::new(),
    }
}

/// INVALID_ARGUMENT that names one field.
pub(crate) fn invalid(field: &str, reason: &str) -> Answer {
    Answer {
        fields: vec![field.to_owned()],
        ..refusal(Code::InvalidArgument, reason)
    }
}
