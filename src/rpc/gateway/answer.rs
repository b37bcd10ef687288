//! What a gRPC call answered, over HTTP: the message as JSON, or the error as `google.rpc.Status`
//! with all its details and the HTTP status that belongs to its code.

use super::{
    event_stream,
    media::json,
    translation::{PREFIX_BYTES, status_json, translated, untranslatable},
};
use bytes::Buf;
use http_body_util::BodyExt;
use prost_reflect::{MessageDescriptor, MethodDescriptor};
use std::time::Duration;
use tokio::time::Instant;
use tonic::{
    Code, Status,
    body::Body,
    codegen::http::{
        HeaderValue, Response, StatusCode,
        header::{RETRY_AFTER, WWW_AUTHENTICATE},
    },
};
use tonic_types::StatusExt;

const HEALTH: &str = "grpc.health.v1.Health.Check";
const SERVING: &[u8] = br#"{"status":"SERVING"}"#;

/// The answer of `method`; of a stream until the deadline.
pub(super) async fn of(
    answered: Response<Body>,
    method: MethodDescriptor,
    deadline: Option<Instant>,
) -> Response<Body> {
    // An error that is known before the first message.
    if let Some(status) = Status::from_header_map(answered.headers())
        && status.code() != Code::Ok
    {
        return failure(&status);
    }
    if method.is_server_streaming() {
        return event_stream::of(answered.into_body(), method.output(), deadline);
    }
    match single(answered.into_body(), method.output()).await {
        // Probes look at nothing else.
        Ok(text) if method.full_name() == HEALTH && text != SERVING => {
            json(StatusCode::SERVICE_UNAVAILABLE, text)
        }
        Ok(text) => json(StatusCode::OK, text),
        Err(status) => failure(&status),
    }
}

/// The JSON of the one message of a body.
async fn single(body: Body, kind: MessageDescriptor) -> Result<Vec<u8>, Status> {
    let collected = body.collect().await?;
    let trailers = collected.trailers().and_then(Status::from_header_map);
    let status = trailers.unwrap_or_else(|| Status::unknown("the call has ended without a status"));
    if status.code() != Code::Ok {
        return Err(status);
    }
    let mut message = collected.to_bytes();
    if message.len() < PREFIX_BYTES {
        return Err(untranslatable());
    }
    message.advance(PREFIX_BYTES);
    let translated = translated(message, kind).await?;
    Ok(translated.text.into_bytes())
}

/// An error as an answer.
pub(super) fn failure(status: &Status) -> Response<Body> {
    let mut answer = json(http_code(status.code()), status_json(status).into());
    let headers = answer.headers_mut();
    if let Some(delay) = retry_delay(status) {
        let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
        headers.insert(RETRY_AFTER, seconds.into());
    }
    if status.code() == Code::Unauthenticated {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    answer
}

fn retry_delay(status: &Status) -> Option<Duration> {
    status.get_error_details().retry_info()?.retry_delay
}

/// As `google/rpc/code.proto` has it.
fn http_code(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Cancelled => StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST),
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
