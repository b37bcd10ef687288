//! Connections that were of no use: they ended before an answer was fetched there, by somebody who
//! is known if callers have to be. Whoever abuses HTTP/2 is hung up on and comes back, so an
//! address that has opened many of those waits before it gets the next one. Connections that are
//! open are left alone, and so are other addresses.
//!
//! Connections that wait at the same time are let in at the same time: the wait slows down somebody
//! who comes back when hung up on, and is no limit of the rate for who opens many at once.

use super::strangers::{Stranger, network};
use rustc_hash::FxHashMap;
use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// An address may open one connection of no use in this time, on average …
const INTERVAL: Duration = Duration::from_millis(200);
/// … after so many in a row.
const BURST: u32 = 50;
/// No new connection waits longer: somebody else may have the same address, behind a proxy.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Addresses that are remembered before those that may open connections again are forgotten.
const MANY: usize = 10_000;

/// Which addresses have opened connections of no use. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Usefulness(Arc<Mutex<FxHashMap<IpAddr, Instant>>>);

/// Whether a connection was of use, said when the last one who could has dropped this.
#[derive(Debug, Default)]
pub struct Use {
    was_fetched: AtomicBool,
    stranger: Option<Arc<Stranger>>,
    of: Option<(Usefulness, IpAddr)>,
}

#[cfg(test)]
impl Usefulness {
    /// An address that has to wait for so long.
    pub(super) fn spend(&self, from: IpAddr, wait: Duration) {
        let until = Instant::now() + INTERVAL * BURST + wait;
        self.spent().insert(network(from), until);
    }
}

impl Usefulness {
    /// How long a connection from there is to wait.
    pub(super) fn wait(&self, from: IpAddr) -> Duration {
        let from = network(from);
        let spent = self.spent().get(&from).copied();
        let wait = spent.map_or(Duration::ZERO, |until| {
            until.saturating_duration_since(Instant::now())
        });
        wait.saturating_sub(INTERVAL * BURST)
    }

    /// A connection from there, which was of no use so far. While it is a stranger's nothing
    /// makes it one that was.
    pub(super) fn begin(&self, from: IpAddr, stranger: Option<Arc<Stranger>>) -> Use {
        Use {
            was_fetched: AtomicBool::new(false),
            stranger,
            of: Some((self.clone(), network(from))),
        }
    }

    /// One of them has ended.
    fn count(&self, from: IpAddr) {
        let now = Instant::now();
        let mut spent = self.spent();
        if spent.len() >= MANY {
            spent.retain(|_, until| *until > now);
        }
        let until = spent.entry(from).or_insert(now);
        *until = (*until).max(now) + INTERVAL;
        *until = (*until).min(now + INTERVAL * BURST + LONGEST_WAIT);
    }

    /// Until when the connections of no use of each address are paid for.
    fn spent(&self) -> MutexGuard<'_, FxHashMap<IpAddr, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Use {
    /// An answer was fetched. Anybody gets one who asks for something wrong, so it does not count
    /// where callers have to be known and this one is not.
    pub fn fetched(&self) {
        let is_stranger = self.stranger.as_ref().is_some_and(|one| !one.is_known());
        if !is_stranger && !self.was_fetched() {
            self.was_fetched.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn was_fetched(&self) -> bool {
        self.was_fetched.load(Ordering::Relaxed)
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        if let Some((all, from)) = &self.of
            && !self.was_fetched()
        {
            all.count(*from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::strangers::Strangers, *};
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn an_address_waits_after_many_connections_of_no_use() {
        let all = Usefulness::default();
        let (one, other) = ([192, 0, 2, 7].into(), [192, 0, 2, 8].into());
        for _ in 0..BURST {
            drop(all.begin(one, None));
        }
        assert_eq!(all.wait(one), Duration::ZERO);
        drop(all.begin(one, None));
        assert_eq!(all.wait(one), INTERVAL);
        assert_eq!(all.wait(other), Duration::ZERO);
        for _ in 0..1_000 {
            drop(all.begin(one, None));
        }
        assert_eq!(all.wait(one), LONGEST_WAIT);
        advance(LONGEST_WAIT + INTERVAL * BURST).await;
        assert_eq!(all.wait(one), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_on_which_answers_were_fetched_are_not_counted() {
        let all = Usefulness::default();
        let one = [192, 0, 2, 7].into();
        for _ in 0..1_000 {
            all.begin(one, None).fetched();
        }
        assert_eq!(all.wait(one), Duration::ZERO);
        assert!(all.spent().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn answers_to_strangers_do_not_count() {
        let all = Usefulness::default();
        let one = [192, 0, 2, 7].into();
        let stranger = Strangers::default().admit(one).expect("room");
        all.begin(one, Some(stranger.clone())).fetched();
        assert_eq!(all.spent().len(), 1);
        all.spent().clear();
        stranger.is_somebody();
        all.begin(one, Some(stranger)).fetched();
        assert!(all.spent().is_empty());
    }
}
