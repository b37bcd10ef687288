//! A scheduler as a whole: open, describe, update, pause, resume, release.

use super::{Schedulers, validate};
use crate::{
    coordinator::CallError,
    core::{Caller, Counts, DoneNo, Handle, Reject, ReleaseMode, Reply, Verb},
    rpc::{convert, errors},
};
use rallypoint_client::api;
use std::{sync::Arc, time::Duration};
use tonic::Status;

/// Pause between checks of a waiting release, while what a halt blocks is cancelled in slices.
const RELEASE_POLL_INTERVAL: Duration = Duration::from_millis(100);

impl Schedulers {
    pub(super) async fn open(
        &self,
        caller: Caller,
        request: Arc<api::GetSchedulerRequest>,
    ) -> Result<api::GetSchedulerResponse, Status> {
        let targets = self.targets.of(&caller.namespace);
        let open = validate::get_scheduler(&request, &targets)?;
        let handle = self.coordinator.new_handle();
        let (view, reused) = match self.ask(caller, handle, Verb::Open(open)).await? {
            Reply::Scheduler(view) => (view, false),
            Reply::Found(view) => (view, true),
            other => return Err(errors::mismatched_reply(&other)),
        };
        Ok(api::GetSchedulerResponse {
            scheduler: Some(convert::scheduler(&view)),
            reused,
        })
    }

    pub(super) async fn describe(
        &self,
        caller: Caller,
        request: Arc<api::DescribeSchedulerRequest>,
    ) -> Result<api::DescribeSchedulerResponse, Status> {
        let handle = validate::handle(&request.handle)?;
        let scheduler = self.scheduler(caller.clone(), handle, Verb::Describe);
        let scheduler = Some(scheduler.await?);
        let forecast = match request.forecast {
            true => self.forecast_of(caller, handle).await?,
            false => None,
        };
        Ok(api::DescribeSchedulerResponse {
            scheduler,
            forecast,
        })
    }

    pub(super) async fn update(
        &self,
        caller: Caller,
        request: Arc<api::UpdateSchedulerRequest>,
    ) -> Result<api::UpdateSchedulerResponse, Status> {
        let targets = self.targets.of(&caller.namespace);
        let (handle, update) = validate::update(Arc::unwrap_or_clone(request), &targets)?;
        let verb = Verb::Update(update);
        let scheduler = Some(self.scheduler(caller, handle, verb).await?);
        Ok(api::UpdateSchedulerResponse { scheduler })
    }

    pub(super) async fn pause(
        &self,
        caller: Caller,
        request: Arc<api::PauseSchedulerRequest>,
    ) -> Result<api::PauseSchedulerResponse, Status> {
        let handle = validate::handle(&request.handle)?;
        let scheduler = Some(self.scheduler(caller, handle, Verb::Pause).await?);
        Ok(api::PauseSchedulerResponse { scheduler })
    }

    pub(super) async fn resume(
        &self,
        caller: Caller,
        request: Arc<api::ResumeSchedulerRequest>,
    ) -> Result<api::ResumeSchedulerResponse, Status> {
        let handle = validate::handle(&request.handle)?;
        let ignore_failures = request.ignore_failures;
        let verb = Verb::Resume { ignore_failures };
        let scheduler = Some(self.scheduler(caller, handle, verb).await?);
        Ok(api::ResumeSchedulerResponse { scheduler })
    }

    /// Commands that are answered with the scheduler.
    async fn scheduler(
        &self,
        caller: Caller,
        handle: Handle,
        verb: Verb,
    ) -> Result<api::Scheduler, Status> {
        match self.ask(caller, handle, verb).await? {
            Reply::Scheduler(view) => Ok(convert::scheduler(&view)),
            other => Err(errors::mismatched_reply(&other)),
        }
    }

    pub(super) async fn release(
        &self,
        caller: Caller,
        request: Arc<api::ReleaseSchedulerRequest>,
    ) -> Result<api::ReleaseSchedulerResponse, Status> {
        let (handle, mode) = validate::release(&request)?;
        let (already_released, mut pending, mut done_no) =
            self.released(&caller, handle, mode).await?;
        while request.wait && pending > 0 {
            tokio::select! {
                ended = self.coordinator.wait_done(caller.clone(), handle, done_no) => match ended {
                    // Over the limit of streams: the release is in effect, so poll instead.
                    Ok(()) | Err(CallError::Rejected(Reject::LimitReached { .. })) => {}
                    Err(error) => return Err(errors::after_effect(errors::call(error, handle))),
                },
                () = self.stopping.cancelled() => return Err(errors::stopping()),
            }
            let left = self.left(&caller, handle).await;
            (pending, done_no) = left.map_err(errors::after_effect)?;
            if pending > 0 {
                tokio::select! {
                    () = tokio::time::sleep(RELEASE_POLL_INTERVAL) => {}
                    () = self.stopping.cancelled() => return Err(errors::stopping()),
                }
            }
        }
        Ok(api::ReleaseSchedulerResponse {
            already_released,
            pending,
        })
    }

    /// Its number of unfinished tasks, and its last event. Another release would end a pause of
    /// since then.
    async fn left(&self, caller: &Caller, handle: Handle) -> Result<(i64, DoneNo), Status> {
        match self.ask(caller.clone(), handle, Verb::Describe).await? {
            Reply::Scheduler(view) => {
                let Counts {
                    blocked,
                    queued,
                    running,
                    retrying,
                } = view.counts;
                let pending = blocked + queued + running + retrying;
                Ok((pending, view.image.checkpoint.done_no))
            }
            other => Err(errors::mismatched_reply(&other)),
        }
    }

    /// Whether it had been released before, its number of unfinished tasks, and its last event.
    async fn released(
        &self,
        caller: &Caller,
        handle: Handle,
        mode: ReleaseMode,
    ) -> Result<(bool, i64, DoneNo), Status> {
        match self
            .ask(caller.clone(), handle, Verb::Release(mode))
            .await?
        {
            Reply::Released {
                already,
                pending,
                done_no,
            } => Ok((already, pending, done_no)),
            other => Err(errors::mismatched_reply(&other)),
        }
    }
}
