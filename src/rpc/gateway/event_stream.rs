//! A stream of messages as server-sent events: an event a message, whose id is the position at
//! which the stream goes on if it breaks (`Last-Event-ID`), and at the end an event `status` with
//! the `google.rpc.Status` of the call. A comment now and then shows a silent stream to be alive.

use super::translation::{PREFIX_BYTES, Translated, status_json, translated};
use crate::rpc::errors;
use bytes::{Buf, Bytes, BytesMut};
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use prost_reflect::MessageDescriptor;
use std::{convert::Infallible, time::Duration};
use tokio::time::{Instant, timeout_at};
use tonic::{
    Status,
    body::Body,
    codegen::http::{HeaderValue, Response, header::CONTENT_TYPE},
};

/// Between two signs of life.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// The messages of `body`, which are of this kind, until the deadline.
pub(super) fn of(body: Body, kind: MessageDescriptor, deadline: Option<Instant>) -> Response<Body> {
    let events = Events {
        body: Some(body),
        kind,
        deadline,
        unread: BytesMut::new(),
        has_begun: false,
    };
    let events = stream::unfold(events, async |mut events| {
        let event = events.next().await?;
        let frame = Frame::data(Bytes::from(event));
        Some((Ok::<_, Infallible>(frame), events))
    });
    let mut response = Response::new(Body::new(StreamBody::new(Box::pin(events))));
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Where in a stream one is.
struct Events {
    /// `None`: it has ended, and that has been said.
    body: Option<Body>,
    kind: MessageDescriptor,
    deadline: Option<Instant>,
    /// Of messages that have not been said.
    unread: BytesMut,
    /// The reader knows that the stream is there.
    has_begun: bool,
}

impl Events {
    /// The text of the next event; `None`: there are no more.
    async fn next(&mut self) -> Option<String> {
        self.body.as_ref()?;
        if !self.has_begun {
            self.has_begun = true;
            return Some(": the stream is open\n\n".into());
        }
        loop {
            if let Some(message) = self.whole_message() {
                return Some(match event(message, self.kind.clone()).await {
                    Ok(event) => event,
                    Err(status) => self.end(&status),
                });
            }
            let read = self.body.as_mut()?.frame();
            let alive = Instant::now() + KEEPALIVE;
            let until = self.deadline.map_or(alive, |deadline| deadline.min(alive));
            let Ok(frame) = timeout_at(until, read).await else {
                return Some(match until < alive {
                    true => self.end(&errors::deadline_exceeded()),
                    false => ": \n\n".into(),
                });
            };
            let frame = match frame {
                None => return Some(self.end(&Status::unknown("the stream broke"))),
                Some(Err(status)) => return Some(self.end(&status)),
                Some(Ok(frame)) => frame,
            };
            match frame.into_data() {
                Ok(data) => self.unread.extend_from_slice(&data),
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap_or_default();
                    let status = Status::from_header_map(&trailers);
                    return Some(self.end(&status.unwrap_or_else(|| Status::unknown(""))));
                }
            }
        }
    }

    /// The first message that has arrived whole.
    fn whole_message(&mut self) -> Option<Bytes> {
        let length = self.unread.get(1..PREFIX_BYTES)?;
        let length = u32::from_be_bytes(length.try_into().ok()?) as usize;
        if self.unread.len() < PREFIX_BYTES + length {
            return None;
        }
        self.unread.advance(PREFIX_BYTES);
        Some(self.unread.split_to(length).freeze())
    }

    /// The last event.
    fn end(&mut self, status: &Status) -> String {
        self.body = None;
        format!("event: status\ndata: {}\n\n", status_json(status))
    }
}

async fn event(message: Bytes, kind: MessageDescriptor) -> Result<String, Status> {
    let Translated { text, resume_token } = translated(message, kind).await?;
    let id = resume_token.map(|token| format!("id: {token}\n"));
    // JSON as it is written here has no line breaks.
    Ok(format!("{}data: {text}\n\n", id.unwrap_or_default()))
}
