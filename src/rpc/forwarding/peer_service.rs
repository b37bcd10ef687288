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
use tonic::{Code, Request, Response, Status};

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
        let cut_off = self.coordinator.replica_status().cut_off;
        Ok(Response::new(PingResponse { cut_off }))
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

/// Whether calls can be forwarded to `owner`: it answers on the channel that they take, and serves
/// callers. The error says why not.
pub(crate) async fn reach(owner: &OwnerAddress) -> Result<(), String> {
    let mut client = PeerServiceClient::new(owner.channel.clone());
    match tokio::time::timeout(NOTIFY_TIMEOUT, client.ping(PingRequest {})).await {
        Ok(Ok(answer)) if answer.get_ref().cut_off => {
            Err("it does not reach the coordination database".into())
        }
        Ok(Ok(_)) => Ok(()),
        // It is of a version that does not know the call.
        Ok(Err(error)) if error.code() == Code::Unimplemented => Ok(()),
        Ok(Err(error)) => Err(root_cause(&error)),
        Err(_) => Err("it does not answer".into()),
    }
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
