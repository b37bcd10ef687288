//! SchedulerService. Each method is the same walk: identify the caller, validate, ask the
//! coordinator, translate the reply. A handler may be dropped at any await: the command has been
//! queued or not, and nothing else is held.

mod lifecycle;
mod listing;
mod resumable_stream;
mod synchronize;
mod tasks;

use super::{
    auth::Auth,
    convert::stream::DoneStream,
    errors,
    forwarding::route::Route,
    validate::{self, Targets},
};
use crate::{
    coordinator::Coordinator,
    core::{Caller, Handle, Reply, Verb},
    journal::Reader,
};
use rallypoint_client::api::{self, scheduler_service_server::SchedulerService};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

/// The service of this replica, or of its peer port.
#[derive(Clone)]
pub(super) struct Schedulers {
    pub coordinator: Coordinator,
    /// Reads the journal.
    pub reader: Reader,
    pub auth: Auth,
    /// Targets that SQL tasks may name.
    pub targets: Targets,
    /// Cancelled when the server shuts down: streams and waiting calls end.
    pub stopping: CancellationToken,
    /// Route to the owner for streams; `None`: streams are served here only.
    pub route: Option<Route>,
}

type Answer<T> = Result<Response<T>, Status>;

impl Schedulers {
    /// Sends a command about a scheduler. One that does not exist and one of another namespace give
    /// the same error.
    async fn ask(&self, caller: Caller, handle: Handle, verb: Verb) -> Result<Reply, Status> {
        self.coordinator
            .call(caller, handle, verb)
            .await
            .map_err(|error| errors::call(error, handle))
    }
}

#[tonic::async_trait]
impl SchedulerService for Schedulers {
    type SynchronizationStream = DoneStream;

    async fn get_scheduler(
        &self,
        request: Request<api::GetSchedulerRequest>,
    ) -> Answer<api::GetSchedulerResponse> {
        let caller = self.auth.caller(&request)?;
        let scheduler = self.open(caller, request.get_ref()).await?;
        Ok(Response::new(api::GetSchedulerResponse {
            scheduler: Some(scheduler),
        }))
    }

    async fn exec_async(
        &self,
        request: Request<api::ExecAsyncRequest>,
    ) -> Answer<api::ExecAsyncResponse> {
        let caller = self.auth.caller(&request)?;
        let (handle, submit) = validate::exec_async(request.get_ref(), &self.targets)?;
        drop(request);
        match self.ask(caller, handle, Verb::Submit(submit)).await? {
            Reply::Submitted {
                first_seq,
                count,
                done_no,
            } => Ok(Response::new(api::ExecAsyncResponse {
                first_seq: first_seq.0,
                count: count as i32,
                done_no: done_no.0,
            })),
            other => Err(errors::mismatched_reply(&other)),
        }
    }

    async fn synchronization(
        &self,
        request: Request<api::SynchronizationRequest>,
    ) -> Answer<DoneStream> {
        let caller = self.auth.caller(&request)?;
        Ok(Response::new(
            self.synchronize(caller, request.get_ref()).await?,
        ))
    }

    async fn release_scheduler(
        &self,
        request: Request<api::ReleaseSchedulerRequest>,
    ) -> Answer<api::ReleaseSchedulerResponse> {
        let caller = self.auth.caller(&request)?;
        Ok(Response::new(
            self.release(caller, request.get_ref()).await?,
        ))
    }

    async fn describe_scheduler(
        &self,
        request: Request<api::DescribeSchedulerRequest>,
    ) -> Answer<api::DescribeSchedulerResponse> {
        let caller = self.auth.caller(&request)?;
        let handle = validate::handle(&request.get_ref().handle)?;
        let scheduler = self.scheduler(caller, handle, Verb::Describe).await?;
        Ok(Response::new(api::DescribeSchedulerResponse {
            scheduler: Some(scheduler),
        }))
    }

    async fn list_schedulers(
        &self,
        request: Request<api::ListSchedulersRequest>,
    ) -> Answer<api::ListSchedulersResponse> {
        let caller = self.auth.caller(&request)?;
        Ok(Response::new(
            self.schedulers(caller, request.get_ref()).await?,
        ))
    }

    async fn update_scheduler(
        &self,
        request: Request<api::UpdateSchedulerRequest>,
    ) -> Answer<api::UpdateSchedulerResponse> {
        let caller = self.auth.caller(&request)?;
        let (handle, update) = validate::update(request.into_inner())?;
        let scheduler = self.scheduler(caller, handle, Verb::Update(update)).await?;
        Ok(Response::new(api::UpdateSchedulerResponse {
            scheduler: Some(scheduler),
        }))
    }

    async fn pause_scheduler(
        &self,
        request: Request<api::PauseSchedulerRequest>,
    ) -> Answer<api::PauseSchedulerResponse> {
        let caller = self.auth.caller(&request)?;
        let handle = validate::handle(&request.get_ref().handle)?;
        let scheduler = self.scheduler(caller, handle, Verb::Pause).await?;
        Ok(Response::new(api::PauseSchedulerResponse {
            scheduler: Some(scheduler),
        }))
    }

    async fn resume_scheduler(
        &self,
        request: Request<api::ResumeSchedulerRequest>,
    ) -> Answer<api::ResumeSchedulerResponse> {
        let caller = self.auth.caller(&request)?;
        let api::ResumeSchedulerRequest {
            handle,
            ignore_failures,
        } = request.into_inner();
        let verb = Verb::Resume { ignore_failures };
        let scheduler = self
            .scheduler(caller, validate::handle(&handle)?, verb)
            .await?;
        Ok(Response::new(api::ResumeSchedulerResponse {
            scheduler: Some(scheduler),
        }))
    }

    async fn cancel_task(
        &self,
        request: Request<api::CancelTaskRequest>,
    ) -> Answer<api::CancelTaskResponse> {
        let caller = self.auth.caller(&request)?;
        let id = validate::task_id(request.get_ref().id.as_ref())?;
        Ok(Response::new(self.cancel(caller, id).await?))
    }

    async fn get_task(
        &self,
        request: Request<api::GetTaskRequest>,
    ) -> Answer<api::GetTaskResponse> {
        let caller = self.auth.caller(&request)?;
        let id = validate::task_id(request.get_ref().id.as_ref())?;
        Ok(Response::new(api::GetTaskResponse {
            task: Some(self.task(caller, id).await?),
        }))
    }

    async fn list_tasks(
        &self,
        request: Request<api::ListTasksRequest>,
    ) -> Answer<api::ListTasksResponse> {
        let caller = self.auth.caller(&request)?;
        Ok(Response::new(self.tasks(caller, request.get_ref()).await?))
    }
}
