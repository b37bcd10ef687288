//! Errors of the transport layer, which refuses a request before a handler sees it (message too
//! large, undecodable bytes) with INTERNAL or OUT_OF_RANGE and no details. Nothing a caller sends
//! may look like a fault of the server, so these become INVALID_ARGUMENT with a reason. Errors of
//! handlers always have details and pass unchanged.

use crate::{core::model::limits::CALL_BYTES, rpc::errors};
use tonic::{Code, Status, body::Body, codegen::http::Response};

const CODE: &str = "grpc-status";
const DETAILS: &str = "grpc-status-details-bin";

/// Replaces an error of the transport with one of the service.
pub(crate) fn translate(response: Response<Body>) -> Response<Body> {
    let headers = response.headers();
    let without_details = !headers.contains_key(DETAILS);
    let code = headers.get(CODE).filter(|_| without_details);
    let code = code.map(|code| Code::from_bytes(code.as_bytes()));
    match code.and_then(refusal) {
        Some(refused) => refused.into_http(),
        None => response,
    }
}

/// The same for a message within a stream of them, which a handler reads itself.
pub(in crate::rpc) fn message_error(status: Status) -> Status {
    match status.details().is_empty() {
        true => refusal(status.code()).unwrap_or(status),
        false => status,
    }
}

fn refusal(code: Code) -> Option<Status> {
    match code {
        Code::OutOfRange => Some(errors::call_too_large(CALL_BYTES)),
        Code::Internal => Some(errors::message_malformed()),
        _ => None,
    }
}
