//! The unary calls of ResourceService: what each does here, and by its own name the call that sends
//! it to the owner.

use super::{
    ClaimNo, Proof, ResourceReply, ResourceVerb, Resources, check_token, convert, has_ended,
    mismatched, token, validate,
};
use crate::{core::Caller, rpc::forwarding::unary::unary_calls};
use rallypoint_client::api::{self, resource_service_client::ResourceServiceClient};
use std::sync::Arc;
use tonic::Status;

unary_calls! {
    Resources, ResourceServiceClient:
    create_resource(CreateResourceRequest) -> CreateResourceResponse, of "resource" name;
    update_resource(UpdateResourceRequest) -> UpdateResourceResponse, of "resource" name;
    get_resource(GetResourceRequest) -> GetResourceResponse;
    list_resources(ListResourcesRequest) -> ListResourcesResponse;
    delete_resource(DeleteResourceRequest) -> DeleteResourceResponse, of "resource" name, deletes name;
    try_acquire(TryAcquireRequest) -> TryAcquireResponse, creates by request_id;
    get_claim(GetClaimRequest) -> GetClaimResponse;
    renew(RenewRequest) -> RenewResponse;
    release(ReleaseRequest) -> ReleaseResponse;
    force_release(ForceReleaseRequest) -> ForceReleaseResponse, of "claim" claim since reason;
}

impl Resources {
    async fn create_resource(
        &self,
        caller: Caller,
        request: &api::CreateResourceRequest,
    ) -> Result<api::CreateResourceResponse, Status> {
        let verb = validate::create_resource(request)?;
        let (view, changed) = self.resource(caller, verb).await?;
        Ok(api::CreateResourceResponse {
            resource: Some(convert::resource(&view)),
            already_exists: !changed,
        })
    }

    async fn update_resource(
        &self,
        caller: Caller,
        request: &api::UpdateResourceRequest,
    ) -> Result<api::UpdateResourceResponse, Status> {
        let verb = validate::update_resource(request)?;
        let (view, _) = self.resource(caller, verb).await?;
        Ok(api::UpdateResourceResponse {
            resource: Some(convert::resource(&view)),
        })
    }

    async fn get_resource(
        &self,
        caller: Caller,
        request: &api::GetResourceRequest,
    ) -> Result<api::GetResourceResponse, Status> {
        let verb = validate::get_resource(request)?;
        let (view, _) = self.resource(caller, verb).await?;
        Ok(api::GetResourceResponse {
            resource: Some(convert::resource(&view)),
            holds: convert::claims(&view.holders),
            queue: convert::claims(&view.queue),
            waiting_tasks: convert::waiting_tasks(&view),
        })
    }

    async fn list_resources(
        &self,
        caller: Caller,
        request: &api::ListResourcesRequest,
    ) -> Result<api::ListResourcesResponse, Status> {
        let verb = validate::list_resources(request)?;
        let (views, has_more) = match self.ask(caller, verb).await? {
            ResourceReply::Resources(views, has_more) => (views, has_more),
            other => return Err(mismatched(other)),
        };
        let last = views.last().filter(|_| has_more);
        Ok(api::ListResourcesResponse {
            next_page_token: last.map_or_else(String::new, |view| view.name.to_string()),
            resources: views.iter().map(convert::resource).collect(),
        })
    }

    async fn delete_resource(
        &self,
        caller: Caller,
        request: &api::DeleteResourceRequest,
    ) -> Result<api::DeleteResourceResponse, Status> {
        let verb = validate::delete_resource(request)?;
        self.resource(caller, verb).await?;
        Ok(api::DeleteResourceResponse {})
    }

    async fn try_acquire(
        &self,
        caller: Caller,
        request: &api::TryAcquireRequest,
    ) -> Result<api::TryAcquireResponse, Status> {
        let request = validate::acquire_at_once(request);
        let spec = Arc::new(validate::acquire(&caller, &request)?);
        let verb = ResourceVerb::Acquire {
            spec,
            if_free: true,
        };
        match self.ask(caller, verb).await? {
            ResourceReply::Claim(view, _) => Ok(api::TryAcquireResponse {
                claim: Some(convert::claim(&view)),
                in_the_way: Vec::new(),
            }),
            ResourceReply::NotFree(holders) => Ok(api::TryAcquireResponse {
                claim: None,
                in_the_way: holders.iter().map(convert::holder).collect(),
            }),
            other => Err(mismatched(other)),
        }
    }

    async fn get_claim(
        &self,
        caller: Caller,
        request: &api::GetClaimRequest,
    ) -> Result<api::GetClaimResponse, Status> {
        let no = ClaimNo(request.claim);
        let looked = self.known_claim(caller, no, ResourceVerb::Look(no), |_| Ok(()));
        let (claim, _) = looked.await?;
        Ok(api::GetClaimResponse { claim: Some(claim) })
    }

    async fn renew(
        &self,
        caller: Caller,
        request: &api::RenewRequest,
    ) -> Result<api::RenewResponse, Status> {
        let no = ClaimNo(request.claim);
        let verb = ResourceVerb::Renew {
            claim: no,
            proof: Proof::Token(token(request.token)),
        };
        let (claim, _) = self.known_claim(caller, no, verb, has_ended).await?;
        Ok(api::RenewResponse { claim: Some(claim) })
    }

    async fn release(
        &self,
        caller: Caller,
        request: &api::ReleaseRequest,
    ) -> Result<api::ReleaseResponse, Status> {
        let (no, token) = (ClaimNo(request.claim), token(request.token));
        let verb = ResourceVerb::Release { claim: no, token };
        let released = self.known_claim(caller, no, verb, |stored| check_token(stored, token));
        let (claim, changed) = released.await?;
        Ok(api::ReleaseResponse {
            claim: Some(claim),
            already_ended: !changed,
        })
    }

    async fn force_release(
        &self,
        caller: Caller,
        request: &api::ForceReleaseRequest,
    ) -> Result<api::ForceReleaseResponse, Status> {
        let reason = validate::operator_reason(&request.reason)?;
        let (no, by) = (ClaimNo(request.claim), caller.name.clone());
        let verb = ResourceVerb::ForceRelease {
            claim: no,
            reason: reason.clone(),
        };
        let (claim, changed) = self.known_claim(caller, no, verb, |_| Ok(())).await?;
        if changed {
            tracing::warn!(claim = no.0, %by, %reason, "an operator ends a claim");
        }
        Ok(api::ForceReleaseResponse {
            claim: Some(claim),
            already_ended: !changed,
        })
    }
}
