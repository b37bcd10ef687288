//! ListSchedulers: the rows come from the journal, the counts of live schedulers from the core. A
//! page ends early rather than exceed the message size that every client accepts.

use super::Schedulers;
use crate::{
    coordinator::CallError,
    core::{Caller, Handle, Reply, SchedulerImage, SchedulerState, Verb},
    rpc::{convert, errors, validate::ListSchedulers},
};
use futures_util::{StreamExt, stream};
use prost::Message;
use rallypoint_client::api;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tonic::Status;

/// Size at which a page ends.
pub(super) const MAX_PAGE_BYTES: usize = 1 << 20;
/// Time after which a page ends that has found little.
pub(super) const MAX_PAGE_TIME: Duration = Duration::from_millis(40);
/// Schedulers described concurrently.
const MAX_CONCURRENT_READS: usize = 32;

impl Schedulers {
    pub(super) async fn schedulers(
        &self,
        caller: Caller,
        request: Arc<api::ListSchedulersRequest>,
    ) -> Result<api::ListSchedulersResponse, Status> {
        let begun = Instant::now();
        let query = ListSchedulers::new(&request, &caller.namespace)?;
        let mut page = api::ListSchedulersResponse::default();
        let (mut before, mut bytes, mut more) = (query.before, 0, true);
        while more
            && page.schedulers.len() < query.size
            && bytes <= MAX_PAGE_BYTES
            && (before == query.before || begun.elapsed() <= MAX_PAGE_TIME)
        {
            let left = query.size - page.schedulers.len();
            let found = self
                .reader
                .schedulers(&caller.namespace, &query.filter, before, left)
                .await
                .map_err(errors::journal)?;
            more = found.next.is_some();
            before = found.next.or(before);
            let mut described = stream::iter(found.images)
                .map(|image| self.with_counts(&caller, image))
                .buffered(MAX_CONCURRENT_READS);
            while let Some(described) = described.next().await {
                let (handle, scheduler) = described?;
                bytes += scheduler.encoded_len();
                page.schedulers.push(scheduler);
                if bytes > MAX_PAGE_BYTES {
                    (before, more) = (Some(handle), true);
                    break;
                }
            }
        }
        if let Some(last) = before.filter(|_| more) {
            page.next_page_token = query.token.after(last.uuid().as_u128());
        }
        Ok(page)
    }

    /// The scheduler with the counts of the core. One that the core does not know has those of its
    /// last checkpoint: it has ended since, or is set aside.
    async fn with_counts(
        &self,
        caller: &Caller,
        image: SchedulerImage,
    ) -> Result<(Handle, api::Scheduler), Status> {
        let handle = image.handle;
        if image.state == SchedulerState::Released {
            return Ok((handle, convert::stored_scheduler(&image)));
        }
        let described = self
            .coordinator
            .call(caller.clone(), handle, Verb::Describe);
        match described.await {
            Ok(Reply::Scheduler(view)) => Ok((handle, convert::scheduler(&view))),
            Ok(_) | Err(CallError::Unreadable | CallError::Rejected(_)) => {
                Ok((handle, convert::stored_scheduler(&image)))
            }
            Err(error) => Err(errors::call(error, handle)),
        }
    }
}
