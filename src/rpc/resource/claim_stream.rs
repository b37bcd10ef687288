//! Acquire: a claim, and how it fares. The core is asked, which answers when the claim changes. A
//! caller whose stream ends continues it under its request id.

use super::{
    ClaimView, Messages, Proof, ResourceReply, ResourceVerb, Resources, convert, errors,
    mismatched, owner_stream::OwnStream, validate,
};
use crate::core::{Caller, ClaimPhase};
use rallypoint_client::api::{self, resource_service_client::ResourceServiceClient};
use std::{pin::Pin, sync::Arc, time::Duration};
use tonic::{Request, Response, Status, Streaming, transport::Channel};
use uuid::Uuid;

/// How often the place in line is looked at, by the place: up to 10, up to 1000, and behind.
const LOOKS: [(u64, Duration); 3] = [
    (10, Duration::from_secs(1)),
    (1_000, Duration::from_secs(5)),
    (u64::MAX, Duration::from_secs(30)),
];
/// How often a hold is looked at of which others are told first.
const LOOK_AT_HOLD: Duration = Duration::from_secs(5);

/// A claim of this replica's core.
struct OwnClaim {
    resources: Arc<Resources>,
    caller: Caller,
    view: ClaimView,
    renewed_by_caller: bool,
    is_shown: bool,
    /// Answered when the claim's phase changes.
    change: Option<Change>,
    /// Too many other streams wait for that: this one only looks.
    is_displaced: bool,
}

/// The claim, and whether it has changed.
type Change = Pin<Box<dyn Future<Output = Result<(ClaimView, bool), Status>> + Send>>;

impl Resources {
    /// Claims resources, wherever the owner is.
    pub(super) async fn stream_claim(
        &self,
        caller: Caller,
        mut request: api::AcquireRequest,
    ) -> Result<Messages<api::AcquireResponse>, Status> {
        // What is refused whoever owns the shard.
        validate::acquire(&caller, &request)?;
        if request.request_id.is_empty() {
            request.request_id = Uuid::now_v7().to_string();
        }
        self.open::<OwnClaim>(caller, request).await
    }
}

#[tonic::async_trait]
impl OwnStream for OwnClaim {
    type Request = api::AcquireRequest;
    type Message = api::AcquireResponse;

    async fn open(
        here: Arc<Resources>,
        caller: &Caller,
        request: &api::AcquireRequest,
    ) -> Result<OwnClaim, Status> {
        let spec = Arc::new(validate::acquire(caller, request)?);
        let verb = ResourceVerb::Acquire {
            spec,
            if_free: false,
        };
        let (view, _) = here.claim(caller.clone(), verb).await?;
        Ok(OwnClaim {
            resources: here,
            caller: caller.clone(),
            view,
            renewed_by_caller: request.renewed_by_caller,
            is_shown: false,
            change: None,
            is_displaced: false,
        })
    }

    async fn forward(
        mut owner: ResourceServiceClient<Channel>,
        request: Request<api::AcquireRequest>,
    ) -> Result<Response<Streaming<api::AcquireResponse>>, Status> {
        owner.acquire(request).await
    }

    async fn next(&mut self) -> Option<Result<api::AcquireResponse, Status>> {
        let shown = self.is_shown.then(|| (self.phase(), self.view.position));
        if matches!(shown, Some((ClaimPhase::Ended, _))) {
            return None;
        }
        self.is_shown = true;
        while shown == Some((self.phase(), self.view.position)) {
            match self.changed_or_due().await {
                Ok(view) => self.view = view,
                Err(status) => return Some(Err(status)),
            }
        }
        Some(Ok(api::AcquireResponse {
            claim: Some(convert::claim(&self.view)),
        }))
    }
}

impl OwnClaim {
    fn phase(&self) -> ClaimPhase {
        self.view.state.phase()
    }

    /// The claim in its next phase, or as it is when it has to be renewed, or looked at.
    async fn changed_or_due(&mut self) -> Result<ClaimView, Status> {
        let due = self.interval();
        let mut change = match self.is_displaced {
            true => Box::pin(std::future::pending()),
            false => self.change.take().unwrap_or_else(|| self.awaited()),
        };
        tokio::select! {
            changed = &mut change => {
                let (view, has_changed) = changed?;
                // What it knew was out of date, or it has made room for another stream.
                self.is_displaced = !has_changed && view.state.phase() == self.phase();
                return Ok(view);
            }
            () = sleep(due) => {}
            () = self.resources.stopping.cancelled() => return Err(errors::stopping()),
        }
        self.change = Some(change).filter(|_| !self.is_displaced);
        self.renewed().await
    }

    fn awaited(&self) -> Change {
        let (resources, caller) = (self.resources.clone(), self.caller.clone());
        let verb = ResourceVerb::Await {
            claim: self.view.no,
            phase: self.phase(),
        };
        Box::pin(async move { resources.claim(caller, verb).await })
    }

    /// When to look at it, or to renew it; `None`: all there is to know of it will be told.
    fn interval(&self) -> Option<Duration> {
        let look = match self.phase() {
            ClaimPhase::Waiting => {
                let place = self.view.position;
                let look = LOOKS.into_iter().find(|(places, _)| place <= *places);
                look.map(|(_, look)| look)
            }
            _ => Some(LOOK_AT_HOLD).filter(|_| self.is_displaced),
        };
        let renewal = (!self.renewed_by_caller).then(|| self.view.spec.lease / 3);
        look.into_iter().chain(renewal).min()
    }

    /// The claim, kept for another lease by its stream. One that has ended meanwhile is kept by
    /// nothing.
    async fn renewed(&mut self) -> Result<ClaimView, Status> {
        let no = self.view.no;
        if !self.renewed_by_caller {
            let proof = Proof::Stream;
            let verb = ResourceVerb::Renew { claim: no, proof };
            let renewed = self
                .resources
                .coordinator
                .resource(self.caller.clone(), verb);
            match renewed.await {
                Ok(ResourceReply::Claim(view, _)) => return Ok(view),
                Ok(other) => return Err(mismatched(other)),
                Err(crate::coordinator::CallError::Rejected(_)) => {}
                Err(error) => return Err(errors::resource::call(error)),
            }
        }
        let verb = ResourceVerb::Look(no);
        Ok(self.resources.claim(self.caller.clone(), verb).await?.0)
    }
}

async fn sleep(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}
