//! What a process knows of a lease that it renews: until when it counts as kept, and why it is
//! lost. Its keeper says so, and its holder asks.

use crate::error::{Error, Result};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

/// How much earlier than the service a process takes a lease for lost, at least.
const MARGIN: Duration = Duration::from_millis(200);
/// Pause before a renewal is tried again.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);
/// How a lease ends that is not renewed.
const NOT_RENEWED: &str = "it could not be renewed within its lease";

/// A renewal, or the call that began the lease. What it keeps counts from when it was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Renewal {
    pub sent: Instant,
    pub lease: Duration,
    /// How much longer it may be kept, however often it is renewed, says the service.
    pub left: Option<Duration>,
}

impl Renewal {
    /// When the lease counts as lost after this, and why; `at_limit`: why when it may be kept no
    /// longer. What it protects is left alone a little before others may have it.
    pub(crate) fn until(&self, at_limit: &'static str) -> (Instant, &'static str) {
        let margin = (self.lease / 10).max(MARGIN);
        let kept = self.sent + self.lease.saturating_sub(margin);
        match self.limit() {
            Some(limit) if self.sent + limit < kept => (self.sent + limit, at_limit),
            _ => (kept, NOT_RENEWED),
        }
    }

    /// When to renew it again. What is left is asked for again, since it may be more or less by
    /// then: it counts by the clock of the service, and the settings may change.
    pub(crate) fn next(&self) -> Instant {
        self.sent + self.interval()
    }

    /// Between two renewals, and how long the next one may take before it is tried again.
    pub(crate) fn interval(&self) -> Duration {
        let before_limit = self.limit().map(|limit| (limit / 3).max(PAUSE));
        (self.lease / 3).min(before_limit.unwrap_or(Duration::MAX))
    }

    fn limit(&self) -> Option<Duration> {
        Some(self.left?.saturating_sub(MARGIN))
    }
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
    /// It was renewed. False: its holder has seen before that it is lost, and it remains so.
    pub(crate) fn until(&self, until: Instant, why: &'static str) -> bool {
        self.0.send_if_modified(|state| {
            let is_kept = state.lost.is_none();
            if is_kept {
                (state.until, state.why) = (until, why);
            }
            is_kept
        })
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

    /// Asks until the service has said whether it is kept, for as long as it is by the clock; why
    /// it is lost, if it is. `renew` asks once.
    pub(crate) async fn confirmed<T>(
        &self,
        renew: impl AsyncFn() -> Result<T>,
        is_final: fn(&Error) -> bool,
    ) -> Option<String> {
        let answered = async {
            loop {
                match renew().await {
                    Ok(_) => return self.is_lost(),
                    Err(error) if is_final(&error) => return Some(error.message),
                    Err(_) => sleep(PAUSE).await,
                }
            }
        };
        tokio::select! {
            biased;
            why = self.lost() => Some(why),
            lost = answered => lost,
        }
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tonic::Status;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn it_is_kept_for_nearly_a_lease_or_until_its_limit_whichever_ends_first() {
        let sent = Instant::now();
        let after = |lease, left: Option<u64>| {
            let renewal = Renewal {
                sent,
                lease: Duration::from_secs(lease),
                left: left.map(Duration::from_secs),
            };
            let (until, why) = renewal.until("limit");
            let next = renewal.next() - sent;
            ((until - sent).as_millis(), why, next.as_millis())
        };
        assert_eq!(after(15, None), (13_500, NOT_RENEWED, 5_000));
        assert_eq!(after(1, None), (800, NOT_RENEWED, 333));
        assert_eq!(after(15, Some(3_600)), (13_500, NOT_RENEWED, 5_000));
        assert_eq!(after(15, Some(14)), (13_500, NOT_RENEWED, 4_600));
        assert_eq!(after(15, Some(2)), (1_800, "limit", 600));
        assert_eq!(after(15, Some(0)), (0, "limit", 100));
    }

    #[tokio::test]
    async fn it_is_lost_in_time_also_while_its_keeper_does_not_run() {
        let now = Instant::now();
        let (keeping, lease) = lease(now + LONG, NOT_RENEWED);
        assert_eq!(lease.is_lost(), None);
        assert!(keeping.until(now, "it was held for long"));
        assert_eq!(lease.is_lost().as_deref(), Some("it was held for long"));
        assert_eq!(lease.lost().await, "it was held for long");
    }

    #[tokio::test]
    async fn what_was_seen_to_be_lost_remains_so() {
        let now = Instant::now();
        let (keeping, lease) = lease(now, NOT_RENEWED);
        assert_eq!(lease.is_lost().as_deref(), Some(NOT_RENEWED));
        assert!(!keeping.until(now + LONG, NOT_RENEWED), "it ends");
        keeping.lose("it was released".to_owned());
        assert_eq!(lease.lost().await, NOT_RENEWED);
    }

    #[tokio::test]
    async fn it_is_confirmed_by_an_answer_alone() {
        let away = || Error::from(Status::unavailable("nobody is there"));
        let is_final = |error: &Error| error.message == "it ended";
        let asked = AtomicUsize::new(0);
        let third_time = async || match asked.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Err(away()),
            2 => Ok(()),
            _ => Err(Status::not_found("it ended").into()),
        };
        let (keeping, kept) = lease(Instant::now() + LONG, NOT_RENEWED);
        assert_eq!(kept.confirmed(third_time, is_final).await, None);
        let ended = kept.confirmed(third_time, is_final).await;
        assert_eq!(ended.as_deref(), Some("it ended"));
        let never = async || Err::<(), _>(away());
        assert!(keeping.until(Instant::now() + 3 * PAUSE, NOT_RENEWED));
        let lost = kept.confirmed(never, is_final).await;
        assert_eq!(lost.as_deref(), Some(NOT_RENEWED));
    }

    #[tokio::test]
    async fn whoever_waits_learns_why() {
        let (keeping, lease) = lease(Instant::now() + LONG, NOT_RENEWED);
        let waiting = tokio::spawn({
            let lease = lease.clone();
            async move { lease.lost().await }
        });
        tokio::task::yield_now().await;
        assert!(keeping.until(Instant::now() + LONG, NOT_RENEWED));
        keeping.lose("it was released".to_owned());
        assert_eq!(waiting.await.expect("it ends"), "it was released");
    }
}
