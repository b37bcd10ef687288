//! When to repeat a call, or to open a stream again: after doubling delays with jitter, no sooner
//! than the server asks, for as long as the retry timeout.

use crate::error::{Error, Result};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

const INITIAL_DELAY: Duration = Duration::from_millis(50);
const MAX_DELAY: Duration = Duration::from_secs(2);
/// The longest delay while the shard changes owners, which is quick.
const MAX_OWNER_DELAY: Duration = Duration::from_millis(400);

/// A stream that was open for so long is no failure that goes on, whatever it has said.
const STEADY: Duration = Duration::from_secs(5);

/// The delays between the attempts of one call, or of a stream since it came on last.
#[derive(Debug)]
pub(crate) struct Backoff {
    timeout: Duration,
    /// When the first failure was.
    since: Option<Instant>,
    delay: Duration,
}

impl Backoff {
    /// Gives up this long after the first failure.
    pub(crate) fn new(timeout: Duration) -> Self {
        Backoff {
            timeout,
            since: None,
            delay: INITIAL_DELAY,
        }
    }

    /// What fails from here on is another failure.
    fn reset(&mut self) {
        *self = Backoff::new(self.timeout);
    }

    /// Waits before the next attempt after `error`. Returns the error when it is final or the
    /// timeout leaves no time for another attempt.
    pub(crate) async fn wait(&mut self, error: Error) -> Result<()> {
        if error.is("NOT_OWNER") || error.is("OWNER_CHANGED") {
            self.delay = self.delay.min(MAX_OWNER_DELAY);
        }
        let asked = error.retry_after.unwrap_or(Duration::ZERO);
        let wait = asked.saturating_add(jittered(self.delay));
        let now = Instant::now();
        let passed = now - *self.since.get_or_insert(now);
        if !error.is_retryable() || passed.saturating_add(wait) > self.timeout {
            return Err(error);
        }
        self.delay = (self.delay * 2).min(MAX_DELAY);
        sleep(wait).await;
        Ok(())
    }
}

/// The delays before a stream is opened again that breaks.
///
/// To have been opened is no progress, and neither is the first message: it may say what was known
/// before, each time.
#[derive(Debug)]
pub(crate) struct StreamBackoff {
    backoff: Backoff,
    opened: Instant,
    /// Since it was opened.
    has_received: bool,
}

impl StreamBackoff {
    pub(crate) fn new(timeout: Duration) -> Self {
        StreamBackoff {
            backoff: Backoff::new(timeout),
            opened: Instant::now(),
            has_received: false,
        }
    }

    /// The stream is open, or open again.
    pub(crate) fn opened(&mut self) {
        (self.opened, self.has_received) = (Instant::now(), false);
    }

    /// The stream has said something; `is_news`: this was surely not known before.
    pub(crate) fn received(&mut self, is_news: bool) {
        if is_news || self.has_received {
            self.backoff.reset();
        }
        self.has_received = true;
    }

    /// The stream has broken.
    pub(crate) fn broke(&mut self) {
        if self.has_received && self.opened.elapsed() > STEADY {
            self.backoff.reset();
        }
        self.has_received = false;
    }

    /// As [`Backoff::wait`].
    pub(crate) async fn wait(&mut self, error: Error) -> Result<()> {
        self.backoff.wait(error).await
    }
}

/// Half to all of `delay`, so that many clients do not retry together.
fn jittered(delay: Duration) -> Duration {
    let random = Uuid::now_v7().as_u128() as u32;
    delay / 2 + delay.mul_f64(f64::from(random) / f64::from(u32::MAX) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Status;
    use tonic_types::{ErrorDetails, StatusExt};

    #[test]
    fn jitter_stays_within_half() {
        for _ in 0..1000 {
            let wait = jittered(Duration::from_secs(2));
            assert!((Duration::from_secs(1)..=Duration::from_secs(2)).contains(&wait));
        }
    }

    #[tokio::test]
    async fn the_delay_a_server_asks_for_is_kept() {
        let error = |wait| {
            let details = ErrorDetails::with_retry_info(Some(wait));
            Status::with_error_details(tonic::Code::ResourceExhausted, "full", details).into()
        };
        let (asked, start) = (Duration::from_millis(200), Instant::now());
        assert!(
            Backoff::new(Duration::from_secs(60))
                .wait(error(asked))
                .await
                .is_ok()
        );
        assert!(start.elapsed() >= asked);
        assert!(
            Backoff::new(Duration::from_secs(60))
                .wait(error(Duration::from_secs(61)))
                .await
                .is_err(),
            "it is too long"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_timeout_may_be_as_long_as_can_be_said() {
        let mut backoff = Backoff::new(Duration::MAX);
        for _ in 0..3 {
            assert!(backoff.wait(Status::unavailable("x").into()).await.is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_breaks_again_and_again_fails_unless_it_comes_on() {
        /// How often a stream is opened again that lasts so long, and tells so much.
        async fn opened_again(lasting: Duration, messages: usize, is_news: bool) -> usize {
            let mut backoff = StreamBackoff::new(Duration::from_secs(30));
            for opened in 0..1_000 {
                backoff.opened();
                (0..messages).for_each(|_| backoff.received(is_news));
                sleep(lasting).await;
                backoff.broke();
                if backoff.wait(Status::unavailable("x").into()).await.is_err() {
                    return opened;
                }
            }
            1_000
        }
        let (short, long) = (Duration::ZERO, Duration::from_secs(60));
        for (lasting, messages) in [(short, 0), (short, 1), (long, 0)] {
            assert!(opened_again(lasting, messages, false).await < 40);
        }
        assert_eq!(opened_again(short, 1, true).await, 1_000);
        assert_eq!(opened_again(short, 2, false).await, 1_000);
        assert_eq!(opened_again(long, 1, false).await, 1_000);
    }

    #[tokio::test]
    async fn a_definite_error_or_a_passed_deadline_ends_the_retries() {
        let mut backoff = Backoff::new(Duration::from_secs(60));
        assert!(backoff.wait(Status::not_found("x").into()).await.is_err());
        assert!(backoff.wait(Status::unavailable("x").into()).await.is_ok());
        assert!(
            Backoff::new(Duration::ZERO)
                .wait(Status::unavailable("x").into())
                .await
                .is_err()
        );
    }
}
