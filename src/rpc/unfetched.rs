//! Answers that are not written yet: they have room as messages do, from when the transport gets
//! them until their bytes are written or dropped, whatever window the caller grants. Where there is
//! none, the call ends with OVERLOADED instead of its answer, or of its next part.

use super::{
    errors,
    room::{Share, Shares},
};
use crate::{
    core::{Caller, is_identity},
    identity::{Access, Role, STREAMS, access},
    peer::Turns,
};
use bytes::Bytes;
use http_body::{Body as _, Frame};
use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};
use tokio::{sync::OwnedSemaphorePermit, time::timeout};
use tonic::{Extensions, Status, body::Body, codegen::http::Response};

/// A forecast waits its turn by itself, before it reads anything, and takes its time.
const FORECAST: &str = "/rallypoint.v1.SchedulerService/ForecastScheduler";
/// Streams of what happens. A message of theirs has a bounded size, but there may be very many of
/// them, so they have a room of their own.
const EVENTS: [&str; 2] = [
    "/rallypoint.v1.SchedulerService/Synchronization",
    "/rallypoint.v1.ResourceService/WatchResource",
];
/// A stream whose messages grow with the slots of the service.
const WATCH_EXECUTIONS: &str = "/rallypoint.v1.StatusService/WatchExecutions";

/// How long a call waits for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(30);

/// Among the extensions of a call that reads: its turn among those of its caller on its connection,
/// of which few have one at a time. It keeps the turn until its answer is written: what is being
/// read has no room yet, and a caller who fetches nothing has nothing more read.
#[derive(Clone)]
pub(in crate::rpc) struct Turn {
    all: Arc<Turns>,
    mine: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
}

impl Turn {
    pub(super) fn of(all: Arc<Turns>) -> Turn {
        Turn {
            all,
            mine: Arc::default(),
        }
    }

    /// Returns when the call has it. Nobody else is told apart by a name that was not proven: who
    /// gives itself many has no more turns. Fails when callers before it leave too much unread.
    async fn come(&self, caller: &Caller) -> Result<(), Status> {
        let namespace = &caller.namespace.0;
        let turns = match is_identity(&caller.name) {
            true => self.all.of(&format!("{namespace} {}", caller.name)),
            false => self.all.of(namespace),
        };
        let mine = timeout(TURN_TIMEOUT, turns.acquire_owned()).await;
        let mine = mine.map_err(|_| errors::no_answer_room())?;
        // They are not closed.
        *self.mine.lock().unwrap_or_else(PoisonError::into_inner) = mine.ok();
        Ok(())
    }

    /// Returns when a call has its turn, if it takes any.
    pub(super) async fn come_to(extensions: &Extensions, caller: &Caller) -> Result<(), Status> {
        match extensions.get::<Turn>() {
            Some(turn) => turn.come(caller).await,
            None => Ok(()),
        }
    }

    fn take(self) -> Option<OwnedSemaphorePermit> {
        let mut mine = self.mine.lock().unwrap_or_else(PoisonError::into_inner);
        mine.take()
    }
}

/// Where answers of the method at a path take their room; `None`: they take none.
pub(super) fn room_of(path: &str, shares: &Shares) -> Option<Share> {
    match tells_events(path) {
        true => Some(shares.events.clone()),
        false => takes_room(path).then(|| shares.calls.clone()),
    }
}

/// Whether the method at a path is a stream of what happens.
pub(super) fn tells_events(path: &str) -> bool {
    EVENTS.contains(&path)
}

/// Whether answers of the method at a path take room as messages do: of methods that only read. A
/// call that has had an effect is never refused for want of room. Its answer is small, but for
/// those with the definition of a job, which are for operators. Of streams only that of reflection
/// and that of what runs do: of each other one a bounded number of bytes is unread, and of
/// [`EVENTS`] in sum.
fn takes_room(path: &str) -> bool {
    let reads = matches!(
        access(path),
        Some(Access::In(Role::Reader) | Access::Everywhere(Role::Reader))
    );
    let is_bounded = STREAMS.contains(&path) && path != WATCH_EXECUTIONS;
    reads && !is_bounded || access(path) == Some(Access::Known)
}

/// Whether calls of the method at a path wait for their [`Turn`]. Those of StatusService, which are
/// read once for all who ask, do not ask whether it has come.
pub(super) fn takes_turns(path: &str) -> bool {
    let is_exempt = path == FORECAST || STREAMS.contains(&path);
    takes_room(path) && !is_exempt && access(path) != Some(Access::Known)
}

/// An answer whose parts take their room when they are asked for. The first one, which is the whole
/// message, keeps the turn of the call.
pub(super) fn held(answer: Response<Body>, share: Share, turn: Option<Turn>) -> Response<Body> {
    answer.map(|body| match body.is_end_stream() {
        true => body,
        false => Body::new(Unfetched {
            body,
            share,
            turn: turn.and_then(Turn::take),
            is_refused: false,
        }),
    })
}

struct Unfetched {
    body: Body,
    share: Share,
    turn: Option<OwnedSemaphorePermit>,
    is_refused: bool,
}

impl http_body::Body for Unfetched {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.is_refused {
            return Poll::Ready(None);
        }
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let Poll::Ready(Some(Ok(frame))) = polled else {
            return polled;
        };
        let frame = match frame.into_data() {
            Ok(data) => {
                let turn = self.turn.take();
                self.share.hold(data, turn).map(Frame::data)
            }
            Err(trailers) => Some(trailers),
        };
        if let Some(frame) = frame {
            return Poll::Ready(Some(Ok(frame)));
        }
        self.is_refused = true;
        // What is left of it goes here, and not when the caller has read this.
        self.body = Body::empty();
        Poll::Ready(Some(errors::trailers::of(&self.share.no_room())))
    }

    fn is_end_stream(&self) -> bool {
        self.is_refused || self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        core::Namespace,
        identity::METHODS,
        rpc::room::{Room, Rooms},
    };
    use http_body_util::{BodyExt, Full};
    use tonic_types::StatusExt;

    const ANSWER_BYTES: usize = 5 << 20;

    fn answer(share: &Share) -> Body {
        let data = Bytes::from(vec![7; ANSWER_BYTES]);
        let body = Body::new(Full::new(data));
        held(Response::new(body), share.clone(), None).into_body()
    }

    #[tokio::test]
    async fn an_answer_has_room_until_its_bytes_are_dropped() {
        let room = Room::default();
        let mut body = answer(&room.share(None));
        assert_eq!(room.used(), 0, "nobody has asked for it");
        let frame = body.frame().await.expect("a frame").expect("data");
        drop(body);
        assert_eq!(room.used(), ANSWER_BYTES, "it is not written");
        drop(frame);
        assert_eq!(room.used(), 0);
    }

    #[tokio::test]
    async fn a_call_keeps_its_turn_until_its_answer_is_written() {
        let all = Arc::new(Turns::default());
        let caller = Caller {
            namespace: Namespace::default_namespace(),
            name: "ann".into(),
        };
        let turns = all.of(&caller.namespace.0);
        let most = turns.available_permits();
        for bytes in [10, ANSWER_BYTES] {
            let turn = Turn::of(all.clone());
            turn.come(&caller).await.expect("it is free");
            let body = Body::new(Full::new(Bytes::from(vec![7; bytes])));
            let share = Room::default().share(None);
            let mut body = held(Response::new(body), share, Some(turn)).into_body();
            let frame = body.frame().await.expect("a frame").expect("data");
            drop(body);
            assert_eq!(turns.available_permits(), most - 1, "it is not written");
            drop(frame);
            assert_eq!(turns.available_permits(), most);
        }
        let turn = Turn::of(all.clone());
        turn.come(&caller).await.expect("it is free");
        let refused = Response::new(Body::empty());
        drop(held(refused, Room::default().share(None), Some(turn)));
        assert_eq!(turns.available_permits(), most);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_waits_too_long_for_its_turn_is_told_why() {
        let all = Arc::new(Turns::default());
        let named = |name: &str| Caller {
            namespace: Namespace::default_namespace(),
            name: name.into(),
        };
        let turns = all.of(&named("").namespace.0);
        let most = turns.available_permits() as u32;
        let _unread = turns.acquire_many_owned(most).await;
        let late = Turn::of(all.clone()).come(&named("ben")).await;
        let late = late.expect_err("nothing is read");
        assert_eq!(late.code(), tonic::Code::Unavailable);
        let proven = named("token:cleo");
        let other = Turn::of(all).come(&proven).await;
        assert!(other.is_ok(), "somebody who is known");
    }

    #[tokio::test]
    async fn a_call_ends_with_an_error_when_its_answer_has_no_room() {
        let (room, mut frames) = (Room::default(), Vec::new());
        let share = room.share(None);
        let refused = loop {
            let mut body = answer(&share);
            let frame = body.frame().await.expect("a frame").expect("no fault");
            match frame.into_data() {
                Ok(data) => frames.push(data),
                Err(trailers) => break (trailers, body),
            }
        };
        let (trailers, mut body) = refused;
        assert!(body.is_end_stream() && body.frame().await.is_none());
        let trailers = trailers.into_trailers().expect("trailers");
        let status = Status::from_header_map(&trailers).expect("a status");
        let details = status.get_error_details();
        let info = details.error_info().expect("a reason");
        assert_eq!(info.reason, "OVERLOADED");
        assert_eq!(info.metadata["limit"], "unfetched_bytes");
        assert_eq!(info.metadata["effect"], "none");
        assert!(details.retry_info().is_some());
        assert_eq!(room.used(), frames.len() * ANSWER_BYTES);
        // Another connection has its answers meanwhile, and this one when it has read some.
        let others = room.share(None);
        for share in [&others, &share] {
            let frame = answer(share).frame().await.expect("a frame");
            assert!(frame.expect("no fault").is_data());
            frames.pop();
            frames.pop();
        }
    }

    #[tokio::test]
    async fn streams_that_are_not_read_leave_room_to_calls_and_end_when_theirs_is_full() {
        let shares = Rooms::default().shares(None);
        let [events, others] = EVENTS.map(|path| room_of(path, &shares).expect("it takes room"));
        let mut unread = Vec::new();
        let trailers = loop {
            let frame = answer(&events).frame().await.expect("a frame");
            match frame.expect("no fault").into_data() {
                Ok(data) => unread.push(data),
                Err(trailers) => break trailers.into_trailers().expect("trailers"),
            }
        };
        let status = Status::from_header_map(&trailers).expect("a status");
        let details = status.get_error_details();
        let info = details.error_info().expect("a reason");
        assert_eq!(info.reason, "OVERLOADED");
        assert_eq!(info.metadata["limit"], "unread_event_bytes");
        let other = answer(&others).frame().await.expect("a frame");
        assert!(!other.expect("no fault").is_data(), "it is the same room");
        let calls = room_of("/rallypoint.v1.SchedulerService/ListTasks", &shares);
        let answered = answer(&calls.expect("it takes room")).frame().await;
        assert!(answered.expect("a frame").expect("no fault").is_data());
        drop(unread);
        let resumed = answer(&events).frame().await;
        assert!(resumed.expect("a frame").expect("no fault").is_data());
    }

    #[test]
    fn what_has_an_effect_or_is_a_stream_with_a_bound_takes_no_room() {
        let taking = |(service, methods): &(&str, &[(&str, Access)])| {
            let paths = methods.iter().map(|(name, _)| format!("/{service}/{name}"));
            paths
                .filter(|path| takes_room(path))
                .collect::<Vec<String>>()
        };
        let taking: Vec<String> = METHODS.iter().flat_map(taking).collect();
        let reads = [
            "Get",
            "List",
            "Describe",
            "Explain",
            "Forecast",
            "Preview",
            "ServerReflection",
            "WatchExecutions",
        ];
        for path in &taking {
            let name = path.rsplit('/').next().expect("a method");
            assert!(reads.iter().any(|verb| name.starts_with(verb)), "{path}");
        }
        for name in ["GetScheduler", "Synchronization", "WatchResource", "Check"] {
            let end = format!("/{name}");
            assert!(!taking.iter().any(|path| path.ends_with(&end)), "{name}");
        }
        assert!(taking.iter().any(|path| path.ends_with("/ListTasks")));
        assert!(takes_room(WATCH_EXECUTIONS) && !takes_turns(WATCH_EXECUTIONS));
    }
}
