//! What the transport layer refuses before a handler sees it (a message too large, bytes that are no message) is answered
//! with INTERNAL or OUT_OF_RANGE and no details. Nothing a caller sends may look like a fault of the server, so these become
//! INVALID_ARGUMENT with a reason. Handlers' own answers always have details and pass untouched.

use crate::rpc::errors;
use tonic::{Code, Status, body::Body, codegen::http::Response};

const CODE: &str = "grpc-status";
const DETAILS: &str = "grpc-status-details-bin";

/// Puts our answer in place of the transport's.
pub(crate) fn translate(response: Response<Body>) -> Response<Body> {
    let headers = response.headers();
    let bare = !headers.contains_key(DETAILS);
    match headers
        .get(CODE)
        .filter(|_| bare)
        .map(|code| Code::from_bytes(code.as_bytes()))
    {
        Some(Code::OutOfRange) => answer(errors::call_too_large()),
        Some(Code::Internal) => answer(errors::message_malformed()),
        _ => response,
    }
}

fn answer(status: Status) -> Response<Body> {
    status.into_http()
}
