//! When an owner learns that the shard is lost.

use super::*;
use crate::{core::Time, journal::HeartbeatReading};
use futures_util::FutureExt;

const OWNED: Epoch = Epoch(3);

/// A poll that was to renew the lease of this ownership.
fn poll(epoch: Option<Epoch>, is_renewed: bool, heard: Epoch) -> Poll {
    let now = Instant::now();
    let until = Some(Time(5_000_000));
    Poll {
        at: now,
        answered: now,
        epoch,
        reading: HeartbeatReading {
            now: Time(0),
            lease_until: until.filter(|_| is_renewed),
            owned_until: until,
            handover_to: None,
            epoch: OWNED,
            heard,
            owner: None,
            seen: Vec::new(),
        },
    }
}

#[tokio::test]
async fn an_owner_is_deposed_by_a_poll_of_its_ownership_or_by_a_later_epoch() {
    let (polled, mut polls) = watch::channel(None);
    let (membership, _known) = watch::channel(Membership::default());
    let later = Epoch(OWNED.0 + 1);
    for (poll, known, expected) in [
        (None, OWNED, false),
        (Some(poll(Some(OWNED), true, OWNED)), OWNED, false),
        (Some(poll(Some(OWNED), false, OWNED)), OWNED, true),
        // Sent before it was the owner, or under the epoch before.
        (Some(poll(None, false, OWNED)), OWNED, false),
        (Some(poll(Some(Epoch(2)), false, OWNED)), OWNED, false),
        // A database that was set back renews the lease, and others have heard of more.
        (Some(poll(Some(OWNED), true, later)), OWNED, true),
        (Some(poll(Some(Epoch(2)), false, later)), OWNED, false),
        (Some(poll(Some(OWNED), true, OWNED)), later, true),
    ] {
        polled.send_replace(poll.clone());
        membership.send_modify(|it| it.epoch = known);
        let lost = deposed(&mut polls, &membership, OWNED).now_or_never();
        assert_eq!(lost.is_some(), expected, "{poll:?}, {known:?} is known");
    }
}
