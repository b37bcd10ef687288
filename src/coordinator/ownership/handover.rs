//! Which replica owns the shard, for whoever must reach it.

use super::OwnershipRequest;
use crate::coordinator::ownership;
use crate::coordinator::{Coordinator, Role};
use crate::journal::{Member, Membership};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

/// How long the end of what is under way is waited for before the shard is given away regardless.
const QUIET: Duration = Duration::from_secs(1);
/// How long the database may take to hear of a handover. Without it the lease ends by itself.
const PATIENCE: Duration = Duration::from_secs(5);

impl Coordinator {
    /// Who is there and who owns the shard, as of the last heartbeat; tells every change.
    pub fn membership(&self) -> watch::Receiver<Membership> {
        self.membership.clone()
    }

    /// This run, among the members.
    pub fn id(&self) -> Uuid {
        self.replica.id
    }

    /// Where this replica stands.
    pub fn standing(&self) -> Role {
        self.health.standing()
    }

    /// Looks soon who owns the shard, not only at the next heartbeat.
    pub fn look(&self) {
        self.nudge.look();
    }

    /// The others are told that this replica is going down; it takes nothing over any more.
    pub fn stopping(&self) {
        self.nudge.stopping();
    }

    /// This replica is going down.
    pub fn is_stopping(&self) -> bool {
        self.nudge.is_stopping()
    }

    /// Who would own the shard after this replica; `None`: nobody is ready to.
    pub fn successor(&self) -> Option<Member> {
        ownership::successor(&self.membership.borrow(), &self.replica)
    }

    /// Gives the shard to the youngest replica that is ready, if it is ours; to whom, if to anybody.
    pub async fn hand_over(&self) -> Option<Member> {
        let (to, handed) = oneshot::channel();
        // What was asked before is answered first; it does no harm when the database does not let it.
        let _ = tokio::time::timeout(QUIET, self.status()).await;
        let handed = async {
            self.wishes
                .send(OwnershipRequest::HandOver(to))
                .await
                .ok()?;
            handed.await.ok().flatten()
        };
        tokio::time::timeout(PATIENCE, handed).await.unwrap_or(None)
    }
}
