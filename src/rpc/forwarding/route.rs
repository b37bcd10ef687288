//! Where a call is answered: here, when this replica owns the shard, else at the owner, one hop away. And when it is worth
//! looking again.

use crate::rpc::{
    auth::{CALLER, NAMESPACE},
    errors::reason::Reason,
};
use crate::{
    backoff,
    coordinator::{Coordinator, Role},
    core::Caller,
    journal::Membership,
    peer::Peers,
};
use std::time::Duration;
use tonic::{
    Code, Request, Status,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};
use tonic_types::StatusExt;
use uuid::Uuid;

/// The longest wait before each look after the first one.
pub(crate) const LOOKS: [Duration; 3] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
];

/// The way to the owner.
#[derive(Clone)]
pub(crate) struct Route {
    coordinator: Coordinator,
    /// `None`: this server has no others.
    peers: Option<Peers>,
}

/// Where to.
pub(crate) enum Destination {
    /// This replica owns the shard, or is about to know.
    Here,
    /// Another one does.
    There(OwnerAddress),
    /// Nobody does, as far as is known.
    Nowhere,
}

/// The owner, as this replica knows it.
#[derive(Clone)]
pub(crate) struct OwnerAddress {
    pub channel: Channel,
    id: Uuid,
}

impl Route {
    /// By these channels.
    pub(crate) fn new(coordinator: Coordinator, peers: Option<Peers>) -> Route {
        Route { coordinator, peers }
    }

    /// There are other replicas to forward to.
    pub(crate) fn leads_anywhere(&self) -> bool {
        self.peers.is_some()
    }

    /// The other replicas that are there: the name of each, and the channel to it if it can be reached at all.
    pub(crate) fn others(&self) -> Vec<(String, Option<Channel>)> {
        let Some(peers) = &self.peers else {
            return Vec::new();
        };
        let membership = self.coordinator.membership();
        let others = membership
            .borrow()
            .members
            .clone()
            .into_iter()
            .filter(|member| member.id != self.coordinator.id());
        let channel = |address: &str| peers.channel(address).ok();
        others
            .map(|member| {
                (
                    member.name.to_string(),
                    member.address.as_deref().and_then(channel),
                )
            })
            .collect()
    }

    /// Where to now.
    pub(crate) fn way(&self) -> Destination {
        if self.coordinator.role() != Role::Standby {
            return Destination::Here;
        }
        let membership = self.coordinator.membership();
        let membership = membership.borrow();
        let owner = self.peers.as_ref().and_then(|peers| {
            let member = membership
                .owning()
                .filter(|member| member.id != self.coordinator.id())?;
            let channel = peers.channel(member.address.as_deref()?).ok()?;
            Some(OwnerAddress {
                channel,
                id: member.id,
            })
        });
        owner.map_or(Destination::Nowhere, Destination::There)
    }

    /// Another replica owns the shard, and can be reached as far as is known.
    pub(crate) fn leads_to_an_owner(&self) -> bool {
        matches!(self.way(), Destination::There(_))
    }

    /// Waits a moment before the next look, shorter when something changes.
    pub(crate) async fn look_again(&self, longest: Duration) {
        let mut membership = self.coordinator.membership();
        membership.mark_unchanged();
        self.coordinator.refresh_membership();
        let wait = backoff::jittered(longest);
        // Without others nobody would change it.
        let _ = tokio::time::timeout(wait, membership.changed()).await;
    }

    /// Resolves when another one than `owner` owns the shard.
    pub(crate) async fn replaced(&self, owner: &OwnerAddress) {
        let mut membership = self.coordinator.membership();
        let another = |known: &Membership| known.owner.is_some_and(|id| id != owner.id);
        if membership.wait_for(another).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Says who calls, to the replica that answers.
pub(crate) fn envelope<T>(message: T, caller: &Caller) -> Result<Request<T>, Status> {
    let mut request = Request::new(message);
    let metadata = request.metadata_mut();
    metadata.insert(CALLER, value(&caller.name)?);
    metadata.insert(NAMESPACE, value(&caller.namespace.0)?);
    Ok(request)
}

pub(crate) fn value(text: &str) -> Result<MetadataValue<Ascii>, Status> {
    text.parse()
        .map_err(|_| Status::internal("the name of the caller cannot be forwarded"))
}

/// The call had no effect where it was sent, and may have one elsewhere.
pub(crate) fn is_not_owner(status: &Status) -> bool {
    status.code() == Code::Unavailable
        && status
            .get_error_details()
            .error_info()
            .is_some_and(|info| info.reason == Reason::NOT_OWNER.as_str())
}

/// The connection broke, or the shard changed hands meanwhile: nobody knows whether the call had an effect.
pub(crate) fn is_unknown(status: &Status) -> bool {
    match status.get_error_details().error_info() {
        Some(info) => info.reason == Reason::OWNER_CHANGED.as_str(),
        None => matches!(
            status.code(),
            Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled
        ),
    }
}
