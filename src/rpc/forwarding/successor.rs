//! Who owns the shard now, asked of the other replicas while the database does not say it here. An
//! owner that does not reach the database would else never learn that another replica has taken
//! over, and whoever listens to it would hear nothing for as long. Nothing rests on their answers
//! but where calls go, and that no later ownership is given that epoch: what is written is decided
//! in the database.

use super::{peer_service, route::Route};
use crate::{coordinator::Coordinator, core::Epoch, journal::Member};
use futures_util::future::join_all;
use std::time::Duration;
use tokio::time::Instant;
use tonic::transport::Channel;
use uuid::Uuid;

/// How often the others are asked.
const ASK_INTERVAL: Duration = Duration::from_secs(1);
/// How much later than the last known epoch a successor's may be. No later ownership gets an epoch
/// that was heard of, so one that is made up could else leave none.
const FURTHEST: i64 = 1 << 32;

/// The search of this replica.
pub(crate) struct SuccessorSearch {
    coordinator: Coordinator,
    route: Route,
    /// When the others were asked last.
    asked: Option<Instant>,
}

impl SuccessorSearch {
    pub(crate) fn new(coordinator: Coordinator, route: Route) -> SuccessorSearch {
        SuccessorSearch {
            coordinator,
            route,
            asked: None,
        }
    }

    /// Asks the others, unless they have just been asked, while this replica is an owner that is
    /// cut off, or `owner_stands_by`: its owner says that it is none any more. Has calls go to a
    /// successor that says so.
    pub(crate) async fn look(&mut self, owner_stands_by: bool) {
        let is_wanted = owner_stands_by || self.coordinator.replica_status().cut_off;
        let has_asked = self.asked.is_some_and(|at| at.elapsed() < ASK_INTERVAL);
        if !is_wanted || has_asked {
            return;
        }
        self.asked = Some(Instant::now());
        let known = self.coordinator.membership().borrow().epoch;
        if let Some((owner, epoch)) = owner_after(known, self.route.others()).await {
            self.coordinator.superseded(owner, epoch);
        }
    }
}

/// Which of these replicas owns the shard by now, as of an epoch after `epoch`, and the epoch.
async fn owner_after(
    epoch: Epoch,
    others: Vec<(Member, Option<Channel>)>,
) -> Option<(Uuid, Epoch)> {
    let asked = others.into_iter().map(|(member, channel)| async move {
        let answer = peer_service::ping(channel?).await?.ok()?;
        // Another process may have its address by now.
        let is_it = Uuid::try_parse(&answer.replica) == Ok(member.id);
        let owned = Epoch(answer.owned_epoch);
        (is_it && may_follow(epoch, owned)).then_some((member.id, owned))
    });
    let owners = join_all(asked).await.into_iter().flatten();
    owners.max_by_key(|(_, owned)| *owned)
}

/// Whether an ownership under `owned` can be one after `known`.
fn may_follow(known: Epoch, owned: Epoch) -> bool {
    owned > known && owned.0.saturating_sub(known.0) <= FURTHEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_that_is_made_up_leaves_enough_for_later_owners() {
        let follows = |owned| may_follow(Epoch(7), Epoch(owned));
        for later in [8, 100, 7 + FURTHEST] {
            assert!(follows(later), "{later}");
        }
        for wrong in [i64::MIN, 0, 7, 8 + FURTHEST, i64::MAX] {
            assert!(!follows(wrong), "{wrong}");
        }
    }
}
