//! When to repeat a call, or to open a stream again: after doubling delays with jitter, no sooner
//! than the server asks, until a deadline.

use crate::error::{Error, Result};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

const INITIAL_DELAY: Duration = Duration::from_millis(50);
const MAX_DELAY: Duration = Duration::from_secs(2);
/// The longest delay while the shard changes owners, which is quick.
const MAX_OWNER_DELAY: Duration = Duration::from_millis(400);

/// The delays between the attempts of one call, or of a stream since its last message.
#[derive(Debug)]
pub(crate) struct Backoff {
    timeout: Duration,
    /// Since the first failure.
    deadline: Option<Instant>,
    delay: Duration,
}

impl Backoff {
    /// Gives up this long after the first failure.
    pub(crate) fn new(timeout: Duration) -> Self {
        Backoff {
            timeout,
            deadline: None,
            delay: INITIAL_DELAY,
        }
    }

    /// Waits before the next attempt after `error`. Returns the error when it is final or the
    /// deadline leaves no time for another attempt.
    pub(crate) async fn wait(&mut self, error: Error) -> Result<()> {
        if error.is("NOT_OWNER") || error.is("OWNER_CHANGED") {
            self.delay = self.delay.min(MAX_OWNER_DELAY);
        }
        let wait = error.retry_after.unwrap_or(Duration::ZERO) + jittered(self.delay);
        let now = Instant::now();
        let deadline = *self.deadline.get_or_insert(now + self.timeout);
        if !error.is_retryable() || now + wait > deadline {
            return Err(error);
        }
        self.delay = (self.delay * 2).min(MAX_DELAY);
        sleep(wait).await;
        Ok(())
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
