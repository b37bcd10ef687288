//! Parts of messages that arrive, as a sign of life of the other side: over a slow link a large
//! message takes longer than a side may be silent, and its heartbeats are behind it.
//!
//! Only what a session itself says counts. A process whose session stands still answers pings too.

use http_body_util::BodyExt;
use std::{
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::{Instant, timeout_at};
use tonic::body::Body;

/// When a part has arrived last; before the first one, when it was made. Clones are about the same
/// messages.
#[derive(Clone, Debug)]
pub(super) struct Arrivals(Arc<Mutex<Instant>>);

impl Arrivals {
    pub(super) fn new() -> Self {
        Arrivals(Arc::new(Mutex::new(Instant::now())))
    }

    pub(super) fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same body, whose parts are noted as they arrive.
    pub(super) fn noted(&self, body: Body) -> Body {
        let Arrivals(last) = self.clone();
        Body::new(body.map_frame(move |part| {
            *last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            part
        }))
    }

    /// Waits for a message as long as parts of it arrive. `None`: none has for this long.
    pub(super) async fn wait_for<T>(
        &self,
        message: impl Future<Output = T>,
        silence: Duration,
    ) -> Option<T> {
        let mut message = pin!(message);
        let mut until = Instant::now() + silence;
        loop {
            if let Ok(message) = timeout_at(until, &mut message).await {
                return Some(message);
            }
            let later = self.last() + silence;
            if later <= until {
                return None;
            }
            until = later;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use futures_util::{StreamExt, stream};
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tokio::time::sleep;
    use tonic::Status;

    const SILENCE: Duration = Duration::from_secs(3);
    const PAUSE: Duration = Duration::from_secs(2);

    /// A body of so many parts, each after a pause.
    fn slow(parts: usize) -> impl stream::Stream<Item = Result<Frame<Bytes>, Status>> + Send {
        let parts = stream::iter(0..parts);
        parts.then(|_| async {
            sleep(PAUSE).await;
            Ok(Frame::data(Bytes::from_static(b"part")))
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_is_waited_for_as_long_as_parts_of_it_arrive() {
        let arrivals = Arrivals::new();
        let body = arrivals.noted(Body::new(StreamBody::new(slow(10))));
        let read = arrivals.wait_for(body.collect(), SILENCE).await;
        let read = read.expect("in time").expect("all of it");
        assert_eq!(read.to_bytes().len(), 40);
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_more_in_the_middle_of_a_message_is_silent() {
        let (arrivals, begun) = (Arrivals::new(), Instant::now());
        let parts = slow(2).chain(stream::pending());
        let body = arrivals.noted(Body::new(StreamBody::new(parts)));
        let read = arrivals.wait_for(body.collect(), SILENCE).await;
        assert!(read.is_none());
        assert_eq!(begun.elapsed().as_secs(), (PAUSE * 2 + SILENCE).as_secs());
    }
}
