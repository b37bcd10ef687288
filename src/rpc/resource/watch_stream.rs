//! WatchResource: a resource whenever it has changed. The core is asked with the revision that was
//! told last, and answers when there is another one, so a slow caller gets the present state and
//! nothing queues up for it.

use super::{
    Messages, ResourceReply, ResourceVerb, ResourceView, Resources, convert, errors, mismatched,
    owner_stream::OwnStream, validate,
};
use crate::core::Caller;
use rallypoint_client::api::{self, resource_service_client::ResourceServiceClient};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until};
use tonic::{Request, Response, Status, Streaming, transport::Channel};

/// Between messages, at least.
const PAUSE: Duration = Duration::from_millis(100);

/// A resource that this replica's core knows.
struct OwnWatch {
    resources: Arc<Resources>,
    caller: Caller,
    name: Arc<str>,
    /// What is to be told first, or was told last, and which revision that is.
    view: Arc<ResourceView>,
    revision: u64,
    /// When the next message may be sent; `None`: at once, since none was.
    next_at: Option<Instant>,
    has_ended: bool,
}

impl Resources {
    /// Follows a resource, wherever the owner is.
    pub(super) async fn stream_states(
        &self,
        caller: Caller,
        request: api::WatchResourceRequest,
    ) -> Result<Messages<api::WatchResourceResponse>, Status> {
        // What is refused whoever owns the shard.
        validate::watch_resource(&request)?;
        self.open::<OwnWatch>(caller, request).await
    }
}

#[tonic::async_trait]
impl OwnStream for OwnWatch {
    type Request = api::WatchResourceRequest;
    type Message = api::WatchResourceResponse;

    async fn open(
        here: Arc<Resources>,
        caller: &Caller,
        request: &api::WatchResourceRequest,
    ) -> Result<OwnWatch, Status> {
        let name = validate::watch_resource(request)?;
        let first = ResourceVerb::Watch {
            name: name.clone(),
            seen: 0,
        };
        let (view, revision) = match here.ask(caller.clone(), first).await? {
            ResourceReply::Watched(Some(view), revision) => (view, revision),
            other => return Err(mismatched(other)),
        };
        Ok(OwnWatch {
            resources: here,
            caller: caller.clone(),
            name,
            view,
            revision,
            next_at: None,
            has_ended: false,
        })
    }

    async fn forward(
        mut owner: ResourceServiceClient<Channel>,
        request: Request<api::WatchResourceRequest>,
    ) -> Result<Response<Streaming<api::WatchResourceResponse>>, Status> {
        owner.watch_resource(request).await
    }

    async fn next(&mut self) -> Option<Result<api::WatchResourceResponse, Status>> {
        if self.has_ended {
            return None;
        }
        if let Some(at) = self.next_at {
            let stopping = self.resources.stopping.clone();
            let changed = async {
                sleep_until(at).await;
                self.changed().await
            };
            tokio::select! {
                changed = changed => if let Err(status) = changed {
                    return Some(Err(status));
                },
                () = stopping.cancelled() => return Some(Err(errors::stopping())),
            }
        }
        self.next_at = Some(Instant::now() + PAUSE);
        Some(Ok(api::WatchResourceResponse {
            resource: Some(convert::resource(&self.view)),
            holds: convert::claims(&self.view.holders),
            queue: convert::claims(&self.view.queue),
            deleted: self.has_ended,
            waiting_tasks: convert::waiting_tasks(&self.view),
        }))
    }
}

impl OwnWatch {
    /// Returns when there is something new to tell.
    async fn changed(&mut self) -> Result<(), Status> {
        loop {
            let verb = ResourceVerb::Watch {
                name: self.name.clone(),
                seen: self.revision,
            };
            let reply = self
                .resources
                .coordinator
                .resource(self.caller.clone(), verb);
            match reply.await {
                Ok(ResourceReply::Watched(Some(view), revision)) => {
                    self.revision = revision;
                    // The core forgets a revision that nobody has asked for in a while.
                    if self.view != view {
                        self.view = view;
                        return Ok(());
                    }
                }
                Ok(ResourceReply::Watched(None, _)) => {}
                Ok(ResourceReply::Unwatched) => {
                    self.has_ended = true;
                    return Ok(());
                }
                Ok(other) => return Err(mismatched(other)),
                Err(error) if errors::resource::is_unknown_resource(&error) => {
                    self.has_ended = true;
                    return Ok(());
                }
                Err(error) => return Err(errors::resource::call(error)),
            }
        }
    }
}
