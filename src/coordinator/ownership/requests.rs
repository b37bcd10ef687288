//! What callers may ask of the ownership: who owns the shard, who would be next, and to hand it
//! over.

use super::OwnershipRequest;
use crate::{
    coordinator::{caller_handle::Coordinator, ownership, ownership::role::Role},
    core::Epoch,
    hub::session::machine::Owner,
    journal::{Member, Membership},
};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use uuid::Uuid;

/// How long commands that were sent before a handover may take; it happens regardless.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the answer to a request to hand over is waited for.
const HANDOVER_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

impl Coordinator {
    /// The replicas and the owner of the shard, as of the last heartbeat, or as the owner has said
    /// itself since. Changes are notified.
    pub fn membership(&self) -> watch::Receiver<Membership> {
        self.ownership.membership.subscribe()
    }

    /// Identifies this process among the members.
    pub fn id(&self) -> Uuid {
        self.ownership.replica.id
    }

    /// Where to say that nobody answers at the address of an owner any more.
    pub fn gone_owners(&self) -> mpsc::Sender<Owner> {
        self.ownership.gone_owners.clone()
    }

    pub fn role(&self) -> Role {
        self.state.role()
    }

    /// Has the next heartbeat run soon, so that the membership is up to date.
    pub fn refresh_membership(&self) {
        self.ownership.heartbeat.fire();
    }

    /// Tells the other replicas that this one is going down. From now on it does not take the shard
    /// over.
    pub fn announce_stopping(&self) {
        self.ownership.heartbeat.announce_stopping();
    }

    /// Whether this replica is going down.
    pub fn is_stopping(&self) -> bool {
        self.ownership.heartbeat.is_stopping()
    }

    /// Who would own the shard after this replica; `None`: no other replica is ready.
    pub fn successor(&self) -> Option<Member> {
        let handle = &self.ownership;
        ownership::successor(&handle.membership.borrow(), &handle.replica)
    }

    /// Another replica has taken the shard over, and says so itself: the database, which would say
    /// it, is not reached from here.
    pub fn superseded(&self, owner: Uuid, epoch: Epoch) {
        self.ownership.membership.send_if_modified(|known| {
            let is_later = epoch > known.epoch;
            if is_later {
                (known.epoch, known.owner) = (epoch, Some(owner));
            }
            is_later
        });
    }

    /// Hands the shard over to the youngest replica that is ready, if this one owns it. Returns who
    /// got it.
    pub async fn hand_over(&self) -> Option<Member> {
        let (to, handed) = oneshot::channel();
        // Commands sent before are answered first; when the database does not allow it, no harm is
        // done.
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, self.status()).await;
        let handover = async {
            let request = OwnershipRequest::HandOver(to);
            self.ownership.requests.send(request).await.ok()?;
            handed.await.ok().flatten()
        };
        tokio::time::timeout(HANDOVER_ANSWER_TIMEOUT, handover)
            .await
            .unwrap_or(None)
    }
}
