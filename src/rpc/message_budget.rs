//! Bounds what callers' messages occupy before anybody has looked at them: a message gets room when
//! its length is known, before its bytes are collected, and keeps it until the call is answered.
//!
//! Whoever finds none is told OVERLOADED at once. A message that has begun must arrive in time, so
//! half of one cannot keep its room for ever. Nor can a whole one: decoded it may take many times
//! its room, so it is handed on when its caller has said that nothing more comes. Methods that
//! anybody may call take small messages only, and those no room: whoever is not known keeps none
//! from the others.
//!
//! The answer to a call takes its room out of the same budget, but for events (`unfetched`).

use super::{
    errors,
    gateway::messages,
    room::{Place, Rooms, SMALL_BYTES},
    unfetched::{self, Turn},
};
use crate::{
    identity::{Access, Role, access},
    peer::ConnectionInfo,
};
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use http_body::{Body as _, Frame, SizeHint};
use std::{
    collections::HashSet,
    convert::Infallible,
    pin::Pin,
    sync::{Arc, LazyLock},
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
/// The largest message of a method that only reads, whose lists are short.
const READING_BYTES: usize = 64 << 10;
/// gRPC puts five bytes before each message: a compression flag and the length.
const PREFIX_BYTES: usize = 5;

/// Gives room to the messages of every call, and to its answer, or refuses the call.
#[derive(Clone)]
pub(super) struct MessageRoom<S> {
    inner: S,
    rooms: Rooms,
    largest: usize,
}

impl<S> MessageRoom<S> {
    /// Messages of more than `largest` bytes are refused by their length, and smaller ones of some
    /// methods ([`largest`]).
    pub(super) fn new(inner: S, rooms: Rooms, largest: usize) -> Self {
        MessageRoom {
            inner,
            rooms,
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
        let shares = self.rooms.of_call(request.extensions());
        let room = unfetched::room_of(request.uri().path(), &shares);
        let place = Arc::new(shares.calls.place());
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
        let path = request.uri().path();
        let (largest, is_stream) = (largest(path, self.largest), is_stream(path));
        let messages = |body| Messages::new(body, place.clone(), largest, is_stream);
        let request = request.map(|body| Body::new(messages(body)));
        let answer = self.inner.call(request);
        async move {
            let answered = answer.await?;
            drop(place);
            Ok(match room {
                Some(share) => unfetched::held(answered, share, turn),
                None => answered,
            })
        }
        .boxed()
    }
}

/// The largest message that has room, of the method at a path.
pub(super) fn largest(path: &str, usual: usize) -> usize {
    match access(path) {
        Some(Access::Anybody | Access::Known) => usual.min(SMALL_BYTES),
        Some(Access::In(Role::Reader) | Access::Everywhere(Role::Reader)) => {
            usual.min(READING_BYTES)
        }
        _ => usual,
    }
}

/// Whether the method at a path takes a stream of messages.
fn is_stream(path: &str) -> bool {
    static STREAMS: LazyLock<HashSet<String>> = LazyLock::new(messages::paths_of_streams);
    STREAMS.contains(path)
}

/// The body of a request, whose messages have room.
struct Messages {
    body: Body,
    place: Arc<Place>,
    largest: usize,
    /// More than one may come.
    is_stream: bool,
    position: Position,
    /// The end of the only message, until it is known that nothing follows.
    last: Option<Frame<Bytes>>,
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
    fn new(body: Body, place: Arc<Place>, largest: usize, is_stream: bool) -> Messages {
        Messages {
            body,
            place,
            largest,
            is_stream,
            position: Position {
                prefix: ([0; PREFIX_BYTES], 0),
                left: 0,
                complete: 0,
            },
            last: None,
            timer: None,
        }
    }

    /// Goes on past what has arrived; returns what is handed on of it.
    fn arrived(&mut self, frame: Frame<Bytes>) -> Result<Option<Frame<Bytes>>, Status> {
        let Some(data) = frame.data_ref() else {
            // gRPC has no trailers of requests.
            return Ok(None);
        };
        let before = self.position.complete;
        let (place, largest, is_stream) = (&self.place, self.largest, self.is_stream);
        self.position.advance(data, |bytes, earlier| match bytes {
            _ if earlier > 0 && !is_stream => Err(errors::more_than_one_message()),
            _ if bytes > largest => Err(errors::call_too_large(largest)),
            _ if place.take(bytes) => Ok(()),
            _ => Err(errors::no_message_room()),
        })?;
        if self.is_stream && self.position.complete > before {
            // The next message has a time of its own.
            self.timer = None;
        }
        let waits = !self.is_stream && self.position.complete > 0 && !self.body.is_end_stream();
        Ok(match (waits, self.position.complete > before) {
            (false, _) => Some(frame),
            (true, true) => {
                self.last = Some(frame);
                None
            }
            (true, false) => None,
        })
    }

    /// Whether the message that is awaited comes too late.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        if self.is_stream && !self.position.is_awaited() {
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
    /// Goes on past `data`. Of each message that begins in it, its length and how many came before
    /// it are given to `begin`, which may refuse it.
    fn advance<E>(
        &mut self,
        mut data: &[u8],
        mut begin: impl FnMut(usize, usize) -> Result<(), E>,
    ) -> Result<(), E> {
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
                begin(self.left, self.complete)?;
            }
            let arrived = self.left.min(data.len());
            data = &data[arrived..];
            self.left -= arrived;
            self.complete += usize::from(self.left == 0);
        }
        Ok(())
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
        loop {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match self.arrived(frame) {
                    Ok(Some(frame)) => return Poll::Ready(Some(Ok(frame))),
                    Ok(None) => {}
                    Err(refused) => {
                        self.last = None;
                        return Poll::Ready(Some(Err(refused)));
                    }
                },
                Poll::Ready(None) => return Poll::Ready(self.last.take().map(Ok)),
                Poll::Pending if self.is_late(context) => {
                    self.last = None;
                    return Poll::Ready(Some(Err(errors::message_late())));
                }
                other => return other,
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.last.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.last {
            Some(_) => SizeHint::default(),
            None => self.body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{StreamExt, stream};
    use http_body_util::{BodyExt, StreamBody};
    use tokio::time::timeout;

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
                let all = position.advance(frame, |length, _| {
                    begun.push(length);
                    Ok::<_, ()>(())
                });
                assert_eq!(all, Ok(()));
            }
            assert_eq!((begun, position.complete), (vec![3, 0, 256], 3), "{size}");
            assert!(!position.is_awaited());
        }
    }

    /// What is handed on of a body of these frames that does not end, or that ends.
    async fn handed_on(path: &str, frames: &[&[u8]], ends: bool) -> Vec<Result<Bytes, Status>> {
        let frames: Vec<_> = frames
            .iter()
            .map(|frame| Ok::<_, Status>(Frame::data(Bytes::copy_from_slice(frame))))
            .collect();
        let rest = match ends {
            true => stream::empty().boxed(),
            false => stream::pending().boxed(),
        };
        let body = Body::new(StreamBody::new(stream::iter(frames).chain(rest)));
        let place = Arc::new(Rooms::default().shares(None).calls.place());
        let most = largest(path, 1 << 20);
        let mut messages = Messages::new(body, place, most, is_stream(path));
        let mut handed_on = Vec::new();
        while let Ok(Some(frame)) = timeout(2 * MESSAGE_TIMEOUT, messages.frame()).await {
            let is_error = frame.is_err();
            handed_on.push(frame.map(|frame| frame.into_data().expect("data")));
            if is_error {
                break;
            }
        }
        handed_on
    }

    const UNARY: &str = "/rallypoint.v1.SchedulerService/ExecAsync";
    const STREAMED: &str = "/rallypoint.v1.ResourceService/ManageClaims";
    const ONE: &[u8] = &[0, 0, 0, 0, 2, 8, 1];

    #[tokio::test(start_paused = true)]
    async fn a_message_is_handed_on_when_nothing_follows_it() {
        let whole = handed_on(UNARY, &[&ONE[..3], &ONE[3..]], true).await;
        let whole: Vec<Bytes> = whole.into_iter().map(Result::unwrap).collect();
        assert_eq!(whole.concat(), ONE);
        let open = handed_on(UNARY, &[ONE], false).await;
        let [Err(late)] = &open[..] else {
            panic!("{open:?}");
        };
        assert_eq!(late.code(), tonic::Code::DeadlineExceeded);
        let empty: &[u8] = &[0; PREFIX_BYTES];
        for (frames, ends) in [
            (vec![ONE.to_vec(), empty.to_vec()], true),
            (vec![[ONE, empty].concat()], true),
            (vec![[ONE, empty].concat()], false),
        ] {
            let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
            let more = handed_on(UNARY, &frames, ends).await;
            let [Err(more)] = &more[..] else {
                panic!("{more:?}");
            };
            assert_eq!(more.code(), tonic::Code::InvalidArgument);
        }
        // A stream of messages may stay open.
        let streamed = handed_on(STREAMED, &[ONE, ONE], false).await;
        assert_eq!(streamed.len(), 2);
    }

    #[tokio::test]
    async fn what_only_reads_says_little() {
        let long = [&[0, 0, 2, 0, 0][..], &[0; 8]].concat();
        for (path, is_refused) in [
            (UNARY, false),
            ("/rallypoint.v1.SchedulerService/ListTasks", true),
            (
                "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                true,
            ),
        ] {
            let answer = handed_on(path, &[&long], true).await;
            assert_eq!(answer[0].is_err(), is_refused, "{path}");
        }
    }
}
