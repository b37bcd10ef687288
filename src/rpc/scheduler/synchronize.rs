//! Synchronization: each page of the cursor becomes a message. There is no queue: the next page is
//! read when the transport has room for it, and dropping the stream closes the cursor.

use super::{Schedulers, resumable_stream::ResumableStream, validate};
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
        let query = validate::synchronization(request)?;
        let events = ResumableStream::open(self.clone(), caller, query).await?;
        Ok(Box::pin(stream::unfold(events, |mut events| async move {
            let message = events.next().await?;
            Some((message, events))
        })))
    }
}
