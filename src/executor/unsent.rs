//! Which attempts have not sent their texts yet: those that were not polled yet. The first poll
//! sends the text of one that has a session, and has nothing to send for the others.
//!
//! A loop that yielded for them would make its thread look for work, and wake another one to look,
//! too (decision 0225).

use futures_util::task::AtomicWaker;
use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

#[derive(Default)]
pub(super) struct Unsent {
    count: AtomicUsize,
    waits: AtomicWaker,
}

impl Unsent {
    /// Counts an attempt until it has been polled once.
    pub(super) fn until_polled<F: Future>(
        self: &Arc<Self>,
        attempt: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        let (mut attempt, mut counted) = (Box::pin(attempt), Some(Counted::new(self)));
        poll_fn(move |context| {
            let polled = attempt.as_mut().poll(context);
            counted.take();
            polled
        })
    }

    /// Returns when none is left; false: there was none. One at a time may wait for it.
    pub(super) async fn sent(&self) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        poll_fn(|context| {
            self.waits.register(context.waker());
            match self.count.load(Ordering::Acquire) {
                0 => Poll::Ready(true),
                _ => Poll::Pending,
            }
        })
        .await
    }
}

struct Counted(Arc<Unsent>);

impl Counted {
    fn new(unsent: &Arc<Unsent>) -> Self {
        unsent.count.fetch_add(1, Ordering::AcqRel);
        Counted(Arc::clone(unsent))
    }
}

/// Also of an attempt that is dropped before it was polled.
impl Drop for Counted {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.waits.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::{future::pending, pin::pin};

    #[test]
    fn it_waits_until_each_attempt_was_polled_once() {
        let unsent = Arc::new(Unsent::default());
        assert_eq!(unsent.sent().now_or_never(), Some(false));
        let mut first = pin!(unsent.until_polled(pending::<()>()));
        let second = unsent.until_polled(async { 2 });
        let mut sent = pin!(unsent.sent());
        assert_eq!(sent.as_mut().now_or_never(), None);
        assert_eq!(first.as_mut().now_or_never(), None);
        assert_eq!(sent.as_mut().now_or_never(), None);
        assert_eq!(second.now_or_never(), Some(2));
        assert_eq!(sent.now_or_never(), Some(true));
    }

    #[tokio::test]
    async fn an_attempt_that_is_dropped_is_not_waited_for() {
        let unsent = Arc::new(Unsent::default());
        let attempt = unsent.until_polled(pending::<()>());
        let other = Arc::clone(&unsent);
        let waits = tokio::spawn(async move { other.sent().await });
        tokio::task::yield_now().await;
        drop(attempt);
        assert!(waits.await.expect("it is woken"));
    }
}
