//! PeerService: what replicas notify each other of, whether they reach each other, and what each of
//! them runs of a task.

use super::route::OwnerAddress;
use crate::{
    coordinator::Coordinator,
    core::{Attempt, Epoch, Seq, TaskId},
    journal::Member,
    peer::Peers,
    rpc::status::executions::StatusSource,
};
use futures_util::future::join_all;
use rallypoint_client::api::peer::{
    ExplainAttemptRequest, ExplainAttemptResponse, PingRequest, PingResponse, PollOwnershipRequest,
    PollOwnershipResponse, peer_service_client::PeerServiceClient,
    peer_service_server::PeerService,
};
use std::time::Duration;
use tonic::{Code, Request, Response, Status, transport::Channel};
use uuid::Uuid;

/// How long a replica may take to answer.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);

/// The service of this replica.
#[derive(Clone)]
pub(crate) struct Peering {
    pub coordinator: Coordinator,
    /// What the executor runs.
    pub source: StatusSource,
}

#[tonic::async_trait]
impl PeerService for Peering {
    async fn poll_ownership(
        &self,
        _: Request<PollOwnershipRequest>,
    ) -> Result<Response<PollOwnershipResponse>, Status> {
        self.coordinator.refresh_membership();
        Ok(Response::new(PollOwnershipResponse {}))
    }

    async fn explain_attempt(
        &self,
        request: Request<ExplainAttemptRequest>,
    ) -> Result<Response<ExplainAttemptResponse>, Status> {
        let request = request.into_inner();
        let answer = match request.handle.parse() {
            Ok(handle) => {
                let seq = Seq(request.seq);
                (self.source.attempt)(TaskId { handle, seq }, Attempt(request.attempt)).await
            }
            Err(_) => ExplainAttemptResponse::default(),
        };
        Ok(Response::new(answer))
    }

    async fn ping(&self, _: Request<PingRequest>) -> Result<Response<PingResponse>, Status> {
        let status = self.coordinator.replica_status();
        let is_owner = status.role.is_owner();
        Ok(Response::new(PingResponse {
            cut_off: status.cut_off,
            owned_epoch: if is_owner { status.epoch.0 } else { 0 },
            stands_by: !is_owner,
            replica: self.coordinator.id().to_string(),
        }))
    }
}

/// Has the replica at `address` read at once who owns the shard. Best effort: it would at its next
/// heartbeat anyway.
pub(crate) async fn request_poll(peers: &Peers, address: &str) {
    let Ok(channel) = peers.channel(address) else {
        return;
    };
    let mut client = PeerServiceClient::new(channel);
    match tokio::time::timeout(
        NOTIFY_TIMEOUT,
        client.poll_ownership(PollOwnershipRequest {}),
    )
    .await
    {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            tracing::debug!(%address, %error, "a replica could not be notified of the handover")
        }
        Err(_) => tracing::debug!(%address, "a replica did not answer in time"),
    }
}

/// Why no call can be forwarded to an owner.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unreached {
    /// It does not own the shard any more.
    StandsBy,
    /// It does not answer on the channel that calls take, or serves no callers; for people.
    Failed(String),
}

/// Whether calls can be forwarded to `owner`.
pub(crate) async fn reach(owner: &OwnerAddress) -> Result<(), Unreached> {
    let mut client = PeerServiceClient::new(owner.channel.clone());
    match tokio::time::timeout(NOTIFY_TIMEOUT, client.ping(PingRequest {})).await {
        Ok(Ok(answer)) if answer.get_ref().cut_off => {
            let why = "it does not reach the coordination database";
            Err(Unreached::Failed(why.into()))
        }
        Ok(Ok(answer)) if answer.get_ref().stands_by => Err(Unreached::StandsBy),
        Ok(Ok(_)) => Ok(()),
        // It is of a version that does not know the call.
        Ok(Err(error)) if error.code() == Code::Unimplemented => Ok(()),
        Ok(Err(error)) => Err(Unreached::Failed(root_cause(&error))),
        Err(_) => Err(Unreached::Failed("it does not answer".into())),
    }
}

/// Which of these replicas owns the shard by now, as of an epoch after `epoch`, and the epoch.
pub(crate) async fn owner_after(
    epoch: Epoch,
    others: Vec<(Member, Option<Channel>)>,
) -> Option<(Uuid, Epoch)> {
    let asked = others.into_iter().map(|(member, channel)| async move {
        let mut client = PeerServiceClient::new(channel?);
        let answer = tokio::time::timeout(NOTIFY_TIMEOUT, client.ping(PingRequest {})).await;
        let answer = answer.ok()?.ok()?.into_inner();
        // Another process may have its address by now.
        let is_it = Uuid::try_parse(&answer.replica) == Ok(member.id);
        is_it.then_some((member.id, Epoch(answer.owned_epoch)))
    });
    let owners = join_all(asked).await.into_iter().flatten();
    let latest = owners.max_by_key(|(_, owned)| *owned);
    latest.filter(|(_, owned)| *owned > epoch)
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
