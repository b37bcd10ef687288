//! The timing of ownership: how often to poll, how long an ownership lasts, and when another's
//! lease counts as expired.
//!
//! How long a lease lasts is counted by the monotonic clock of this process from when it was seen
//! to be renewed. The clock of the database only says how much of it was over by then, within what
//! the polls before and after allow: it may have been set in between.
//!
//! Pure: it is told what each poll has read, and reads no clock itself.

use crate::{
    core::{Epoch, Time},
    journal::{Claim, HeartbeatReading},
};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Interval between heartbeats, unless the lease is short.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Heartbeats in a lease, at least.
const HEARTBEATS_PER_LEASE: u32 = 5;
/// Heartbeats without a poll after which earlier polls do not count any more.
const MAX_GAP_HEARTBEATS: u32 = 3;
/// How often a claim is repeated that was granted and whose answer did not come.
const MAX_OWNER_CLAIMS: u32 = 5;

/// One successful heartbeat.
#[derive(Clone, Debug)]
pub(crate) struct Poll {
    /// When it was sent.
    pub at: Instant,
    /// When its answer had come.
    pub answered: Instant,
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
/// without a long gap between them, and its time is over. After an outage of the database, which
/// ends for the owner and for the standbys at the same time, this leaves the owner a heartbeat to
/// renew.
#[derive(Debug)]
pub(crate) struct LeaseWatch {
    timing: LeaseTiming,
    seen: Option<SeenLease>,
    /// Claims in a row to what it owns without having been told.
    owner_claims: u32,
}

#[derive(Clone, Copy, Debug)]
struct SeenLease {
    /// The end of the lease as its holder wrote it, which names it; `None`: nobody holds one.
    until: Option<Time>,
    /// When its time is over.
    over: Instant,
    /// When the first poll that saw it, since the last gap, was answered.
    first_seen: Instant,
    last_seen: Instant,
}

impl LeaseWatch {
    pub(crate) fn new(timing: LeaseTiming) -> LeaseWatch {
        LeaseWatch {
            timing,
            seen: None,
            owner_claims: 0,
        }
    }

    /// The claim that `me` has to the shard after this poll, if any.
    pub(crate) fn claim(&mut self, me: Uuid, poll: &Poll) -> Option<Claim> {
        let seen = self.see(poll);
        let Some(until) = seen.until else {
            return Some(Claim::Successor(None));
        };
        if poll.reading.handover_to == Some(me) {
            return Some(Claim::Successor(None));
        }
        // A claim was granted, and its answer got lost: a standby has not asked for what it owns.
        // One that cannot be told for long leaves the others their turn when the lease is over.
        if poll.epoch.is_some() || poll.reading.owner != Some(me) {
            self.owner_claims = 0;
        } else if poll.reading.handover_to.is_none() && self.owner_claims < MAX_OWNER_CLAIMS {
            self.owner_claims += 1;
            return Some(Claim::Owner(poll.reading.epoch));
        }
        let unrenewed = poll.at.duration_since(seen.first_seen) >= self.timing.heartbeat;
        (unrenewed && poll.at >= seen.over).then_some(Claim::Successor(Some(until)))
    }

    /// A claim was granted, and this process was told.
    pub(crate) fn granted(&mut self) {
        self.owner_claims = 0;
    }

    fn see(&mut self, poll: &Poll) -> SeenLease {
        let until = poll.reading.owned_until;
        let max_gap = self.timing.heartbeat * MAX_GAP_HEARTBEATS;
        let (over, first_seen) = match self.seen {
            Some(seen) if seen.until == until => {
                let gap = poll.at.duration_since(seen.last_seen) > max_gap;
                (seen.over, if gap { poll.answered } else { seen.first_seen })
            }
            before => (self.over(before, poll), poll.answered),
        };
        let seen = SeenLease {
            until,
            over,
            first_seen,
            last_seen: poll.at,
        };
        *self.seen.insert(seen)
    }

    /// When a lease that is seen for the first time is over: as much later than the answer as the
    /// clock of the database says, but not more than a whole lease, and not less than that after
    /// the poll before if it was renewed since.
    fn over(&self, before: Option<SeenLease>, poll: &Poll) -> Instant {
        let LeaseTiming { lease, .. } = self.timing;
        let reading = &poll.reading;
        let until = reading.owned_until.unwrap_or(reading.now);
        let over = poll.answered + until.since(reading.now).min(lease);
        match before {
            Some(before) if reading.handover_to.is_none() => over.max(before.last_seen + lease),
            _ => over,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Uuid = Uuid::from_u128(1);
    const DAY: i64 = 24 * 3600 * 1_000;

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
            self.polls_when(at, at as i64, until)
        }

        /// The same when the clock of the database says `now`.
        fn polls_when(&mut self, at: u64, now: i64, until: Option<i64>) -> bool {
            let reading = reading(now, until);
            self.watch.claim(ME, &self.poll(at, at, reading)).is_some()
        }

        /// One that was sent and answered after so many ms.
        fn poll(&self, at: u64, answered: u64, reading: HeartbeatReading) -> Poll {
            let after = |ms| self.start + Duration::from_millis(ms);
            Poll {
                at: after(at),
                answered: after(answered),
                epoch: None,
                reading,
            }
        }
    }

    /// What a poll finds when the clock of the database says `now`.
    fn reading(now: i64, until: Option<i64>) -> HeartbeatReading {
        let ms = |ms: i64| Time(ms * 1_000);
        HeartbeatReading {
            now: ms(now),
            lease_until: None,
            owned_until: until.map(ms),
            handover_to: None,
            epoch: Epoch(1),
            heard: Epoch(1),
            owner: None,
            seen: Vec::new(),
        }
    }

    #[test]
    fn who_owns_the_shard_without_knowing_begins_another_epoch_at_once() {
        let mut standby = Standby::new();
        let mine = HeartbeatReading {
            owner: Some(ME),
            ..reading(0, Some(5_000))
        };
        let mut poll = standby.poll(0, 1, mine);
        let claim = standby.watch.claim(ME, &poll);
        assert_eq!(claim, Some(Claim::Owner(Epoch(1))));
        // Sent while it knew: it may be older than a handover.
        poll.epoch = Some(Epoch(1));
        assert_eq!(standby.watch.claim(ME, &poll), None);
    }

    #[test]
    fn a_slow_answer_shortens_no_lease() {
        let mut standby = Standby::new();
        let slow = standby.poll(0, 2_500, reading(2_500, Some(7_400)));
        assert_eq!(standby.watch.claim(ME, &slow), None);
        for at in [3_500, 4_500, 5_500, 6_500] {
            assert!(!standby.polls(at, Some(7_400)), "{at}");
        }
        assert!(standby.polls(7_500, Some(7_400)));
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
    fn the_owner_has_this_heartbeat_after_a_slow_answer_too() {
        let mut standby = Standby::new();
        assert!(!standby.polls(0, Some(5_000)));
        let slow = standby.poll(10_000, 12_000, reading(12_000, Some(5_000)));
        assert_eq!(standby.watch.claim(ME, &slow), None);
        assert!(!standby.polls(12_050, Some(5_000)));
        assert!(standby.polls(13_000, Some(5_000)));
    }

    #[test]
    fn who_is_never_told_of_its_ownership_leaves_it_when_the_lease_is_over() {
        let mut standby = Standby::new();
        let mine = |now, until| HeartbeatReading {
            owner: Some(ME),
            ..reading(now, Some(until))
        };
        let mut claims = Vec::new();
        // Each granted claim begins another lease.
        let mut until = 5_000;
        for at in (0..20_000).step_by(100) {
            let poll = standby.poll(at, at, mine(at as i64, until));
            let claim = standby.watch.claim(ME, &poll);
            if let Some(Claim::Owner(_)) = claim {
                until = at as i64 + 5_000;
            }
            claims.extend(claim.map(|claim| (at, claim)));
            if matches!(claim, Some(Claim::Successor(_))) {
                break;
            }
        }
        let (at, last) = claims.pop().unwrap();
        assert_eq!(claims.len(), MAX_OWNER_CLAIMS as usize);
        assert_eq!(last, Claim::Successor(Some(Time(until * 1_000))));
        assert!(at as i64 >= until);
    }

    #[test]
    fn who_has_handed_over_takes_the_shard_back_when_nobody_came() {
        let mut standby = Standby::new();
        let handed = |now| HeartbeatReading {
            owner: Some(ME),
            handover_to: Some(Uuid::from_u128(2)),
            ..reading(now, Some(0))
        };
        let first = standby.poll(0, 0, handed(0));
        assert_eq!(standby.watch.claim(ME, &first), None);
        let later = standby.poll(1_000, 1_000, handed(1_000));
        let claim = standby.watch.claim(ME, &later);
        assert_eq!(claim, Some(Claim::Successor(Some(Time(0)))));
    }

    #[test]
    fn a_shard_that_nobody_owns_may_be_taken_at_once() {
        assert!(Standby::new().polls(0, None));
    }

    #[test]
    fn a_step_back_of_the_clock_lengthens_no_lease() {
        let mut standby = Standby::new();
        assert!(!standby.polls(0, Some(5_000)));
        for second in 1..5 {
            let at = second * 1_000;
            assert!(!standby.polls_when(at, at as i64 - DAY, Some(5_000)));
        }
        assert!(standby.polls_when(5_000, 5_000 - DAY, Some(5_000)));
    }

    #[test]
    fn who_first_looks_after_a_step_back_waits_for_one_lease() {
        let mut standby = Standby::new();
        for second in 0..5 {
            let at = second * 1_000;
            assert!(!standby.polls_when(at, at as i64, Some(DAY)));
        }
        assert!(standby.polls_when(5_000, 5_000, Some(DAY)));
    }

    #[test]
    fn a_step_forward_shortens_no_lease_that_was_seen_to_be_renewed() {
        let mut standby = Standby::new();
        assert!(!standby.polls(0, Some(5_000)));
        for second in 1..5 {
            let at = second * 1_000;
            assert!(!standby.polls_when(at, at as i64 + DAY, Some(5_000)));
        }
        let mut standby = Standby::new();
        assert!(!standby.polls(0, Some(5_000)));
        for second in 1..5 {
            let at = second * 1_000;
            assert!(
                !standby.polls_when(at, at as i64 + DAY, Some(5_500)),
                "it was renewed after the first poll and before the step"
            );
        }
        assert!(standby.polls_when(6_000, 6_000 + DAY, Some(5_500)));
    }
}
