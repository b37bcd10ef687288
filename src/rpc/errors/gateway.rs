//! Errors of requests over HTTP that become no call. None of them had an effect.

use super::{info, messages::in_words, plain, reason::Reason, violation};
use crate::core::model::limits::CALL_BYTES;
use tonic::{Code, Status};
use tonic_types::StatusExt;

pub(in crate::rpc) fn origin_not_allowed() -> Status {
    let message = "a page of another origin must not use this server";
    plain(Code::PermissionDenied, Reason::OriginNotAllowed, message)
}

pub(in crate::rpc) fn host_not_allowed() -> Status {
    let message = "this server does not know callers, and is not known by this name: reach it by \
                   an address or as `localhost`, or start it with --http-host NAME";
    plain(Code::PermissionDenied, Reason::OriginNotAllowed, message)
}

pub(in crate::rpc) fn http_invalid(message: &str) -> Status {
    plain(Code::InvalidArgument, Reason::HttpRequestInvalid, message)
}

/// What the port of the administrator has.
const ADMIN_PATHS: [&str; 3] = ["/metrics", "/livez", "/readyz"];

/// There is nothing at a path; `meant`: the one that was probably meant.
pub(in crate::rpc) fn no_such_path(path: &str, meant: Option<&str>) -> Status {
    let remedy = match meant {
        _ if ADMIN_PATHS.contains(&path) => {
            "metrics and probes have an address of their own, which the server is given with \
             --admin-listen ADDRESS"
                .to_owned()
        }
        Some(path) => format!("did you mean POST {path}?"),
        None => "calls are POST /rallypoint.v1.SchedulerService/GetScheduler and the like, see \
                 /openapi.json"
            .to_owned(),
    };
    let message = format!("there is nothing at this path: {remedy}");
    plain(Code::NotFound, Reason::HttpRequestInvalid, &message)
}

/// The text of a request is longer than `largest` bytes.
pub(in crate::rpc) fn text_too_large(largest: usize) -> Status {
    let message = format!(
        "a request is at most {} of JSON, and what it says at most {}; make several calls",
        in_words(largest),
        in_words(largest.min(CALL_BYTES))
    );
    let facts = [("limit_bytes", largest.to_string())];
    let details = info(Reason::CallTooLarge, &facts);
    Status::with_error_details(Code::InvalidArgument, message, details)
}

/// It has more than `most` values.
pub(in crate::rpc) fn too_many_values(most: usize) -> Status {
    let message = format!("a request has at most {most} values of JSON; make several calls");
    let facts = [("limit_bytes", CALL_BYTES.to_string())];
    let details = info(Reason::CallTooLarge, &facts);
    Status::with_error_details(Code::InvalidArgument, message, details)
}

/// The text is no JSON.
pub(in crate::rpc) fn not_json(line: usize, column: usize) -> Status {
    let message = format!("the request is not JSON: see line {line}, column {column}");
    plain(Code::InvalidArgument, Reason::MessageMalformed, &message)
}

/// One field of the request is not as it must be.
pub(in crate::rpc) fn field(field: &str, reason: Reason, message: String) -> Status {
    let mut details = info(reason, &[("violations", "1".into())]);
    details.set_bad_request([violation(field, reason, message.clone())]);
    let message = match field {
        "" => message,
        field => format!("{field}: {message}"),
    };
    Status::with_error_details(Code::InvalidArgument, message, details)
}
