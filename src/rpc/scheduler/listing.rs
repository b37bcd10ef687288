//! ListSchedulers: the rows come from the journal, the counts of those that live from the core. A page ends early rather
//! than grow beyond what every client takes.

use super::Schedulers;
use crate::core::{Caller, Handle, Reply, SchedulerImage, SchedulerState, Verb};
use crate::rpc::{convert, errors, validate::ListSchedulers};
use futures_util::{StreamExt, stream};
use prost::Message;
use rallypoint_client::api;
use tonic::Status;

/// Bytes of a page, about.
pub(super) const PAGE_BYTES: usize = 1 << 20;
/// Schedulers described at a time.
const AT_ONCE: usize = 32;

impl Schedulers {
    pub(super) async fn schedulers(
        &self,
        caller: Caller,
        request: &api::ListSchedulersRequest,
    ) -> Result<api::ListSchedulersResponse, Status> {
        let ask = ListSchedulers::new(request, &caller.namespace)?;
        let images = self
            .reader
            .schedulers(
                &caller.namespace,
                ask.before,
                ask.state,
                ask.size as u32 + 1,
            )
            .await;
        let images = images.map_err(errors::journal)?;
        let found = images.len();
        let mut page = api::ListSchedulersResponse::default();
        let mut last = None;
        let mut bytes = 0;
        let mut shown = stream::iter(images.into_iter().take(ask.size))
            .map(|image| self.shown(&caller, image))
            .buffered(AT_ONCE);
        while let Some((handle, scheduler)) = shown.next().await {
            last = Some(handle);
            bytes += scheduler.encoded_len();
            page.schedulers.push(scheduler);
            if bytes > PAGE_BYTES {
                break;
            }
        }
        if let Some(last) = last.filter(|_| page.schedulers.len() < found) {
            page.next_page_token = ask.token.after(last.uuid().as_u128());
        }
        Ok(page)
    }

    /// As the core knows it; what the core cannot tell now is shown as the journal knows it.
    async fn shown(&self, caller: &Caller, image: SchedulerImage) -> (Handle, api::Scheduler) {
        let lives = image.state != SchedulerState::Released;
        let reply = match lives {
            true => self
                .coordinator
                .call(caller.clone(), image.handle, Verb::Describe)
                .await
                .ok(),
            false => None,
        };
        match reply {
            Some(Reply::Scheduler(view)) => (image.handle, convert::scheduler(&view)),
            _ => (image.handle, convert::settled(&image)),
        }
    }
}
