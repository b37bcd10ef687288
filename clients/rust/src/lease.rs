//! What a process knows of a lease that it renews: until when it counts as kept, and why it is
//! lost. Its keeper says so, and its holder asks.

use std::{sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// How much earlier than the service a process takes a lease for lost, at least.
pub(crate) const MARGIN: Duration = Duration::from_millis(200);
/// Pause before a renewal is tried again.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);
/// How a lease ends that is not renewed.
pub(crate) const NOT_RENEWED: &str = "it could not be renewed within its lease";

/// How long a lease is kept by a renewal. What it protects is left alone a little before others may
/// have it.
pub(crate) fn kept(lease: Duration) -> Duration {
    lease.saturating_sub((lease / 10).max(MARGIN))
}

#[derive(Debug)]
struct State {
    /// It is lost then, unless it is renewed, and why.
    until: Instant,
    why: &'static str,
    lost: Option<String>,
}

impl State {
    /// Why it is lost by now.
    fn is_lost(&self) -> Option<String> {
        let is_over = || (self.until <= Instant::now()).then(|| self.why.to_owned());
        self.lost.clone().or_else(is_over)
    }
}

/// The part of the keeper.
#[derive(Debug)]
pub(crate) struct Keeping(Arc<watch::Sender<State>>);

/// The part of the holder. Once it has seen that the lease is lost, that is final.
#[derive(Clone, Debug)]
pub(crate) struct Lease(Arc<watch::Sender<State>>);

/// A lease that counts as kept until then, and as lost for this reason from then on.
pub(crate) fn lease(until: Instant, why: &'static str) -> (Keeping, Lease) {
    let state = State {
        until,
        why,
        lost: None,
    };
    let state = Arc::new(watch::Sender::new(state));
    (Keeping(Arc::clone(&state)), Lease(state))
}

impl Keeping {
    /// It was renewed.
    pub(crate) fn until(&self, until: Instant, why: &'static str) {
        self.0
            .send_modify(|state| (state.until, state.why) = (until, why));
    }

    /// It is lost.
    pub(crate) fn lose(&self, why: String) {
        self.0.send_modify(|state| {
            state.lost.get_or_insert(why);
        });
    }
}

impl Lease {
    /// Why it is lost; `None`: as far as is known, it is kept. It is lost in time also when nothing
    /// else runs in this process, and so its keeper does not.
    pub(crate) fn is_lost(&self) -> Option<String> {
        let lost = self.0.borrow().is_lost()?;
        self.0.send_modify(|state| {
            state.lost.get_or_insert(lost);
        });
        self.0.borrow().lost.clone()
    }

    /// Resolves when it is lost, to why.
    pub(crate) async fn lost(&self) -> String {
        let mut changes = self.0.subscribe();
        loop {
            if let Some(why) = self.is_lost() {
                return why;
            }
            let until = changes.borrow_and_update().until;
            tokio::select! {
                // It cannot be closed: this holds it open.
                _ = changes.changed() => {}
                () = sleep_until(until) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn it_is_lost_in_time_also_while_its_keeper_does_not_run() {
        let now = Instant::now();
        let (keeping, lease) = lease(now + LONG, NOT_RENEWED);
        assert_eq!(lease.is_lost(), None);
        keeping.until(now, "it was held for long");
        assert_eq!(lease.is_lost().as_deref(), Some("it was held for long"));
        assert_eq!(lease.lost().await, "it was held for long");
    }

    #[tokio::test]
    async fn what_was_seen_to_be_lost_remains_so() {
        let now = Instant::now();
        let (keeping, lease) = lease(now, NOT_RENEWED);
        assert_eq!(lease.is_lost().as_deref(), Some(NOT_RENEWED));
        keeping.until(now + LONG, NOT_RENEWED);
        keeping.lose("it was released".to_owned());
        assert_eq!(lease.lost().await, NOT_RENEWED);
    }

    #[tokio::test]
    async fn whoever_waits_learns_why() {
        let (keeping, lease) = lease(Instant::now() + LONG, NOT_RENEWED);
        let waiting = tokio::spawn({
            let lease = lease.clone();
            async move { lease.lost().await }
        });
        tokio::task::yield_now().await;
        keeping.until(Instant::now() + LONG, NOT_RENEWED);
        keeping.lose("it was released".to_owned());
        assert_eq!(waiting.await.expect("it ends"), "it was released");
    }
}
