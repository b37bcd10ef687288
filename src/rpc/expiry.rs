//! Streams end when their caller may not have them any more: its token has expired, or a changed
//! configuration has taken its role. Whoever still may opens the stream again.

use super::errors;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body::{Frame, SizeHint};
use std::{
    pin::Pin,
    task::{Context, Poll},
};
use tonic::{Status, body::Body};

/// The body of a stream, which ends with UNAUTHENTICATED when `ends` resolves, if not before.
pub(super) struct Expiring {
    body: Body,
    ends: BoxFuture<'static, ()>,
    has_expired: bool,
}

impl Expiring {
    pub(super) fn new(body: Body, ends: BoxFuture<'static, ()>) -> Expiring {
        Expiring {
            body,
            ends,
            has_expired: false,
        }
    }
}

impl http_body::Body for Expiring {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.has_expired {
            return Poll::Ready(None);
        }
        if self.ends.as_mut().poll(context).is_pending() {
            return Pin::new(&mut self.body).poll_frame(context);
        }
        self.has_expired = true;
        // The handler ends here, and not when the caller has read this.
        self.body = Body::empty();
        let expired = errors::access::identity_expired();
        Poll::Ready(Some(errors::trailers::of(&expired)))
    }

    fn is_end_stream(&self) -> bool {
        self.has_expired || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, future::ready, stream::pending};
    use http_body_util::{BodyExt, StreamBody};

    #[tokio::test]
    async fn a_stream_ends_with_the_right_of_its_caller() {
        let endless = StreamBody::new(pending::<Result<Frame<Bytes>, Status>>());
        let body = Expiring::new(Body::new(endless), ready(()).boxed());
        let ended = body.collect().await.expect("it ends in order");
        let trailers = ended.trailers().expect("trailers");
        assert_eq!(trailers["grpc-status"], "16");
    }
}
