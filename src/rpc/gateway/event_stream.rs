//! A stream of messages as server-sent events: an event a message, whose id is the position at
//! which the stream goes on if it breaks (`Last-Event-ID`), and at the end an event `status` with
//! the `google.rpc.Status` of the call. A comment now and then shows a silent stream to be alive.

use super::translation::{PREFIX_BYTES, Translated, status_json, translated};
use crate::rpc::{errors, room::Share};
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

/// The messages of `body`, which are of this kind, until the deadline. Each takes its room there.
pub(super) fn of(
    body: Body,
    kind: MessageDescriptor,
    deadline: Option<Instant>,
    room: Option<Share>,
) -> Response<Body> {
    let events = Events {
        body: Some(body),
        kind,
        deadline,
        room,
        unread: BytesMut::new(),
        has_begun: false,
    };
    let events = stream::unfold(events, async |mut events| {
        let event = events.next().await?;
        let frame = Frame::data(events.held(event));
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
    /// Where events take their room; `None`: they take none.
    room: Option<Share>,
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
        let message = self.unread.split_to(length).freeze();
        if self.unread.is_empty() {
            // What is left of it would keep the memory of the message.
            self.unread = BytesMut::new();
        }
        Some(message)
    }

    /// An event with its room until it is written, or the last one when there is none.
    fn held(&mut self, event: String) -> Bytes {
        let event = Bytes::from(event);
        let Some(room) = &self.room else {
            return event;
        };
        match room.hold(event, None) {
            Some(event) => event,
            None => {
                let no_room = room.no_room();
                Bytes::from(self.end(&no_room))
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::{gateway::messages, room::Room};
    use bytes::BufMut;
    use prost::Message;
    use rallypoint_client::api::WatchExecutionsResponse;

    /// So many messages of WatchExecutions in gRPC, with a text of so many bytes.
    fn body(messages: usize, length: usize) -> Body {
        let message = WatchExecutionsResponse {
            unreachable: vec!["x".repeat(length)],
            ..Default::default()
        };
        let message = message.encode_to_vec();
        let mut data = BytesMut::new();
        data.put_u8(0);
        data.put_u32(message.len() as u32);
        data.put_slice(&message);
        let frames = std::iter::repeat_n(data.freeze(), messages);
        let frames = frames.map(|data| Ok::<_, Infallible>(Frame::data(data)));
        Body::new(StreamBody::new(stream::iter(frames)))
    }

    async fn next(events: &mut Body) -> Bytes {
        let frame = events.frame().await.expect("an event").expect("no fault");
        frame.into_data().expect("data")
    }

    #[tokio::test]
    async fn an_event_has_room_until_it_is_written_or_ends_the_stream() {
        let method = messages::method("/rallypoint.v1.StatusService/WatchExecutions");
        let kind = method.expect("a method").output();
        let room = Room::default();
        let share = room.share(None);
        let mut events = of(body(2, 5_000), kind, None, Some(share.clone())).into_body();
        next(&mut events).await;
        let event = next(&mut events).await;
        assert_eq!(room.used(), event.len());
        drop(event);
        let all = share.place();
        assert!(all.take(96 << 20));
        let last = next(&mut events).await;
        let last = String::from_utf8(last.into()).expect("text");
        assert!(last.starts_with("event: status"), "{last}");
        assert!(last.contains("unfetched_bytes"), "{last}");
        assert!(events.frame().await.is_none());
    }
}
