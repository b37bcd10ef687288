//! What many callers ask for at once is read once for all of them: however many ask, what they ask
//! of the loop and of the other replicas does not grow.

use futures_util::{
    FutureExt,
    future::{self, BoxFuture},
};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// The latest reading. Clones share it.
#[derive(Clone, Debug)]
pub(in crate::rpc) struct Shared<T>(Arc<Mutex<Option<Reading<T>>>>);

#[derive(Clone, Debug)]
struct Reading<T> {
    has_begun: Arc<AtomicBool>,
    /// `None`: it has failed.
    value: future::Shared<BoxFuture<'static, Option<T>>>,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Shared(Arc::default())
    }
}

impl<T: Clone + Send + Sync + 'static> Shared<T> {
    /// What is read from now on: whoever comes while others are being answered gets what is read
    /// next, and so never less than what was true when they came. A reading goes on when whoever
    /// asked for it hangs up. `None`: it has failed.
    pub(in crate::rpc) async fn get(
        &self,
        read: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let reading = {
            let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match &*latest {
                Some(next) if !next.has_begun.load(Relaxed) => next.value.clone(),
                before => {
                    let next = begin(before.clone(), read);
                    let value = next.value.clone();
                    *latest = Some(next);
                    value
                }
            }
        };
        reading.await
    }
}

/// Reads once the reading before has ended.
fn begin<T: Clone + Send + Sync + 'static>(
    before: Option<Reading<T>>,
    read: impl Future<Output = T> + Send + 'static,
) -> Reading<T> {
    let has_begun = Arc::new(AtomicBool::new(false));
    let begins = has_begun.clone();
    let reading = tokio::spawn(async move {
        if let Some(before) = before {
            before.value.await;
        }
        begins.store(true, Relaxed);
        read.await
    });
    Reading {
        has_begun,
        value: reading.map(Result::ok).boxed().shared(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use std::{sync::atomic::AtomicUsize, time::Duration};
    use tokio::time::{Instant, sleep, timeout};

    #[tokio::test(start_paused = true)]
    async fn whoever_comes_during_a_reading_shares_the_next_one() {
        let (shared, readings) = (Shared::default(), Arc::new(AtomicUsize::new(0)));
        let ask = || {
            let readings = readings.clone();
            shared.get(async move {
                let number = readings.fetch_add(1, Relaxed);
                sleep(Duration::from_secs(1)).await;
                number
            })
        };
        let late = || async {
            sleep(Duration::from_millis(500)).await;
            ask().await
        };
        let (first, others) = tokio::join!(ask(), join_all((0..1_000).map(|_| late())));
        assert_eq!(first, Some(0));
        assert!(others.iter().all(|number| *number == Some(1)), "{others:?}");
        assert_eq!(
            ask().await,
            Some(2),
            "a reading that is over says nothing new"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_reading_goes_on_when_its_caller_hangs_up() {
        let shared = Shared::default();
        let slow = shared.get(async {
            sleep(Duration::from_secs(3)).await;
            1
        });
        let hung_up = timeout(Duration::from_secs(1), slow).await;
        assert!(hung_up.is_err());
        let begun = Instant::now();
        assert_eq!(shared.get(async { 7 }).await, Some(7));
        assert_eq!(begun.elapsed().as_secs(), 2, "behind the other one");
    }
}
