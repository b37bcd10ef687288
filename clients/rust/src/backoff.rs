//! When to call again: doubling waits with jitter, as the server asks when it asks, until a
//! deadline.

use crate::error::{Error, Result};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);
/// The same while the replicas are between two owners, which does not last.
const LONGEST_BETWEEN_OWNERS: Duration = Duration::from_millis(400);

/// The waits between the attempts of one call.
pub(crate) struct Backoff {
    deadline: Instant,
    next: Duration,
}

impl Backoff {
    /// Gives up after `patience`.
    pub(crate) fn new(patience: Duration) -> Self {
        Backoff {
            deadline: Instant::now() + patience,
            next: FIRST,
        }
    }

    /// Waits before the next attempt after `error`, or hands it back: it is final, or it is too
    /// late for another one.
    pub(crate) async fn wait(&mut self, error: Error) -> Result<()> {
        if error.is("NOT_OWNER") || error.is("OWNER_CHANGED") {
            self.next = self.next.min(LONGEST_BETWEEN_OWNERS);
        }
        let wait = error.retry_after.unwrap_or(Duration::ZERO) + jittered(self.next);
        if !error.is_passing() || Instant::now() + wait > self.deadline {
            return Err(error);
        }
        self.next = (self.next * 2).min(LONGEST);
        sleep(wait).await;
        Ok(())
    }
}

/// Half to all of `wait`, so that many clients do not come back together.
fn jittered(wait: Duration) -> Duration {
    let random = Uuid::now_v7().as_u128() as u32;
    wait / 2 + wait.mul_f64(f64::from(random) / f64::from(u32::MAX) / 2.0)
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
    async fn a_server_that_says_when_is_waited_for_so_long() {
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
    async fn a_definite_error_and_a_passed_deadline_are_handed_back() {
        let mut patient = Backoff::new(Duration::from_secs(60));
        assert!(patient.wait(Status::not_found("x").into()).await.is_err());
        assert!(patient.wait(Status::unavailable("x").into()).await.is_ok());
        assert!(
            Backoff::new(Duration::ZERO)
                .wait(Status::unavailable("x").into())
                .await
                .is_err()
        );
    }
}
