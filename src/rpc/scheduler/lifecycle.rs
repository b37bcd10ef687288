//! A scheduler as a whole: open, describe, update, pause, resume, release.

use super::{Schedulers, validate};
use crate::{
    coordinator::CallError,
    core::{Caller, DoneNo, Handle, Reject, ReleaseMode, Reply, Verb},
    rpc::{convert, errors},
};
use rallypoint_client::api;
use std::time::Duration;
use tonic::Status;

/// Pause between checks of a waiting release, while what a halt blocks is cancelled in slices.
const RELEASE_POLL_INTERVAL: Duration = Duration::from_millis(100);

impl Schedulers {
    pub(super) async fn open(
        &self,
        caller: Caller,
        request: &api::GetSchedulerRequest,
    ) -> Result<api::Scheduler, Status> {
        let (settings, request) = validate::get_scheduler(request)?;
        self.scheduler(
            caller,
            self.coordinator.new_handle(),
            Verb::Open { settings, request },
        )
        .await
    }

    /// Commands that are answered with the scheduler: open, describe, update, pause, resume.
    pub(super) async fn scheduler(
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
        request: &api::ReleaseSchedulerRequest,
    ) -> Result<api::ReleaseSchedulerResponse, Status> {
        let (handle, mode) = validate::release(request)?;
        let (already_released, mut pending, mut done_no) =
            self.released(&caller, handle, mode).await?;
        while request.wait && pending > 0 {
            tokio::select! {
                ended = self.coordinator.wait_done(caller.clone(), handle, done_no) => match ended {
                    // Over the limit of streams: the release is in effect, so poll instead.
                    Ok(()) | Err(CallError::Rejected(Reject::LimitReached { .. })) => {}
                    Err(error) => return Err(errors::call(error, handle)),
                },
                () = self.stopping.cancelled() => return Err(errors::stopping()),
            }
            (_, pending, done_no) = self.released(&caller, handle, mode).await?;
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
