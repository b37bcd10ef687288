//! Calls of ResourceService.

use crate::{
    Client, Hold, ResourceStream,
    api::{self, manage_claims_request::Kind as Call, manage_claims_response::Kind as Answer},
    calls::method_at,
    claim::ClaimStream,
    claim_calls::{Answers, Opening, Reply},
    error::{Effect, Error, Result},
    servers::Pick,
};
use prost::Message;
use std::sync::Arc;
use tonic::Status;

/// Bytes of a call about claims. A larger one would be refused on the stream.
const LARGEST: usize = 60 << 10;

impl Client {
    /// Takes a resource for itself, as soon as that is possible, and keeps it until the [`Hold`] is
    /// released, dropped or lost.
    ///
    /// ```no_run
    /// # async fn example(client: rallypoint_client::Client) -> rallypoint_client::Result<()> {
    /// let hold = client.acquire("orders").await?;
    /// println!("the fencing token is {}", hold.token());
    /// hold.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(&self, resource: impl Into<String>) -> Result<Hold> {
        let exclusive = api::ResourceUse {
            name: resource.into(),
            mode: api::ResourceMode::Exclusive.into(),
            permits: 0,
        };
        self.acquire_as(api::AcquireRequest {
            resources: vec![exclusive],
            ..api::AcquireRequest::default()
        })
        .await
    }

    /// As [`Client::acquire`], of several resources or as a reader. Fails with `CLAIM_ENDED` when
    /// the claim has waited for as long as it was to wait, an operator has ended it, or its grant
    /// is noticed too late ([`Hold::of`]).
    pub async fn acquire_as(&self, request: api::AcquireRequest) -> Result<Hold> {
        let mut claim = self.claim(request).await?;
        while !claim.is_granted() && claim.next().await?.is_some() {}
        Hold::of(claim).await
    }

    /// Claims resources, and tells how the claim fares. Once it is granted, [`Hold::of`] keeps it.
    pub async fn claim(&self, request: api::AcquireRequest) -> Result<ClaimStream> {
        let mut request = request;
        // A process that is suspended must not keep others waiting.
        request.renewed_by_caller = true;
        let is_new = request.request_id.is_empty() && self.request_id.is_none();
        if request.request_id.is_empty() {
            request.request_id = self.request_id();
        }
        let id = request.request_id.clone();
        let opened = ClaimStream::open(self.clone(), request, is_new).await;
        opened.map_err(|error| error.under(id))
    }

    /// Claims resources if they can be had at once. The hold is to be renewed by [`Client::renew`].
    /// The claim may have ended by the time the answer comes: look at its state.
    pub async fn try_acquire(
        &self,
        mut request: api::TryAcquireRequest,
    ) -> Result<api::TryAcquireResponse> {
        if request.request_id.is_empty() {
            request.request_id = self.request_id();
        }
        let answer = |answer| match answer {
            Answer::TryAcquire(response) => Some(response),
            _ => None,
        };
        let id = request.request_id.clone();
        let answered = self.claim_call("TryAcquire", request, Call::TryAcquire, answer);
        answered.await.map_err(|error| error.under(id))
    }

    /// Keeps a claim for another lease. `token`: of the hold; 0: it waits.
    pub async fn renew(&self, claim: i64, token: i64) -> Result<api::Claim> {
        let request = api::RenewRequest { claim, token };
        let answer = |answer| match answer {
            Answer::Renew(response) => Some(response),
            _ => None,
        };
        let renewed = self
            .claim_call("Renew", request, Call::Renew, answer)
            .await?;
        Ok(renewed.claim.unwrap_or_default())
    }

    /// Gives a hold back, or with token 0 withdraws a claim that waits.
    pub async fn release_claim(&self, claim: i64, token: i64) -> Result<api::ReleaseResponse> {
        let request = api::ReleaseRequest { claim, token };
        let answer = |answer| match answer {
            Answer::Release(response) => Some(response),
            _ => None,
        };
        self.claim_call("Release", request, Call::Release, answer)
            .await
    }

    /// Ends a claim of somebody else, for the record with a reason.
    pub async fn force_release(
        &self,
        claim: i64,
        reason: impl Into<String>,
    ) -> Result<api::ForceReleaseResponse> {
        let reason = reason.into();
        let request = api::ForceReleaseRequest { claim, reason };
        self.resource_call("ForceRelease", request).await
    }

    /// A claim, open or ended.
    pub async fn get_claim(&self, claim: i64) -> Result<api::Claim> {
        let request = api::GetClaimRequest { claim };
        let known: api::GetClaimResponse = self.resource_call("GetClaim", request).await?;
        Ok(known.claim.unwrap_or_default())
    }

    /// Defines a resource, or a pattern of names.
    pub async fn create_resource(
        &self,
        request: api::CreateResourceRequest,
    ) -> Result<api::CreateResourceResponse> {
        self.resource_call("CreateResource", request).await
    }

    /// Changes settings of a resource.
    pub async fn update_resource(
        &self,
        request: api::UpdateResourceRequest,
    ) -> Result<api::UpdateResourceResponse> {
        self.resource_call("UpdateResource", request).await
    }

    /// A resource with its holds and its queue.
    pub async fn get_resource(
        &self,
        request: api::GetResourceRequest,
    ) -> Result<api::GetResourceResponse> {
        self.resource_call("GetResource", request).await
    }

    /// Follows a resource: it is told whenever it has changed, until it is deleted.
    pub async fn watch_resource(&self, name: impl Into<String>) -> Result<ResourceStream> {
        ResourceStream::open(self.clone(), name.into()).await
    }

    /// One page of the resources of the caller's namespace, by name.
    pub async fn resources(
        &self,
        request: api::ListResourcesRequest,
    ) -> Result<api::ListResourcesResponse> {
        self.resource_call("ListResources", request).await
    }

    /// Deletes a resource that nobody uses.
    pub async fn delete_resource(&self, name: impl Into<String>) -> Result<()> {
        let request = api::DeleteResourceRequest { name: name.into() };
        let _: api::DeleteResourceResponse = self.resource_call("DeleteResource", request).await?;
        Ok(())
    }

    /// Makes a claim. Returns what tells of it, and what that has told first.
    pub(crate) async fn open_claim(
        &self,
        request: api::AcquireRequest,
    ) -> Result<(Pick, Answers, api::AcquireResponse)> {
        if request.encoded_len() > LARGEST {
            let message = format!("a claim is at most {} KiB", LARGEST >> 10);
            return Err(Status::invalid_argument(message).into());
        }
        let made = async {
            let call = Call::Acquire(request);
            let (pick, mut answers) = self.claims.make(|| self.opening(), call).await;
            let first = self.claim_update(pick, &mut answers).await?;
            Ok((pick, answers, first))
        };
        self.in_time(made).await
    }

    fn opening(&self) -> Opening {
        let (pick, channel) = self.servers.pick();
        let request = self.request(());
        Opening {
            pick,
            channel,
            request,
        }
    }

    /// What a claim is told next.
    pub(crate) async fn claim_update(
        &self,
        pick: Pick,
        answers: &mut Answers,
    ) -> Result<api::AcquireResponse> {
        match self.claim_answer(pick, answers).await? {
            Answer::Acquire(update) => Ok(update),
            _ => Err(Status::internal("the answer to another call").into()),
        }
    }

    async fn claim_answer(&self, pick: Pick, answers: &mut Answers) -> Result<Answer> {
        match answers.next().await {
            Some(Reply::Answer(answer)) => Ok(*answer),
            Some(Reply::Refused(status)) => Err(self.refused(pick, answers, *status)),
            Some(Reply::Ended { status, was_open }) => {
                let mut failed = self.failed(pick, *status);
                if was_open {
                    failed.effect = Some(Effect::Unknown);
                }
                Err(failed)
            }
            None => Err(Status::unavailable("the stream ended without a reason").into()),
        }
    }

    /// The error of a call that was refused on a stream. Its server may refuse all of them while
    /// the stream stays open, so it is left once another server is in use.
    fn refused(&self, pick: Pick, answers: &Answers, status: Status) -> Error {
        let refused = Error::from(status.clone());
        // One that is overloaded refuses some, and would get all of them once more.
        if !refused.is_of_the_server() || refused.is("OVERLOADED") {
            return refused;
        }
        let mut failed = self.failed(pick, status.clone());
        // The owner says when; through another server that is no sooner.
        failed.retry_after = refused.retry_after.or(failed.retry_after);
        if self.servers.pick().0 != pick {
            self.claims.leave(answers, &status);
        }
        failed
    }

    /// A call that is made on the stream of claims while there is one, else by itself.
    async fn claim_call<T, R>(
        &self,
        rpc: &'static str,
        request: T,
        call: fn(T) -> Call,
        answer: fn(Answer) -> Option<R>,
    ) -> Result<R>
    where
        T: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        let request = &request;
        let once = move || async move {
            if !self.claims.is_open() || request.encoded_len() > LARGEST {
                let method = method_at(path(rpc))?;
                return self.attempt(method, Arc::new(request.clone())).await;
            }
            let (pick, mut answers) = self
                .claims
                .make(|| self.opening(), call(request.clone()))
                .await;
            let answered = answer(self.claim_answer(pick, &mut answers).await?);
            answered.ok_or_else(|| Status::internal("the answer to another call").into())
        };
        self.repeated(false, once).await
    }

    async fn resource_call<T, R>(&self, rpc: &'static str, request: T) -> Result<R>
    where
        T: Message + 'static,
        R: Message + Default + 'static,
    {
        self.call(path(rpc), request).await
    }
}

fn path(rpc: &str) -> String {
    format!("/rallypoint.v1.ResourceService/{rpc}")
}
