//! Wrong requests against a live server: each gets its code, its reason and the field at fault; none harms the server.

pub(crate) mod live;
mod state;
mod transport;
mod wire;

use tonic::{Code, Status};
use tonic_types::StatusExt;

/// What a caller's program sees of an error.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub code: Code,
    pub reason: String,
    pub fields: Vec<String>,
}

/// The error that a call came back with.
pub(crate) fn answer<T: std::fmt::Debug>(result: Result<T, Status>) -> Answer {
    let status = result.expect_err("the request is wrong");
    let details = status.get_error_details();
    let info = details
        .error_info()
        .unwrap_or_else(|| panic!("no ErrorInfo: {status:?}"));
    assert_eq!(info.domain, "rallypoint");
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

/// A code and a reason that name no field.
pub(crate) fn refusal(code: Code, reason: &str) -> Answer {
    Answer {
        code,
        reason: reason.to_owned(),
        fields: Vec::new(),
    }
}

/// INVALID_ARGUMENT for one field.
pub(crate) fn invalid(field: &str, reason: &str) -> Answer {
    Answer {
        fields: vec![field.to_owned()],
        ..refusal(Code::InvalidArgument, reason)
    }
}
