//! Streams of events for other replicas. What is not read of them takes room here, too, by the
//! caller on whose behalf they are asked for: the other replica takes a little of each off the
//! connection, and the rest waits here.

use crate::{
    core::is_identity,
    peer::ConnectionInfo,
    rpc::{
        auth::{CALLER, NAMESPACE},
        room::Room,
        unfetched::{held, tells_events},
    },
};
use futures_util::future::{BoxFuture, Either, FutureExt};
use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll},
};
use tonic::{
    body::Body,
    codegen::http::{HeaderMap, Request, Response},
    server::NamedService,
};
use tower::Service;

/// A service whose streams of events have room.
#[derive(Clone)]
pub(in crate::rpc) struct ForwardedStreams<S> {
    inner: S,
    room: Room,
}

impl<S> ForwardedStreams<S> {
    /// `room`: that of all such services.
    pub(in crate::rpc) fn new(inner: S, room: Room) -> Self {
        ForwardedStreams { inner, room }
    }
}

impl<S: NamedService> NamedService for ForwardedStreams<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for ForwardedStreams<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response<Body>, Infallible>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let tells_events = tells_events(request.uri().path());
        let share = tells_events.then(|| {
            let connection = request.extensions().get::<ConnectionInfo>();
            let replica = connection.and_then(|info| info.tcp.remote_addr());
            self.room.share_of(&reader(request.headers(), replica))
        });
        let answer = self.inner.call(request);
        match share {
            Some(share) => Either::Right(
                answer
                    .map(|answered| Ok(held(answered?, share, None)))
                    .boxed(),
            ),
            None => Either::Left(answer),
        }
    }
}

/// Whose stream it is. Names that callers give themselves tell nobody apart, but the connection of
/// the replica that asks for them does.
fn reader(headers: &HeaderMap, replica: Option<SocketAddr>) -> Arc<str> {
    let text = |key: &'static str| headers.get(key).and_then(|value| value.to_str().ok());
    let namespace = text(NAMESPACE).unwrap_or_default();
    match text(CALLER).filter(|name| is_identity(name)) {
        Some(name) => format!("{namespace} {name}").into(),
        None => match replica {
            Some(replica) => format!("{namespace} {replica}").into(),
            None => namespace.into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http_body_util::{BodyExt, Full};
    use tower::service_fn;

    const SYNCHRONIZATION: &str = "/rallypoint.v1.SchedulerService/Synchronization";

    /// A part of an answer of 30 MiB, if there is room for it.
    async fn part<S>(service: &mut ForwardedStreams<S>, path: &str, caller: &str) -> Option<Bytes>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
        S::Future: Send + 'static,
    {
        let request = Request::post(path)
            .header(NAMESPACE, "default")
            .header(CALLER, caller);
        let request = request.body(Body::empty()).expect("a request");
        let Ok(answered) = service.call(request).await;
        let frame = answered.into_body().frame().await.expect("a frame");
        frame.expect("no fault").into_data().ok()
    }

    #[tokio::test]
    async fn what_is_not_read_has_room_by_caller_and_only_of_streams() {
        let bytes = Bytes::from(vec![7; 30 << 20]);
        let answer = move || Response::new(Body::new(Full::new(bytes.clone())));
        let inner =
            service_fn(move |_: Request<Body>| std::future::ready(Ok::<_, Infallible>(answer())));
        let mut service = ForwardedStreams::new(inner, Room::of_events());
        let mut unread = Vec::new();
        while let Some(part) = part(&mut service, SYNCHRONIZATION, "token:ann").await {
            unread.push(part);
        }
        assert_eq!(unread.len(), 3, "half of the room");
        let ben = part(&mut service, SYNCHRONIZATION, "token:ben").await;
        assert!(ben.is_some(), "somebody else");
        let other = "/rallypoint.v1.SchedulerService/DescribeScheduler";
        assert!(part(&mut service, other, "token:ann").await.is_some());
        drop((unread, ben));
        assert_eq!(service.room.used(), 0);
    }

    #[test]
    fn who_is_not_known_is_told_apart_by_the_replica_that_asks() {
        let of = |name: &str, port: u16| {
            let mut headers = HeaderMap::new();
            headers.insert(CALLER, name.parse().expect("a value"));
            reader(&headers, Some(([10, 0, 0, 1], port).into()))
        };
        assert_eq!(of("ann", 1), of("ben", 1));
        assert_ne!(of("ann", 1), of("ann", 2));
        assert_eq!(of("token:ann", 1), of("token:ann", 2));
        assert_ne!(of("token:ann", 1), of("token:ben", 1));
    }
}
