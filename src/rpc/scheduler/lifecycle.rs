//! A scheduler as a whole: open, describe, change, release.

use super::{super::convert, Schedulers, errors, validate};
use crate::{
    api,
    coordinator::{CallError, End},
    core::{Caller, DoneNo, Handle, Reply, Until, Verb},
};
use std::time::Duration;
use tonic::Status;

/// Pause before a waiting release looks again at what a halt blocks: it is being cancelled.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Schedulers {
    pub(super) async fn open(&self, caller: Caller, request: &api::GetSchedulerRequest) -> Result<api::Scheduler, Status> {
        let (settings, request) = validate::get_scheduler(request)?;
        self.scheduler(caller, self.coordinator.new_handle(), Verb::Open { settings, request }).await
    }

    /// Open, describe, update, pause, resume: answered with the scheduler.
    pub(super) async fn scheduler(&self, caller: Caller, handle: Handle, verb: Verb) -> Result<api::Scheduler, Status> {
        match self.ask(caller, handle, verb).await? {
            Reply::Scheduler(view) => Ok(convert::scheduler(&view)),
            other => Err(errors::bug(&other)),
        }
    }

    pub(super) async fn release(
        &self,
        caller: Caller,
        request: &api::ReleaseSchedulerRequest,
    ) -> Result<api::ReleaseSchedulerResponse, Status> {
        let (handle, mode) = validate::release(request)?;
        let (already_released, mut pending, done_no) = match self.ask(caller.clone(), handle, Verb::Release(mode)).await? {
            Reply::Released { already, pending, done_no } => (already, pending, done_no),
            other => return Err(errors::bug(&other)),
        };
        if request.wait && pending > 0 {
            pending = tokio::select! {
                ended = self.ended(caller, handle, done_no) => ended.map_err(|error| errors::call(error, handle))?,
                () = self.stopping.cancelled() => return Err(errors::stopping()),
            };
        }
        Ok(api::ReleaseSchedulerResponse { already_released, pending })
    }

    /// Waits until every task of a released scheduler has ended; the number of those that have not: 0.
    async fn ended(&self, caller: Caller, handle: Handle, after: DoneNo) -> Result<i64, CallError> {
        let mut seen = after;
        loop {
            let mut events = self.coordinator.watch(caller.clone(), handle, seen, Until::All, None).await?;
            let last = loop {
                let page = events.next().await?;
                if let Some((done_no, done)) = page.done.last() {
                    seen = DoneNo(done_no.0 + i64::from(done.count) - 1);
                }
                if page.end.is_some() {
                    break page;
                }
            };
            if !matches!(last.end, Some(End::Halted { .. })) {
                return Ok(last.pending);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}
