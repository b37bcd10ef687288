//! A stream that the owner of the shard tells: its own here, else that of the owner, passed on.
//! When the shard changes hands the stream ends, and the caller continues it by calling again.

use super::{Messages, Resources, errors};
use crate::{
    coordinator::Permit,
    core::Caller,
    rpc::forwarding::route::{self, Destination, OWNER_WAITS, OwnerAddress},
};
use futures_util::stream;
use rallypoint_client::api::resource_service_client::ResourceServiceClient;
use std::sync::Arc;
use tonic::{Request, Response, Status, Streaming, transport::Channel};

/// What a stream tells of this replica's core.
#[tonic::async_trait]
pub(super) trait OwnStream: Send + Sized + 'static {
    /// What opens it.
    type Request: Clone + Send + Sync + 'static;
    /// What it tells.
    type Message: Send + 'static;

    /// Opens it here.
    async fn open(
        here: Arc<Resources>,
        caller: &Caller,
        request: &Self::Request,
    ) -> Result<Self, Status>;

    /// Opens it at the owner.
    async fn forward(
        owner: ResourceServiceClient<Channel>,
        request: Request<Self::Request>,
    ) -> Result<Response<Streaming<Self::Message>>, Status>;

    /// The next message; `None`: it has ended.
    async fn next(&mut self) -> Option<Result<Self::Message, Status>>;
}

/// A stream of another replica, which owns the shard.
struct Forwarded<M> {
    resources: Resources,
    stream: Streaming<M>,
    owner: OwnerAddress,
    _place: Permit,
}

impl Resources {
    /// Opens a stream wherever the owner is; waits a moment while there is none.
    pub(super) async fn open<S: OwnStream>(
        &self,
        caller: Caller,
        request: S::Request,
    ) -> Result<Messages<S::Message>, Status> {
        let mut waits = OWNER_WAITS.into_iter();
        let mut unknown = false;
        loop {
            let status = match self.open_once::<S>(&caller, &request).await {
                Ok(messages) => return Ok(messages),
                Err(status) => status,
            };
            unknown |= route::is_unknown(&status);
            let elsewhere = route::is_not_owner(&status) || route::is_unknown(&status);
            match (waits.next(), &self.route) {
                (Some(longest), Some(route)) if elsewhere => route.wait_for_owner(longest).await,
                _ if elsewhere && unknown => return Err(errors::owner_changed()),
                _ => return Err(route::status_alone(status)),
            }
        }
    }

    async fn open_once<S: OwnStream>(
        &self,
        caller: &Caller,
        request: &S::Request,
    ) -> Result<Messages<S::Message>, Status> {
        let route = self.route.as_ref();
        match route.map(|route| (route, route.destination())) {
            None | Some((_, Destination::Local)) => {
                let here = Arc::new(self.clone());
                let own = S::open(here, caller, request).await?;
                Ok(Box::pin(stream::unfold(Some(own), |own| async move {
                    let mut own = own?;
                    let message = own.next().await?;
                    let goes_on = message.is_ok();
                    Some((message, goes_on.then_some(own)))
                })))
            }
            Some((route, Destination::Remote(owner))) => {
                let place = route.stream_place(caller, false)?;
                let client = ResourceServiceClient::new(owner.streams.clone());
                let request = route::with_caller(request.clone(), caller)?;
                // The channel to an owner that is gone says so late.
                let opened = tokio::select! {
                    opened = S::forward(client, request) => opened?,
                    () = route.replaced(&owner) => return Err(errors::owner_changed()),
                };
                let forwarded = Forwarded {
                    resources: self.clone(),
                    stream: opened.into_inner(),
                    owner,
                    _place: place,
                };
                Ok(Box::pin(stream::unfold(
                    Some(forwarded),
                    |one| async move {
                        let mut one = one?;
                        let message = one.next().await?;
                        let goes_on = message.is_ok();
                        Some((message, goes_on.then_some(one)))
                    },
                )))
            }
            Some((_, Destination::Unknown)) => Err(errors::not_owner()),
        }
    }
}

impl<M> Forwarded<M> {
    async fn next(&mut self) -> Option<Result<M, Status>> {
        let replaced = async {
            match &self.resources.route {
                Some(route) => route.replaced(&self.owner).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            message = self.stream.message() => match message {
                Ok(message) => message.map(Ok),
                Err(status) if route::is_unknown(&status) => Some(Err(errors::owner_changed())),
                Err(status) => Some(Err(route::status_alone(status))),
            },
            () = replaced => Some(Err(errors::owner_changed())),
            () = self.resources.stopping.cancelled() => Some(Err(errors::stopping())),
        }
    }
}
