//! Answers that a connection has not fetched, streams aside: while there are so many, its next
//! calls wait. A caller who gives no room to answers has little more work done, and kept in memory,
//! than these. And a connection on which an answer was fetched was of use.

use crate::{
    identity::STREAMS,
    peer::{ConnectionInfo, Use},
};
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use http_body::{Body as _, Frame, SizeHint};
use std::{
    convert::Infallible,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{
    Status,
    body::Body,
    codegen::http::{Request, Response},
};
use tower::Service;

/// Has calls wait for answers before them on their connection to be fetched.
#[derive(Clone)]
pub(super) struct Answers<S>(pub S);

impl<S> Service<Request<Body>> for Answers<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Some(info) = request.extensions().get::<ConnectionInfo>() else {
            return self.0.call(request).boxed();
        };
        let is_stream = STREAMS.contains(&request.uri().path());
        let (turns, used) = (info.turns.clone(), info.used.clone());
        if is_stream || turns.available_permits() > 0 {
            // At once: the time that the call has begins with it.
            let answer = self.0.call(request);
            return async move { Ok(counted(answer.await?, turns, used, is_stream)) }.boxed();
        }
        let next = self.0.clone();
        // The one that is ready.
        let mut inner = mem::replace(&mut self.0, next);
        async move {
            // It is never closed.
            drop(turns.acquire().await);
            Ok(counted(inner.call(request).await?, turns, used, false))
        }
        .boxed()
    }
}

/// Has an answer count until it is fetched. Its call did not count while it was under way: were
/// calls to wait for those, their messages would fill the window of the connection.
fn counted(
    response: Response<Body>,
    turns: Arc<Semaphore>,
    used: Arc<Use>,
    is_stream: bool,
) -> Response<Body> {
    response.map(|body| {
        if body.is_end_stream() {
            used.answered();
            return body;
        }
        let turn = (!is_stream).then(|| turns.try_acquire_owned().ok());
        Body::new(Answer {
            body,
            used,
            _turn: turn.flatten(),
        })
    })
}

/// The body of an answer, which counts until it is fetched, or dropped with its call.
struct Answer {
    body: Body,
    used: Arc<Use>,
    _turn: Option<OwnedSemaphorePermit>,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(&polled, Poll::Ready(Some(Ok(_)))) {
            self.used.answered();
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
    use http_body_util::{BodyExt, Full};
    use std::{
        future::{Ready, ready},
        sync::atomic::{AtomicUsize, Ordering},
    };
    use tonic::transport::server::TcpConnectInfo;

    /// Answers at once, and counts.
    #[derive(Clone, Default)]
    struct Counting(Arc<AtomicUsize>);

    impl Service<Request<Body>> for Counting {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = Ready<Result<Response<Body>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            self.0.fetch_add(1, Ordering::Relaxed);
            let body = Full::new(Bytes::from_static(b"an answer"));
            ready(Ok(Response::new(Body::new(body))))
        }
    }

    fn on(info: &ConnectionInfo, path: &str) -> Request<Body> {
        let request = Request::builder().uri(path).extension(info.clone());
        request.body(Body::empty()).expect("a request")
    }

    #[tokio::test]
    async fn a_call_waits_until_an_answer_before_it_is_fetched_and_a_stream_does_not() {
        let worked = Counting::default();
        let mut service = Answers(worked.clone());
        let info = ConnectionInfo {
            tcp: TcpConnectInfo {
                local_addr: None,
                remote_addr: None,
            },
            certified: None,
            stranger: None,
            message_bytes: Arc::default(),
            turns: Arc::new(Semaphore::new(2)),
            used: Arc::default(),
        };
        let count = || worked.0.load(Ordering::Relaxed);
        let first = service.call(on(&info, "/a")).await.expect("answered");
        let second = service.call(on(&info, "/b")).await.expect("answered");
        let mut third = service.call(on(&info, "/c"));
        assert!(third.as_mut().now_or_never().is_none(), "it waits");
        let stream = service.call(on(&info, STREAMS[0])).await;
        assert_eq!((count(), stream.is_ok()), (3, true));
        let fetched = first.into_body().collect().await.expect("it is there");
        assert_eq!(&fetched.to_bytes()[..], b"an answer");
        assert!(third.await.is_ok());
        drop(second);
        assert_eq!(count(), 4);
    }
}
