//! The timing of ownership: how often to poll, how long an ownership lasts, and when another's
//! lease counts as expired.
//!
//! Pure: it is told what each poll has read, and reads no clock itself.

use crate::{
    core::{Epoch, Time},
    journal::HeartbeatReading,
};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Interval between heartbeats, unless the lease is short.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Heartbeats in a lease, at least.
const HEARTBEATS_PER_LEASE: u32 = 5;
/// Heartbeats without a poll after which earlier polls do not count any more.
const MAX_GAP_HEARTBEATS: u32 = 3;

/// One successful heartbeat.
#[derive(Clone, Debug)]
pub(crate) struct Poll {
    /// When it was sent.
    pub at: Instant,
    /// The ownership it was to renew.
    pub epoch: Option<Epoch>,
    pub reading: HeartbeatReading,
}

/// Intervals that follow from the lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseTiming {
    /// How long an ownership lasts without a heartbeat.
    pub lease: Duration,
    /// Between heartbeats; also what must be left of a lease for replies that rest on it alone.
    pub heartbeat: Duration,
    /// Between polls, at least.
    pub min_interval: Duration,
}

impl LeaseTiming {
    pub(crate) fn new(lease: Duration) -> LeaseTiming {
        let heartbeat = HEARTBEAT_INTERVAL.min(lease / HEARTBEATS_PER_LEASE);
        LeaseTiming {
            lease,
            heartbeat,
            min_interval: heartbeat / 20,
        }
    }

    /// When to poll again: a heartbeat later, or just after another's lease expires unless it is
    /// renewed.
    pub(crate) fn next_poll(&self, reading: &HeartbeatReading) -> Duration {
        let ours = reading.lease_until.is_some();
        match reading
            .owned_until
            .filter(|until| !ours && *until > reading.now)
        {
            Some(until) => self
                .heartbeat
                .min(until.since(reading.now) + self.min_interval),
            None => self.heartbeat,
        }
    }
}

/// Watches a lease that another replica holds.
///
/// The lease counts as expired when polls have found the same end of it for at least a heartbeat,
/// without a long gap between them, and that end has passed. After an outage of the database, which
/// ends for the owner and for the standbys at the same time, this leaves the owner a heartbeat to
/// renew.
#[derive(Debug)]
pub(crate) struct LeaseWatch {
    timing: LeaseTiming,
    seen: Option<SeenLease>,
}

#[derive(Debug)]
struct SeenLease {
    /// The end of the lease; `None`: nobody holds one.
    until: Option<Time>,
    first_seen: Instant,
    last_seen: Instant,
}

impl LeaseWatch {
    pub(crate) fn new(timing: LeaseTiming) -> LeaseWatch {
        LeaseWatch { timing, seen: None }
    }

    /// Whether `me` may take the shard over after this poll.
    pub(crate) fn allows(&mut self, me: Uuid, poll: &Poll) -> bool {
        let until = poll.reading.owned_until;
        let max_gap = self.timing.heartbeat * MAX_GAP_HEARTBEATS;
        let unchanged = |seen: &SeenLease| {
            seen.until == until && poll.at.duration_since(seen.last_seen) <= max_gap
        };
        let first_seen = match self.seen.take().filter(unchanged) {
            Some(seen) => seen.first_seen,
            None => poll.at,
        };
        self.seen = Some(SeenLease {
            until,
            first_seen,
            last_seen: poll.at,
        });
        let Some(until) = until else {
            return true;
        };
        let expired =
            until < poll.reading.now && poll.at.duration_since(first_seen) >= self.timing.heartbeat;
        expired || poll.reading.handover_to == Some(me)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Membership;

    const ME: Uuid = Uuid::from_u128(1);

    struct Standby {
        start: Instant,
        watch: LeaseWatch,
    }

    impl Standby {
        fn new() -> Standby {
            Standby {
                start: Instant::now(),
                watch: LeaseWatch::new(LeaseTiming::new(Duration::from_secs(5))),
            }
        }

        /// Polls `at` so many ms, when the lease lasts until then; returns whether it may take
        /// over.
        fn polls(&mut self, at: u64, until: Option<i64>) -> bool {
            let ms = |ms: i64| Time(ms * 1_000);
            let reading = HeartbeatReading {
                now: ms(at as i64),
                lease_until: None,
                owned_until: until.map(ms),
                handover_to: None,
                membership: Membership::default(),
            };
            self.watch.allows(
                ME,
                &Poll {
                    at: self.start + Duration::from_millis(at),
                    epoch: None,
                    reading,
                },
            )
        }
    }

    #[test]
    fn an_expired_lease_may_be_taken_at_the_second_poll_a_heartbeat_later() {
        let mut standby = Standby::new();
        assert!(!standby.polls(0, Some(5_000)));
        assert!(!standby.polls(4_900, Some(9_800)), "it was renewed");
        assert!(!standby.polls(9_700, Some(9_800)), "its time is not over");
        assert!(
            !standby.polls(9_801, Some(9_800)),
            "there was a gap before the previous poll"
        );
        assert!(standby.polls(10_700, Some(9_800)));
    }

    #[test]
    fn after_an_outage_the_owner_has_a_heartbeat_to_come_back() {
        let mut standby = Standby::new();
        assert!(!standby.polls(0, Some(5_000)));
        assert!(!standby.polls(60_000, Some(5_000)));
        assert!(!standby.polls(60_500, Some(5_000)));
        assert!(standby.polls(61_000, Some(5_000)));
    }

    #[test]
    fn a_shard_that_nobody_owns_may_be_taken_at_once() {
        assert!(Standby::new().polls(0, None));
    }
}
