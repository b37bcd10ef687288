//! Streams end when the token of their caller does: a caller that has to prove anew who it is does
//! so by opening the stream again.

use super::errors;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use std::{
    pin::Pin,
    task::{Context, Poll},
    time::SystemTime,
};
use tokio::time::{Sleep, sleep};
use tonic::{Status, body::Body, codegen::http::HeaderMap};

/// The body of an answer, which ends with UNAUTHENTICATED at a time if it has not ended before.
pub(super) struct Expiring {
    body: Body,
    timer: Pin<Box<Sleep>>,
    has_expired: bool,
}

impl Expiring {
    pub(super) fn new(body: Body, expires_at: SystemTime) -> Expiring {
        let left = expires_at.duration_since(SystemTime::now());
        Expiring {
            body,
            timer: Box::pin(sleep(left.unwrap_or_default())),
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
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if polled.is_ready() || self.timer.as_mut().poll(context).is_pending() {
            return polled;
        }
        self.has_expired = true;
        let mut trailers = HeaderMap::new();
        let ended = errors::access::identity_expired().add_header(&mut trailers);
        Poll::Ready(Some(ended.map(|()| Frame::trailers(trailers))))
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
    use http_body_util::BodyExt;
    use std::time::Duration;

    #[tokio::test]
    async fn a_stream_ends_with_the_token_of_its_caller() {
        let endless = http_body_util::StreamBody::new(futures_util::stream::pending::<
            Result<Frame<Bytes>, Status>,
        >());
        let expires_at = SystemTime::now() + Duration::from_millis(20);
        let body = Expiring::new(Body::new(endless), expires_at);
        let ended = body.collect().await.expect("it ends in order");
        let trailers = ended.trailers().expect("trailers");
        assert_eq!(trailers["grpc-status"], "16");
    }
}
