//! What a gRPC call answered, over HTTP: the message as JSON, or the error as `google.rpc.Status`
//! with all its details and the HTTP status that belongs to its code.

use super::{
    event_stream,
    media::{json, line},
    translation::{PREFIX_BYTES, status_json, translated, untranslatable},
};
use crate::rpc::{errors, room::Share};
use bytes::{Buf, Bytes};
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
const SERVING: &[u8] = b"{\"status\":\"SERVING\"}\n";

/// The answer of `method`; of a stream until the deadline. Another one takes its room there.
pub(super) async fn of(
    answered: Response<Body>,
    method: MethodDescriptor,
    deadline: Option<Instant>,
    room: Option<Share>,
) -> Response<Body> {
    // An error that is known before the first message.
    if let Some(status) = Status::from_header_map(answered.headers())
        && status.code() != Code::Ok
    {
        return failure(&status);
    }
    if method.is_server_streaming() {
        return event_stream::of(answered.into_body(), method.output(), deadline, room);
    }
    let text = single(answered.into_body(), method.output()).await;
    match text.and_then(|text| held(text, room)) {
        // Probes look at nothing else.
        Ok(text) if method.full_name() == HEALTH && text != SERVING => {
            json(StatusCode::SERVICE_UNAVAILABLE, text)
        }
        Ok(text) => json(StatusCode::OK, text),
        Err(status) => failure(&status),
    }
}

/// An answer, and its room until it is written.
fn held(text: Bytes, room: Option<Share>) -> Result<Bytes, Status> {
    match room {
        Some(room) => room.hold(text, None).ok_or_else(errors::no_answer_room),
        None => Ok(text),
    }
}

/// The JSON of the one message of a body.
async fn single(body: Body, kind: MessageDescriptor) -> Result<Bytes, Status> {
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
    Ok(line(translated.text))
}

/// An error as an answer.
pub(super) fn failure(status: &Status) -> Response<Body> {
    let mut answer = json(http_code(status.code()), line(status_json(status)));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::{gateway::messages, room::Room};
    use bytes::{BufMut, BytesMut};
    use http_body::Frame;
    use http_body_util::StreamBody;
    use prost::Message;
    use rallypoint_client::api::{GetTaskResponse, TaskView};
    use std::convert::Infallible;
    use tonic::codegen::http::HeaderMap;

    /// An answer of GetTask in gRPC, with so many bytes of text.
    fn answered(length: usize) -> Response<Body> {
        let task = TaskView {
            statement_preview: "x".repeat(length),
            ..Default::default()
        };
        let message = GetTaskResponse { task: Some(task) }.encode_to_vec();
        let mut data = BytesMut::new();
        data.put_u8(0);
        data.put_u32(message.len() as u32);
        data.put_slice(&message);
        let mut trailers = HeaderMap::new();
        let status = Status::new(Code::Ok, "");
        status.add_header(&mut trailers).expect("a header");
        let frames = [Frame::data(data.freeze()), Frame::trailers(trailers)];
        let frames = futures_util::stream::iter(frames.map(Ok::<_, Infallible>));
        Response::new(Body::new(StreamBody::new(frames)))
    }

    #[tokio::test]
    async fn an_answer_in_json_has_room_until_it_is_written_or_is_refused() {
        let method = messages::method("/rallypoint.v1.SchedulerService/GetTask");
        let method = method.expect("a method");
        let room = Room::default();
        let share = room.share(None);
        let answer = of(answered(5_000), method.clone(), None, Some(share.clone())).await;
        assert_eq!(answer.status(), StatusCode::OK);
        let text = answer.into_body().collect().await.expect("it is there");
        let text = text.to_bytes();
        assert_eq!(room.used(), text.len());
        drop(text);
        let all = share.place();
        assert!(all.take(96 << 20));
        let refused = of(answered(5_000), method.clone(), None, Some(share)).await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()[RETRY_AFTER], "1");
        let said = refused.into_body().collect().await.expect("it is there");
        let said = String::from_utf8(said.to_bytes().into()).expect("text");
        assert!(said.contains("unfetched_bytes"), "{said}");
        let exempt = of(answered(5_000), method, None, None).await;
        assert_eq!(exempt.status(), StatusCode::OK);
    }
}
