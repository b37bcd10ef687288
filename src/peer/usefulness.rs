//! Connections that were of no use: they ended before anybody fetched an answer there. Whoever
//! abuses HTTP/2 is hung up on and comes back, so an address that has opened many of those waits
//! before it gets the next one. Connections that are open are left alone, and so are other
//! addresses.

use super::strangers::network;
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
    was_answered: AtomicBool,
    of: Option<(Usefulness, IpAddr)>,
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

    /// A connection from there, which was of no use so far.
    pub(super) fn begin(&self, from: IpAddr) -> Use {
        Use {
            was_answered: AtomicBool::new(false),
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
    /// Somebody has fetched an answer.
    pub fn answered(&self) {
        if !self.was_answered.load(Ordering::Relaxed) {
            self.was_answered.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        if let Some((all, from)) = &self.of
            && !*self.was_answered.get_mut()
        {
            all.count(*from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn an_address_waits_after_many_connections_of_no_use() {
        let all = Usefulness::default();
        let (one, other) = ([192, 0, 2, 7].into(), [192, 0, 2, 8].into());
        for _ in 0..BURST {
            drop(all.begin(one));
        }
        assert_eq!(all.wait(one), Duration::ZERO);
        drop(all.begin(one));
        assert_eq!(all.wait(one), INTERVAL);
        assert_eq!(all.wait(other), Duration::ZERO);
        for _ in 0..1_000 {
            drop(all.begin(one));
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
            all.begin(one).answered();
        }
        assert_eq!(all.wait(one), Duration::ZERO);
        assert!(all.spent().is_empty());
    }
}
