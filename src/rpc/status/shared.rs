//! What many callers ask for at once is read once for all of them: however many ask, what they ask
//! of the loop and of the other replicas does not grow.

use std::sync::Arc;
use tokio::{sync::Mutex, time::Instant};

/// The latest reading, and when it began. Clones share it.
#[derive(Debug)]
pub(in crate::rpc) struct Shared<T>(Arc<Mutex<Option<(Instant, T)>>>);

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Shared(Arc::default())
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

impl<T: Clone> Shared<T> {
    /// What is read from now on: whoever comes while others are being answered gets what is read
    /// next, and so never less than what was true when they came.
    pub(in crate::rpc) async fn get(&self, read: impl Future<Output = T>) -> T {
        let asked = Instant::now();
        let mut latest = self.0.lock().await;
        let is_new = |(begun, _): &&(Instant, T)| *begun >= asked;
        if let Some((_, value)) = latest.as_ref().filter(is_new) {
            return value.clone();
        }
        let begun = Instant::now();
        let value = read.await;
        *latest = Some((begun, value.clone()));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use std::{
        sync::atomic::{AtomicUsize, Ordering::Relaxed},
        time::Duration,
    };
    use tokio::time::sleep;

    #[tokio::test(start_paused = true)]
    async fn whoever_comes_during_a_reading_shares_the_next_one() {
        let (shared, readings) = (Shared::default(), AtomicUsize::new(0));
        let ask = || async {
            shared
                .get(async {
                    let number = readings.fetch_add(1, Relaxed);
                    sleep(Duration::from_secs(1)).await;
                    number
                })
                .await
        };
        let late = || async {
            sleep(Duration::from_millis(500)).await;
            ask().await
        };
        let (first, others) = tokio::join!(ask(), join_all((0..1_000).map(|_| late())));
        assert_eq!(first, 0);
        assert!(others.iter().all(|number| *number == 1), "{others:?}");
        assert_eq!(ask().await, 2, "a reading that is over says nothing new");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reading_whose_caller_hangs_up_is_made_by_the_next_one() {
        let shared = Shared::default();
        let never = shared.get(std::future::pending::<u8>());
        let hung_up = tokio::time::timeout(Duration::from_secs(1), never).await;
        assert!(hung_up.is_err());
        assert_eq!(shared.get(async { 7 }).await, 7);
    }
}
