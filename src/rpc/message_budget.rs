//! Bounds what callers' messages occupy before anybody has looked at them: a message gets room when
//! its length is known, before its bytes are collected, and keeps it until the call is answered.
//!
//! Whoever finds none is told OVERLOADED at once. A message that has begun must arrive in time, so
//! half of one cannot keep its room for ever. Methods that anybody may call take small messages
//! only, and those no room: whoever is not known keeps none from the others.
//!
//! The answer to a call takes its room out of the same budget (`unfetched`).

use super::{
    errors,
    room::{Place, Room, SMALL_BYTES},
    unfetched::{self, Turn},
};
use crate::{
    identity::{Access, access},
    peer::ConnectionInfo,
};
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use http_body::{Frame, SizeHint};
use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Sleep, sleep};
use tonic::{
    Status,
    body::Body,
    codegen::http::{Request, Response},
};
use tower::Service;

/// How long a message may take to arrive once it is expected.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// gRPC puts five bytes before each message: a compression flag and the length.
const PREFIX_BYTES: usize = 5;

/// Gives room to the messages of every call, and to its answer, or refuses the call.
#[derive(Clone)]
pub(super) struct MessageRoom<S> {
    inner: S,
    room: Room,
    largest: usize,
}

impl<S> MessageRoom<S> {
    /// Messages of more than `largest` bytes get no room: `inner` refuses them by their length.
    pub(super) fn new(inner: S, room: Room, largest: usize) -> Self {
        MessageRoom {
            inner,
            room,
            largest,
        }
    }
}

impl<S> Service<Request<Body>> for MessageRoom<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let info = request.extensions().get::<ConnectionInfo>().cloned();
        let share = self.room.share(info.as_ref());
        let takes_room = unfetched::takes_room(request.uri().path());
        let place = Arc::new(share.place());
        let mut turn = None;
        if let Some(info) = info {
            if unfetched::takes_turns(request.uri().path()) {
                let own = Turn::of(info.turns);
                request.extensions_mut().insert(own.clone());
                turn = Some(own);
            }
            // From here tonic knows the address of the caller.
            request.extensions_mut().insert(info.tcp);
        }
        let largest = largest(request.uri().path(), self.largest);
        let messages = |body| Messages::new(body, place.clone(), largest);
        let request = request.map(|body| Body::new(messages(body)));
        let answer = self.inner.call(request);
        async move {
            let answered = answer.await?;
            drop(place);
            Ok(match takes_room {
                true => unfetched::held(answered, share, turn),
                false => answered,
            })
        }
        .boxed()
    }
}

/// The largest message that has room, of the method at a path.
pub(super) fn largest(path: &str, usual: usize) -> usize {
    match access(path) {
        Some(Access::Anybody) => usual.min(SMALL_BYTES),
        _ => usual,
    }
}

/// The body of a request, whose messages have room.
struct Messages {
    body: Body,
    place: Arc<Place>,
    largest: usize,
    position: Position,
    /// Runs while a message is awaited.
    timer: Option<Pin<Box<Sleep>>>,
}

/// Where in its messages a body is.
struct Position {
    /// The prefix of the next message, and how much of it has arrived.
    prefix: ([u8; PREFIX_BYTES], usize),
    /// Bytes of the present message that are to come.
    left: usize,
    /// Messages that have arrived.
    complete: usize,
}

impl Messages {
    fn new(body: Body, place: Arc<Place>, largest: usize) -> Messages {
        Messages {
            body,
            place,
            largest,
            position: Position {
                prefix: ([0; PREFIX_BYTES], 0),
                left: 0,
                complete: 0,
            },
            timer: None,
        }
    }

    /// Whether the message that is awaited comes too late.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        if !self.position.is_awaited() {
            self.timer = None;
            return false;
        }
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep(MESSAGE_TIMEOUT)));
        timer.as_mut().poll(context).is_ready()
    }
}

impl Position {
    /// Goes on past `data`. Asks for room for each message that begins in it; false: there was
    /// none.
    fn advance(&mut self, mut data: &[u8], mut has_room: impl FnMut(usize) -> bool) -> bool {
        while !data.is_empty() {
            if self.left == 0 {
                let (prefix, filled) = &mut self.prefix;
                let (now, rest) = data.split_at((PREFIX_BYTES - *filled).min(data.len()));
                prefix[*filled..*filled + now.len()].copy_from_slice(now);
                *filled += now.len();
                data = rest;
                if *filled < PREFIX_BYTES {
                    break;
                }
                let [_, length @ ..] = *prefix;
                *filled = 0;
                self.left = u32::from_be_bytes(length) as usize;
                if !has_room(self.left) {
                    return false;
                }
            }
            let arrived = self.left.min(data.len());
            data = &data[arrived..];
            self.left -= arrived;
            self.complete += usize::from(self.left == 0);
        }
        true
    }

    /// The first message has not arrived, or another one has begun to.
    fn is_awaited(&self) -> bool {
        self.complete == 0 || self.left > 0 || self.prefix.1 > 0
    }
}

impl http_body::Body for Messages {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                let this = &mut *self;
                let has_room = |bytes| bytes > this.largest || this.place.take(bytes);
                let before = this.position.complete;
                if let Some(data) = frame.data_ref()
                    && !this.position.advance(data, has_room)
                {
                    return Poll::Ready(Some(Err(errors::no_message_room())));
                }
                if this.position.complete > before {
                    // The next message has a time of its own.
                    this.timer = None;
                }
            }
            Poll::Ready(_) => {}
            Poll::Pending if self.is_late(context) => {
                return Poll::Ready(Some(Err(errors::message_late())));
            }
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position() -> Position {
        Position {
            prefix: ([0; PREFIX_BYTES], 0),
            left: 0,
            complete: 0,
        }
    }

    #[test]
    fn messages_are_told_apart_however_they_are_cut_into_frames() {
        let bytes = [
            &[0, 0, 0, 0, 3, 1, 2, 3][..],
            &[0, 0, 0, 0, 0],
            &[0, 0, 0, 1, 0],
            &[7; 256],
        ]
        .concat();
        for size in 1..bytes.len() {
            let (mut position, mut begun) = (position(), Vec::new());
            for frame in bytes.chunks(size) {
                assert!(position.advance(frame, |length| {
                    begun.push(length);
                    true
                }));
            }
            assert_eq!((begun, position.complete), (vec![3, 0, 256], 3), "{size}");
            assert!(!position.is_awaited());
        }
    }
}
