//! A scheduler as a whole: open, describe, change, release.

use super::{super::convert, Answer, Schedulers, errors, validate};
use crate::{
    api,
    core::{Caller, DoneNo, Handle, Reply, Verb},
};
use tonic::Status;

impl Schedulers {
    pub(super) async fn open(&self, caller: Caller, request: &api::GetSchedulerRequest) -> Result<api::Scheduler, Status> {
        let (settings, request) = validate::get_scheduler(request)?;
        let handle = self.coordinator.new_handle();
        let verb = Verb::Open { settings, request };
        let reply = self.coordinator.call(caller, handle, verb).await.map_err(|error| errors::call(error, handle))?;
        view(reply)
    }

    pub(super) async fn describe(&self, caller: &Caller, handle: Handle) -> Result<api::Scheduler, Status> {
        match self.ask(caller, handle, Verb::Describe).await? {
            Answer::Live(reply) => view(reply),
            Answer::Settled(image) => Ok(convert::settled(&image)),
        }
    }

    /// Update, pause, resume.
    pub(super) async fn change(&self, caller: Caller, handle: Handle, verb: Verb) -> Result<api::Scheduler, Status> {
        view(self.ask_open(&caller, handle, verb).await?)
    }

    pub(super) async fn release(
        &self,
        caller: Caller,
        request: &api::ReleaseSchedulerRequest,
    ) -> Result<api::ReleaseSchedulerResponse, Status> {
        let (handle, mode) = validate::release(request)?;
        let (already_released, pending, done_no) = match self.ask(&caller, handle, Verb::Release(mode)).await? {
            Answer::Live(Reply::Released { already, pending, done_no }) => (already, pending, done_no),
            Answer::Live(other) => return Err(errors::bug(&other)),
            Answer::Settled(_) => (true, 0, DoneNo(0)),
        };
        if !request.wait || pending == 0 {
            return Ok(api::ReleaseSchedulerResponse { already_released, pending });
        }
        tokio::select! {
            done = self.coordinator.wait_done(caller, handle, done_no) => {
                done.map_err(|error| errors::call(error, handle))?;
                Ok(api::ReleaseSchedulerResponse { already_released, pending: 0 })
            }
            () = self.stopping.cancelled() => Err(errors::stopping()),
        }
    }
}

fn view(reply: Reply) -> Result<api::Scheduler, Status> {
    match reply {
        Reply::Scheduler(view) => Ok(convert::scheduler(&view)),
        other => Err(errors::bug(&other)),
    }
}
