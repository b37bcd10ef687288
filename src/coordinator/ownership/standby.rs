//! What a process keeps in mind while it does not own the shard, and at which pace it makes claims
//! that fail again.

use super::lease_watch::{LeaseTiming, LeaseWatch};
use crate::{backoff::Backoff, journal::Claim};
use std::time::Duration;

/// The pause before the third claim in a row.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Of one process.
#[derive(Debug)]
pub(super) struct Standby {
    /// What was seen of the lease.
    pub lease: LeaseWatch,
    /// Claims to what another process of its name owns.
    pub start_claims: u32,
    /// Claims in a row that a poll gave the reason for, and that have failed.
    pub failed_claims: u32,
    /// Up to a heartbeat, so that the polls between two claims count for the lease.
    backoff: Backoff,
}

impl Standby {
    pub(super) fn new(timing: LeaseTiming) -> Standby {
        Standby {
            lease: LeaseWatch::new(timing),
            start_claims: 0,
            failed_claims: 0,
            backoff: Backoff::new(FIRST_PAUSE, timing.heartbeat),
        }
    }

    /// How long to wait after a claim that has failed. The next one comes at once: often an append
    /// of the owner was in the way. Those that polls go on to give a reason for come at longer and
    /// longer intervals, so that a database that grants none is not kept busy with them.
    pub(super) fn pause_after(&mut self, claim: Claim) -> Duration {
        if !matches!(claim, Claim::Successor(_) | Claim::Owner(_)) {
            return Duration::ZERO;
        }
        let before = self.failed_claims.checked_sub(1);
        self.failed_claims += 1;
        before.map_or(Duration::ZERO, |before| self.backoff.delay(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Epoch;
    use uuid::Uuid;

    #[test]
    fn claims_that_fail_come_at_longer_intervals_after_the_second() {
        let ms = Duration::from_millis;
        let mut standby = Standby::new(LeaseTiming::new(Duration::from_secs(5)));
        let claim = Claim::Successor(None);
        assert_eq!(standby.pause_after(claim), Duration::ZERO);
        for full in [100, 200, 400, 800, 1_000, 1_000] {
            let pause = standby.pause_after(claim);
            assert!((ms(full / 2)..=ms(full)).contains(&pause), "{pause:?}");
        }
        let gone = Claim::Gone(Uuid::nil(), Epoch(1));
        assert_eq!(standby.pause_after(gone), Duration::ZERO, "no poll said so");
        // As after a poll that gives no reason for a claim.
        standby.failed_claims = 0;
        assert_eq!(standby.pause_after(claim), Duration::ZERO);
    }
}
