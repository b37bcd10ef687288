//! Where a call is handled: on this replica while it owns the shard, else on the owner, one hop
//! away. Also decides which errors make it worth asking for the owner again.

use crate::{
    backoff,
    coordinator::{Admission, Capacity, Coordinator, Permit, Role},
    core::Caller,
    journal::{Member, Membership},
    peer::Peers,
    rpc::{
        auth::{CALLER, NAMESPACE},
        errors::{self, reason::Reason},
        traceparent,
    },
};
use bytes::Bytes;
use std::time::Duration;
use tonic::{
    Code, Request, Status,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};
use tonic_types::StatusExt;
use uuid::Uuid;

/// The longest wait for another owner before each further attempt.
pub(crate) const OWNER_WAITS: [Duration; 3] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
];

/// Streams that this replica has open at the owner, as many as the peer port takes on a connection.
/// A namespace has what it leaves free for others, and so has a caller of what its namespace has.
const MAX_STREAMS: usize = 65_536;

/// The destination to the owner.
#[derive(Clone)]
pub(crate) struct Route {
    coordinator: Coordinator,
    /// `None`: there are no other replicas.
    peers: Option<Peers>,
    streams: Admission,
}

/// The replica that handles a call.
pub(crate) enum Destination {
    /// This replica: it owns the shard or is about to find out.
    Local,
    /// Another one.
    Remote(OwnerAddress),
    /// No owner is known.
    Unknown,
}

/// The owner, as this replica knows it.
#[derive(Clone)]
pub(crate) struct OwnerAddress {
    pub channel: Channel,
    /// For calls with large messages.
    pub large_calls: Channel,
    /// For what stays open.
    pub streams: Channel,
    pub id: Uuid,
}

impl Route {
    pub(crate) fn new(coordinator: Coordinator, peers: Option<Peers>) -> Route {
        Route {
            coordinator,
            peers,
            streams: Admission::new(Capacity {
                calls: MAX_STREAMS,
                bytes: 0,
            }),
        }
    }

    /// The place of a stream at the owner. Fails when its caller has too many, or the namespace;
    /// one that goes on, as it was open here before, only when there is no place at all.
    pub(crate) fn stream_place(&self, caller: &Caller, goes_on: bool) -> Result<Permit, Status> {
        let place = match goes_on {
            false => self.streams.admit_caller(caller),
            true => self.streams.admit_beyond_share(caller),
        };
        place.map_err(errors::no_stream_room)
    }

    pub(crate) fn has_peers(&self) -> bool {
        self.peers.is_some()
    }

    /// Another server owns the shard, and this one was not started to have others.
    pub(crate) fn lacks_peers(&self) -> bool {
        let membership = self.coordinator.membership();
        let owner = membership.borrow().owner;
        self.peers.is_none() && owner.is_some_and(|id| id != self.coordinator.id())
    }

    /// The other live replicas, as of the last heartbeat, each with a channel unless it has no peer
    /// port.
    pub(crate) fn others(&self) -> Vec<(Member, Option<Channel>)> {
        let Some(peers) = &self.peers else {
            return Vec::new();
        };
        let membership = self.coordinator.membership();
        let members = membership.borrow().members.clone();
        let others = members.into_iter();
        let others = others.filter(|member| member.id != self.coordinator.id());
        let channel = |address: &str| peers.channel(address).ok();
        let with_channel = |member: Member| {
            let channel = member.address.as_deref().and_then(channel);
            (member, channel)
        };
        others.map(with_channel).collect()
    }

    /// The replica that handles a call now.
    pub(crate) fn destination(&self) -> Destination {
        if self.coordinator.role() != Role::Standby {
            return Destination::Local;
        }
        let membership = self.coordinator.membership();
        let membership = membership.borrow();
        let owner = self.peers.as_ref().and_then(|peers| {
            let member = membership
                .owning()
                .filter(|member| member.id != self.coordinator.id())?;
            let address = member.address.as_deref()?;
            Some(OwnerAddress {
                channel: peers.channel(address).ok()?,
                large_calls: peers.large_calls(address).ok()?,
                streams: peers.streams(address).ok()?,
                id: member.id,
            })
        });
        owner.map_or(Destination::Unknown, Destination::Remote)
    }

    /// Waits up to `longest` for a change of ownership before the next attempt.
    pub(crate) async fn wait_for_owner(&self, longest: Duration) {
        let mut membership = self.coordinator.membership();
        membership.mark_unchanged();
        self.coordinator.refresh_membership();
        let wait = backoff::jittered(longest);
        // The membership may never change, hence the timeout.
        let _ = tokio::time::timeout(wait, membership.changed()).await;
    }

    /// Resolves when another replica than `owner` owns the shard.
    pub(crate) async fn replaced(&self, owner: &OwnerAddress) {
        let mut membership = self.coordinator.membership();
        let another = |known: &Membership| known.owner.is_some_and(|id| id != owner.id);
        if membership.wait_for(another).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A request with its caller in the metadata, for the replica that handles it.
pub(crate) fn with_caller<T>(message: T, caller: &Caller) -> Result<Request<T>, Status> {
    let mut request = Request::new(message);
    let metadata = request.metadata_mut();
    metadata.insert(CALLER, value(&caller.name)?);
    metadata.insert(NAMESPACE, value(&caller.namespace.0)?);
    traceparent::pass_on(metadata);
    Ok(request)
}

pub(crate) fn value(text: &str) -> Result<MetadataValue<Ascii>, Status> {
    text.parse()
        .map_err(|_| Status::internal("the name of the caller cannot be forwarded"))
}

/// The replica refused the call because it does not own the shard: it had no effect.
pub(crate) fn is_not_owner(status: &Status) -> bool {
    status.code() == Code::Unavailable
        && status
            .get_error_details()
            .error_info()
            .is_some_and(|info| info.reason == Reason::NotOwner.as_str_name())
}

/// The error of a stream for its caller, who must not see one of the channel to the owner: a stream
/// that could not be opened there has had no effect.
pub(crate) fn stream_error(status: Status) -> Status {
    if is_unknown(&status) {
        errors::not_owner()
    } else {
        status_alone(status)
    }
}

/// What the owner answered, without the headers of its answer: those are this replica's own.
pub(crate) fn status_alone(status: Status) -> Status {
    Status::with_details(
        status.code(),
        status.message(),
        Bytes::copy_from_slice(status.details()),
    )
}

/// The connection broke or ownership changed during the call, which may have had an effect. What
/// carries no reason of ours was said by the connection; that it calms down is RESOURCE_EXHAUSTED.
pub(crate) fn is_unknown(status: &Status) -> bool {
    match status.get_error_details().error_info() {
        Some(info) => info.reason == Reason::OwnerChanged.as_str_name(),
        None => matches!(
            status.code(),
            Code::Unavailable
                | Code::Unknown
                | Code::Internal
                | Code::Cancelled
                | Code::ResourceExhausted
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_see_no_error_of_the_connection_between_replicas() {
        for code in [Code::Unavailable, Code::Internal, Code::ResourceExhausted] {
            let status = Status::new(code, "h2 protocol error: http2 error");
            assert!(is_unknown(&status), "{code:?}");
            assert!(is_not_owner(&stream_error(status)), "{code:?}");
        }
        assert!(!is_unknown(&errors::not_owner()), "a reason of ours");
    }
}
