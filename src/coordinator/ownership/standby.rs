//! What a process keeps in mind while it does not own the shard, what a poll then has it do, and at
//! which pace it makes claims that fail again.
//!
//! It makes no claim itself, and hands nothing over.

use super::lease_watch::{LeaseTiming, LeaseWatch, Poll};
use crate::{
    backoff::Backoff,
    core::Epoch,
    journal::{Claim, Member},
};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use uuid::Uuid;

/// The pause before the third claim in a row.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Claims of a process to what another one of its name owns: some seconds of them.
const MAX_NAME_CLAIMS: u32 = 6;
/// Before each of these: of one that was killed the sessions end in a moment.
const NAME_BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));

/// Of one process.
#[derive(Debug)]
pub(super) struct Standby {
    /// What was seen of the lease.
    lease: LeaseWatch,
    /// Claims to what another process of its name owns.
    name_claims: u32,
    /// Claims in a row that a poll gave the reason for, and that have failed.
    failed_claims: u32,
    /// Since when it may own the shard without knowing; `None`: it does not.
    unsure_since: Option<Instant>,
    /// A request to hand over, until a poll says whether there is anything to hand over.
    asked: Option<oneshot::Sender<Option<Member>>>,
    /// Up to a heartbeat, so that the polls between two claims count for the lease.
    backoff: Backoff,
}

/// What a poll has a process do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Watch,
    Claim(Claim),
    /// A claim was granted, and its answer did not come; by now this process takes nothing over,
    /// and nobody is to wait until that lease is over.
    HandOver(Epoch),
}

/// What follows when another process of the same name owns the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameClaim {
    /// A claim after this pause.
    After(Duration),
    /// The last one has failed.
    GivenUp,
    /// That was before.
    NoMore,
}

impl Standby {
    pub(super) fn new(timing: LeaseTiming) -> Standby {
        Standby {
            lease: LeaseWatch::new(timing),
            name_claims: 0,
            failed_claims: 0,
            unsure_since: None,
            asked: None,
            backoff: Backoff::new(FIRST_PAUSE, timing.heartbeat),
        }
    }

    /// What `me` does after this poll. What was seen of a lease counts on after a claim that
    /// failed.
    pub(super) fn next(&mut self, me: Uuid, poll: &Poll, declines: bool) -> Next {
        if self.unsure_since.is_some_and(|since| poll.at >= since) {
            self.unsure_since = None;
        }
        match self.lease.claim(me, poll) {
            Some(claim) if !declines => {
                self.asked = None;
                return Next::Claim(claim);
            }
            Some(Claim::Owner(epoch)) => return Next::HandOver(epoch),
            Some(_) | None => self.failed_claims = 0,
        }
        // Whoever asked learns that there was nothing.
        if self.unsure_since.is_none() {
            self.asked = None;
        }
        Next::Watch
    }

    /// Whether this request to hand over is kept until the next poll. Else it is answered: there is
    /// nothing.
    pub(super) fn keeps(&mut self, to: oneshot::Sender<Option<Member>>) -> bool {
        if self.unsure_since.is_none() {
            let _ = to.send(None);
            return false;
        }
        self.asked = Some(to);
        true
    }

    /// Whom to tell who got what is handed over; nobody may listen.
    pub(super) fn who_asked(&mut self) -> oneshot::Sender<Option<Member>> {
        self.asked.take().unwrap_or_else(|| oneshot::channel().0)
    }

    /// Another process of the same name owns the shard: a few claims are made to it.
    pub(super) fn name_claim(&mut self) -> NameClaim {
        let made = self.name_claims;
        self.name_claims = made.saturating_add(1);
        match made {
            0..MAX_NAME_CLAIMS => NameClaim::After(NAME_BACKOFF.delay(made)),
            MAX_NAME_CLAIMS => NameClaim::GivenUp,
            _ => NameClaim::NoMore,
        }
    }

    /// A claim was granted, and this process was told.
    pub(super) fn granted(&mut self) {
        (self.failed_claims, self.asked) = (0, None);
        self.lease.granted();
    }

    /// A claim was not answered, or an ownership has ended, perhaps without the last answer: until
    /// the next poll this process may own the shard.
    pub(super) fn unsure(&mut self) {
        self.unsure_since = Some(Instant::now());
    }

    /// Waits after a claim that has failed. The next one comes at once: often an append of the
    /// owner was in the way. Those that polls go on to give a reason for come at longer and longer
    /// intervals, so that a database that grants none is not kept busy with them.
    pub(super) async fn pause_after(&mut self, claim: Claim) {
        if !matches!(claim, Claim::Successor(_) | Claim::Owner(_)) {
            return;
        }
        if let Some(before) = self.failed_claims.checked_sub(1) {
            tokio::time::sleep(self.backoff.delay(before)).await;
        }
        self.failed_claims += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{core::Time, journal::HeartbeatReading};
    use tokio::sync::oneshot::error::TryRecvError;

    const ME: Uuid = Uuid::from_u128(1);
    const OTHER: Uuid = Uuid::from_u128(2);

    fn standby() -> Standby {
        Standby::new(LeaseTiming::new(Duration::from_secs(5)))
    }

    /// A poll that is sent now and finds that `owner` has a lease.
    fn poll(owner: Option<Uuid>) -> Poll {
        let now = Instant::now();
        Poll {
            at: now,
            answered: now,
            epoch: None,
            reading: HeartbeatReading {
                now: Time(0),
                lease_until: None,
                owned_until: owner.map(|_| Time(5_000_000)),
                handover_to: None,
                epoch: Epoch(7),
                heard: Epoch(7),
                owner,
                seen: Vec::new(),
            },
        }
    }

    /// What is waited after a claim of this kind.
    async fn pause(standby: &mut Standby, claim: Claim) -> Duration {
        let begun = tokio::time::Instant::now();
        standby.pause_after(claim).await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn claims_that_fail_come_at_longer_intervals_after_the_second() {
        let ms = Duration::from_millis;
        let mut standby = standby();
        let claim = Claim::Successor(None);
        assert_eq!(pause(&mut standby, claim).await, Duration::ZERO);
        for full in [100, 200, 400, 800, 1_000, 1_000] {
            let pause = pause(&mut standby, claim).await;
            // The timers of the runtime have milliseconds.
            assert!((ms(full / 2)..=ms(full + 1)).contains(&pause), "{pause:?}");
        }
        let gone = Claim::Gone(Uuid::nil(), Epoch(1));
        let none = pause(&mut standby, gone).await;
        assert_eq!(none, Duration::ZERO, "no poll said so");
        // After a poll that gives no reason for a claim, and after one that was granted.
        assert_eq!(standby.next(ME, &poll(Some(OTHER)), false), Next::Watch);
        assert_eq!(pause(&mut standby, claim).await, Duration::ZERO);
        assert!(pause(&mut standby, claim).await >= ms(50));
        standby.granted();
        assert_eq!(pause(&mut standby, claim).await, Duration::ZERO);
    }

    #[test]
    fn who_stops_hands_over_what_it_was_granted_without_being_told_and_claims_nothing() {
        let mut standby = standby();
        let (free, mine) = (poll(None), poll(Some(ME)));
        for (poll, declines, next) in [
            (&free, false, Next::Claim(Claim::Successor(None))),
            (&free, true, Next::Watch),
            (&mine, false, Next::Claim(Claim::Owner(Epoch(7)))),
            (&mine, true, Next::HandOver(Epoch(7))),
            (&poll(Some(OTHER)), true, Next::Watch),
        ] {
            assert_eq!(standby.next(ME, poll, declines), next);
        }
        // Sent while it knew: it may be older than a handover.
        let known = Poll {
            epoch: Some(Epoch(7)),
            ..mine
        };
        assert_eq!(standby.next(ME, &known, true), Next::Watch);
    }

    #[test]
    fn what_became_of_a_claim_without_an_answer_is_known_after_a_poll_that_was_sent_later() {
        let mut standby = standby();
        let (to, mut answer) = oneshot::channel();
        assert!(!standby.keeps(to), "it owns nothing");
        assert_eq!(answer.try_recv(), Ok(None));
        let mut before = poll(None);
        standby.unsure();
        before.at -= Duration::from_millis(1);
        let (to, mut answer) = oneshot::channel();
        assert!(standby.keeps(to));
        standby.next(ME, &before, true);
        assert_eq!(answer.try_recv(), Err(TryRecvError::Empty));
        standby.next(ME, &poll(None), true);
        assert_eq!(answer.try_recv(), Err(TryRecvError::Closed));
    }

    #[test]
    fn who_asked_for_a_handover_learns_who_got_what_was_granted_without_being_told() {
        let mut standby = standby();
        standby.unsure();
        let (to, mut answer) = oneshot::channel();
        assert!(standby.keeps(to));
        let next = standby.next(ME, &poll(Some(ME)), true);
        assert_eq!(next, Next::HandOver(Epoch(7)));
        standby.who_asked().send(None).expect("it waits");
        assert_eq!(answer.try_recv(), Ok(None));
    }

    #[test]
    fn who_learns_late_of_each_of_many_ownerships_need_not_wait_for_any() {
        let mut standby = standby();
        for _ in 0..20 {
            let next = standby.next(ME, &poll(Some(ME)), false);
            assert_eq!(next, Next::Claim(Claim::Owner(Epoch(7))));
            standby.granted();
        }
    }

    #[test]
    fn what_a_namesake_owns_is_claimed_a_few_times() {
        let mut standby = standby();
        for _ in 0..MAX_NAME_CLAIMS {
            assert!(matches!(standby.name_claim(), NameClaim::After(_)));
        }
        assert_eq!(standby.name_claim(), NameClaim::GivenUp);
        assert_eq!(standby.name_claim(), NameClaim::NoMore);
        // Not begun anew by what it was granted.
        standby.granted();
        assert_eq!(standby.name_claim(), NameClaim::NoMore);
    }
}
