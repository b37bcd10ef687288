//! The times of ownership: how often to look, how long an ownership lasts, and when a lease counts as given up.

use crate::{
    core::{Epoch, Time},
    journal::HeartbeatReading,
};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Between heartbeats, unless the lease is short.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Heartbeats in a lease, at least.
const BEATS: u32 = 5;
/// Heartbeats without a look after which what was seen before counts no more.
const UNBROKEN: u32 = 3;

/// One successful look at the database.
#[derive(Clone, Debug)]
pub(crate) struct Poll {
    /// When it was asked for.
    pub at: Instant,
    /// The ownership it was to renew.
    pub epoch: Option<Epoch>,
    /// What it found.
    pub beat: HeartbeatReading,
}

/// What follows from the lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseTiming {
    /// How long an ownership lasts without a heartbeat.
    pub lease: Duration,
    /// Between heartbeats; also what must be left of a lease for answers that rest on it alone.
    pub heartbeat: Duration,
    /// Between looks, at least.
    pub shortest: Duration,
}

impl LeaseTiming {
    pub(crate) fn new(lease: Duration) -> LeaseTiming {
        let heartbeat = HEARTBEAT.min(lease / BEATS);
        LeaseTiming {
            lease,
            heartbeat,
            shortest: heartbeat / 20,
        }
    }

    /// When to look again: a heartbeat later, or when the lease ends unless it is renewed.
    pub(crate) fn next_look(&self, beat: &HeartbeatReading) -> Duration {
        let ours = beat.lease_until.is_some();
        match beat.owned_until.filter(|until| !ours && *until > beat.now) {
            Some(until) => self.heartbeat.min(until.since(beat.now) + self.shortest),
            None => self.heartbeat,
        }
    }
}

/// Watches a lease that is another's: it is given up when two looks, a heartbeat apart and without a gap between them,
/// find that it was not renewed, and its time is over. So an owner that comes back from an outage of the database
/// together with everybody else has a heartbeat to renew it.
#[derive(Debug)]
pub(crate) struct LeaseWatch {
    pace: LeaseTiming,
    /// The end of the lease as seen, since when, and when last.
    seen: Option<(Option<Time>, Instant, Instant)>,
}

impl LeaseWatch {
    pub(crate) fn new(pace: LeaseTiming) -> LeaseWatch {
        LeaseWatch { pace, seen: None }
    }

    /// Whether `me` may take the shard over after this look.
    pub(crate) fn allows(&mut self, me: Uuid, look: &Poll) -> bool {
        let beat = &look.beat;
        let since = match self.seen {
            Some((until, since, last))
                if until == beat.owned_until
                    && look.at.duration_since(last) <= self.pace.heartbeat * UNBROKEN =>
            {
                since
            }
            _ => look.at,
        };
        self.seen = Some((beat.owned_until, since, look.at));
        let Some(until) = beat.owned_until else {
            return true;
        };
        let missed = until < beat.now && look.at.duration_since(since) >= self.pace.heartbeat;
        missed || beat.handover_to == Some(me)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Membership;

    const ME: Uuid = Uuid::from_u128(1);

    struct Eyes {
        start: Instant,
        vigil: LeaseWatch,
    }

    impl Eyes {
        fn new() -> Eyes {
            Eyes {
                start: Instant::now(),
                vigil: LeaseWatch::new(LeaseTiming::new(Duration::from_secs(5))),
            }
        }

        /// Looks `at` so many ms, when the lease lasts until then.
        fn see(&mut self, at: u64, until: Option<i64>) -> bool {
            let ms = |ms: i64| Time(ms * 1_000);
            let beat = HeartbeatReading {
                now: ms(at as i64),
                lease_until: None,
                owned_until: until.map(ms),
                handover_to: None,
                membership: Membership::default(),
            };
            self.vigil.allows(
                ME,
                &Poll {
                    at: self.start + Duration::from_millis(at),
                    epoch: None,
                    beat,
                },
            )
        }
    }

    #[test]
    fn a_lease_that_is_over_is_given_up_at_the_second_look_a_heartbeat_later() {
        let mut eyes = Eyes::new();
        assert!(!eyes.see(0, Some(5_000)));
        assert!(!eyes.see(4_900, Some(9_800)), "it was renewed");
        assert!(!eyes.see(9_700, Some(9_800)), "its time is not over");
        assert!(
            !eyes.see(9_801, Some(9_800)),
            "there was a gap before the look before"
        );
        assert!(eyes.see(10_700, Some(9_800)));
    }

    #[test]
    fn after_an_outage_the_owner_has_a_heartbeat_to_come_back() {
        let mut eyes = Eyes::new();
        assert!(!eyes.see(0, Some(5_000)));
        assert!(!eyes.see(60_000, Some(5_000)));
        assert!(!eyes.see(60_500, Some(5_000)));
        assert!(eyes.see(61_000, Some(5_000)));
    }

    #[test]
    fn what_nobody_owns_is_anybodys_at_once() {
        assert!(Eyes::new().see(0, None));
    }
}
