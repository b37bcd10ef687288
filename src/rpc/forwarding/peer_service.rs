//! PeerService: what replicas notify each other of, whether they reach each other, and what each of
//! them runs of a task.

use super::route::OwnerAddress;
use crate::{
    coordinator::Coordinator,
    core::{Attempt, Seq, TaskId},
    peer::Peers,
    rpc::status::executions::StatusSource,
};
use rallypoint_client::api::peer::{
    ExplainAttemptRequest, ExplainAttemptResponse, PingRequest, PingResponse, PollOwnershipRequest,
    PollOwnershipResponse, peer_service_client::PeerServiceClient,
    peer_service_server::PeerService,
};
use std::time::Duration;
use tokio::time::timeout;
use tonic::{Code, Request, Response, Status, transport::Channel};

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
    let asked = client.poll_ownership(PollOwnershipRequest {});
    match timeout(NOTIFY_TIMEOUT, asked).await {
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
    match ping(owner.channel.clone()).await {
        Some(Ok(answer)) if answer.cut_off => {
            let why = "it does not reach the coordination database";
            Err(Unreached::Failed(why.into()))
        }
        Some(Ok(answer)) if answer.stands_by => Err(Unreached::StandsBy),
        Some(Ok(_)) => Ok(()),
        // It is of a version that does not know the call.
        Some(Err(error)) if error.code() == Code::Unimplemented => Ok(()),
        Some(Err(error)) => Err(Unreached::Failed(root_cause(&error))),
        None => Err(Unreached::Failed("it does not answer".into())),
    }
}

/// What a replica says of itself; `None`: it does not answer in time.
pub(super) async fn ping(channel: Channel) -> Option<Result<PingResponse, Status>> {
    let mut client = PeerServiceClient::new(channel);
    let answer = timeout(NOTIFY_TIMEOUT, client.ping(PingRequest {})).await;
    answer.ok().map(|said| said.map(Response::into_inner))
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
