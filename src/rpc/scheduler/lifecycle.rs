//! A scheduler as a whole: open, describe, change, release.

use super::{Schedulers, validate};
use crate::rpc::{convert, errors};
use crate::{
    coordinator::CallError,
    core::{Caller, DoneNo, Handle, Reject, ReleaseMode, Reply, Verb},
};
use rallypoint_client::api;
use std::time::Duration;
use tonic::Status;

/// Pause before a waiting release looks again: what a halt blocks is being cancelled, slice by slice.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

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

    /// Open, describe, update, pause, resume: answered with the scheduler.
    pub(super) async fn scheduler(
        &self,
        caller: Caller,
        handle: Handle,
        verb: Verb,
    ) -> Result<api::Scheduler, Status> {
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
        let (already_released, mut pending, mut done_no) =
            self.released(&caller, handle, mode).await?;
        while request.wait && pending > 0 {
            tokio::select! {
                ended = self.coordinator.wait_done(caller.clone(), handle, done_no) => match ended {
                    // The release has had its effect: without a stream to wait on, it is looked after now and then.
                    Ok(()) | Err(CallError::Rejected(Reject::LimitReached { .. })) => {}
                    Err(error) => return Err(errors::call(error, handle)),
                },
                () = self.stopping.cancelled() => return Err(errors::stopping()),
            }
            (_, pending, done_no) = self.released(&caller, handle, mode).await?;
            if pending > 0 {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
        Ok(api::ReleaseSchedulerResponse {
            already_released,
            pending,
        })
    }

    /// Whether it had been released before, its unfinished tasks, its last event.
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
            other => Err(errors::bug(&other)),
        }
    }
}
