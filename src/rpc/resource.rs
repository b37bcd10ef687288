//! ResourceService. Any replica takes a call, and the owner of the shard answers it: `calls` lists
//! the unary calls, `claim_stream` is Acquire, `claims_stream` ManageClaims, `watch_stream`
//! WatchResource, and `owner_stream` what they have in common.

mod calls;
mod claim_stream;
mod claims_stream;
mod owner_stream;
mod watch_stream;

use super::{
    auth::Auth,
    convert, errors,
    forwarding::{
        route::Route,
        unary::{Endpoint, Unary},
    },
    validate::resource as validate,
};
use crate::{
    coordinator::{CallError, Coordinator},
    core::{
        Caller, ClaimNo, ClaimState, ClaimView, Proof, RecoveredClaim, Reject, Reply,
        ResourceReject, ResourceReply, ResourceVerb, ResourceView, Token,
    },
    journal::Reader,
    metrics::Metrics,
};
use convert::Messages;
use rallypoint_client::api::{self, resource_service_server::ResourceService};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

/// The service of this replica, or of its peer port.
#[derive(Clone)]
pub(super) struct Resources {
    pub coordinator: Coordinator,
    /// Reads the journal.
    pub reader: Reader,
    pub auth: Auth,
    /// Cancelled when the server shuts down: streams end.
    pub stopping: CancellationToken,
    /// Counts the calls of a stream that fail.
    pub metrics: Metrics,
    /// Route to the owner; `None`: this replica answers itself, as the owner does another one.
    pub route: Option<Route>,
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl ResourceService for Resources {
    type AcquireStream = Messages<api::AcquireResponse>;
    type ManageClaimsStream = Messages<api::ManageClaimsResponse>;
    type WatchResourceStream = Messages<api::WatchResourceResponse>;

    async fn create_resource(
        &self,
        request: Request<api::CreateResourceRequest>,
    ) -> Answer<api::CreateResourceResponse> {
        self.answer(request).await
    }

    async fn update_resource(
        &self,
        request: Request<api::UpdateResourceRequest>,
    ) -> Answer<api::UpdateResourceResponse> {
        self.answer(request).await
    }

    async fn get_resource(
        &self,
        request: Request<api::GetResourceRequest>,
    ) -> Answer<api::GetResourceResponse> {
        self.answer(request).await
    }

    async fn list_resources(
        &self,
        request: Request<api::ListResourcesRequest>,
    ) -> Answer<api::ListResourcesResponse> {
        self.answer(request).await
    }

    async fn delete_resource(
        &self,
        request: Request<api::DeleteResourceRequest>,
    ) -> Answer<api::DeleteResourceResponse> {
        self.answer(request).await
    }

    async fn acquire(
        &self,
        request: Request<api::AcquireRequest>,
    ) -> Answer<Messages<api::AcquireResponse>> {
        let caller = self.auth.caller(&request)?;
        let messages = self.stream_claim(caller, request.into_inner());
        Ok(Response::new(messages.await?))
    }

    async fn manage_claims(
        &self,
        request: Request<Streaming<api::ManageClaimsRequest>>,
    ) -> Answer<Messages<api::ManageClaimsResponse>> {
        let caller = self.auth.caller(&request)?;
        Ok(Response::new(self.manage(caller, request.into_inner())))
    }

    async fn watch_resource(
        &self,
        request: Request<api::WatchResourceRequest>,
    ) -> Answer<Messages<api::WatchResourceResponse>> {
        let caller = self.auth.caller(&request)?;
        let request = request.into_inner();
        Ok(Response::new(self.stream_states(caller, request).await?))
    }

    async fn try_acquire(
        &self,
        request: Request<api::TryAcquireRequest>,
    ) -> Answer<api::TryAcquireResponse> {
        self.answer(request).await
    }

    async fn get_claim(
        &self,
        request: Request<api::GetClaimRequest>,
    ) -> Answer<api::GetClaimResponse> {
        self.answer(request).await
    }

    async fn renew(&self, request: Request<api::RenewRequest>) -> Answer<api::RenewResponse> {
        self.answer(request).await
    }

    async fn release(&self, request: Request<api::ReleaseRequest>) -> Answer<api::ReleaseResponse> {
        self.answer(request).await
    }

    async fn force_release(
        &self,
        request: Request<api::ForceReleaseRequest>,
    ) -> Answer<api::ForceReleaseResponse> {
        self.answer(request).await
    }
}

impl Resources {
    async fn answer<C: Unary<Resources>>(&self, request: Request<C>) -> Answer<C::Response> {
        self.endpoint().answer(request).await
    }

    /// A call of a caller who is known, wherever the owner is.
    async fn answer_to<C: Unary<Resources>>(
        &self,
        caller: Caller,
        call: C,
    ) -> Result<C::Response, Status> {
        self.endpoint().answer_to(caller, Arc::new(call)).await
    }

    fn endpoint(&self) -> Endpoint<'_, Resources> {
        Endpoint {
            here: self,
            auth: &self.auth,
            route: self.route.as_ref(),
            stopping: &self.stopping,
        }
    }

    async fn ask(&self, caller: Caller, verb: ResourceVerb) -> Result<ResourceReply, Status> {
        let replied = self.coordinator.resource(caller, verb).await;
        replied.map_err(errors::resource::call)
    }

    /// Verbs that are answered with the resource, and whether they have changed something.
    async fn resource(
        &self,
        caller: Caller,
        verb: ResourceVerb,
    ) -> Result<(ResourceView, bool), Status> {
        match self.ask(caller, verb).await? {
            ResourceReply::Resource(view, changed) => Ok((view, changed)),
            other => Err(mismatched(other)),
        }
    }

    /// Verbs that are answered with the claim, and whether they have changed something.
    async fn claim(&self, caller: Caller, verb: ResourceVerb) -> Result<(ClaimView, bool), Status> {
        match self.ask(caller, verb).await? {
            ResourceReply::Claim(view, changed) => Ok((view, changed)),
            other => Err(mismatched(other)),
        }
    }

    /// The same of a claim that may have ended so long ago that only the journal knows it: then
    /// `ended` says what that leads to.
    async fn known_claim(
        &self,
        caller: Caller,
        no: ClaimNo,
        verb: ResourceVerb,
        ended: impl FnOnce(&RecoveredClaim) -> Result<(), ResourceReject>,
    ) -> Result<(api::Claim, bool), Status> {
        let namespace = caller.namespace.clone();
        let error = match self.coordinator.resource(caller, verb).await {
            Ok(ResourceReply::Claim(view, changed)) => return Ok((convert::claim(&view), changed)),
            Ok(other) => return Err(mismatched(other)),
            Err(error) => error,
        };
        let unknown = CallError::Rejected(Reject::Resource(ResourceReject::UnknownClaim));
        if error != unknown {
            return Err(errors::resource::call(error));
        }
        let stored = self.reader.claim(no).await.map_err(errors::journal)?;
        let is_over = |claim: &RecoveredClaim| matches!(claim.state(), ClaimState::Ended { .. });
        let stored = stored.filter(|claim| claim.spec.namespace == namespace && is_over(claim));
        let Some(stored) = stored else {
            return Err(errors::resource::call(error));
        };
        ended(&stored).map_err(errors::resource::rejected)?;
        Ok((convert::stored_claim(&stored), false))
    }
}

/// The core answered something else than was asked.
fn mismatched(reply: ResourceReply) -> Status {
    errors::mismatched_reply(&Reply::Resource(Box::new(reply)))
}

fn token(number: i64) -> Option<Token> {
    (number != 0).then_some(Token(number))
}

/// A hold that ended long ago was given back with its own token.
fn check_token(claim: &RecoveredClaim, given: Option<Token>) -> Result<(), ResourceReject> {
    match claim.granted.map(|(token, _)| token) == given {
        true => Ok(()),
        false => Err(ResourceReject::WrongToken),
    }
}

fn has_ended(claim: &RecoveredClaim) -> Result<(), ResourceReject> {
    Err(ResourceReject::ClaimEnded(Box::new(claim.state())))
}
