//! Synchronization: each page of the cursor becomes a message. There is no queue: the next page is
//! read when the transport has room for it, and dropping the stream closes the cursor.

use super::{Schedulers, resumable_stream::ResumableStream, validate};
use crate::{core::Caller, rpc::convert::stream::DoneStream};
use futures_util::stream;
use rallypoint_client::api;
use tonic::Status;

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
