//! Notes that a connection is of use: somebody has fetched an answer on it.

use crate::peer::{ConnectionInfo, Use};
use bytes::Bytes;
use futures_util::future::{BoxFuture, Either, FutureExt};
use http_body::{Body as _, Frame, SizeHint};
use std::{
    convert::Infallible,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tonic::{
    Status,
    body::Body,
    codegen::http::{Request, Response, Version},
};
use tower::Service;

/// Notes which connections are of use.
#[derive(Clone)]
pub(super) struct Fetched<S>(pub S);

impl<S> Service<Request<Body>> for Fetched<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response<Body>, Infallible>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let info = request.extensions().get::<ConnectionInfo>();
        let used = info.map(|info| info.used.clone());
        let has_windows = request.version() == Version::HTTP_2;
        let answer = self.0.call(request);
        let Some(used) = used else {
            return Either::Left(answer);
        };
        let noting = move |body| noting(body, used, has_windows);
        Either::Right(answer.map(|answered| Ok(answered?.map(noting))).boxed())
    }
}

fn noting(body: Body, used: Arc<Use>, has_windows: bool) -> Body {
    if body.is_end_stream() {
        // It is all in the headers, which need no window.
        used.fetched();
        return body;
    }
    Body::new(Answer {
        body,
        used,
        has_windows,
        is_waiting: false,
    })
}

/// The body of an answer. hyper asks for its first part before the caller has given room to any,
/// and for the next one when it could send that.
struct Answer {
    body: Body,
    used: Arc<Use>,
    /// The caller says how much may be sent: it speaks HTTP/2.
    has_windows: bool,
    /// Whether a part has been taken that may not have been sent yet.
    is_waiting: bool,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if mem::take(&mut self.is_waiting) {
            self.used.fetched();
        }
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && frame.is_data()
        {
            match self.has_windows {
                true => self.is_waiting = true,
                false => self.used.fetched(),
            }
        }
        polled
    }

    /// Has hyper ask once more behind the last part.
    fn is_end_stream(&self) -> bool {
        !self.is_waiting && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, Full};

    fn answer(used: &Arc<Use>, has_windows: bool) -> Body {
        let body = Body::new(Full::new(Bytes::from_static(b"an answer")));
        noting(body, used.clone(), has_windows)
    }

    #[tokio::test]
    async fn an_answer_is_fetched_when_there_was_room_for_a_part_of_it() {
        let used = Arc::<Use>::default();
        let mut body = answer(&used, true);
        assert!(body.frame().await.is_some());
        assert!(!used.was_fetched() && !body.is_end_stream());
        assert!(body.frame().await.is_none());
        assert!(used.was_fetched() && body.is_end_stream());
    }

    #[tokio::test]
    async fn without_windows_it_is_fetched_at_once() {
        let used = Arc::<Use>::default();
        let mut body = answer(&used, false);
        assert!(body.frame().await.is_some());
        assert!(used.was_fetched() && body.is_end_stream());
        let used = Arc::<Use>::default();
        assert!(noting(Body::empty(), used.clone(), true).is_end_stream());
        assert!(used.was_fetched());
    }
}
