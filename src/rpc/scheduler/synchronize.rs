//! Synchronization: the pages of the coordinator's cursor, each as a message. There is no queue: the next page is read when
//! the transport has room for it, and dropping the stream closes the cursor.

use super::{Schedulers, resumable_stream::Follow, validate};
use crate::core::Caller;
use futures_util::{Stream, stream};
use rallypoint_client::api;
use std::pin::Pin;
use tonic::Status;

/// The messages of a stream.
pub(super) type DoneStream =
    Pin<Box<dyn Stream<Item = Result<api::SynchronizationResponse, Status>> + Send>>;

impl Schedulers {
    pub(super) async fn synchronize(
        &self,
        caller: Caller,
        request: &api::SynchronizationRequest,
    ) -> Result<DoneStream, Status> {
        let watch = validate::synchronization(request)?;
        let follow = Follow::open(self.clone(), caller, watch).await?;
        Ok(Box::pin(stream::unfold(follow, |mut follow| async move {
            let message = follow.next().await?;
            Some((message, follow))
        })))
    }
}
