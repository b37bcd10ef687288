//! SchedulerService. One method per RPC, each the same walk: who calls, what is asked, ask the coordinator, translate. A
//! handler may be dropped at any point: the coordinator has been asked or not, and nothing else is held.

mod lifecycle;
mod listing;
mod resumable_stream;
mod synchronize;
mod tasks;

use super::{
    auth::Auth,
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
use synchronize::DoneStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

/// The service.
#[derive(Clone)]
pub(super) struct Schedulers {
    /// Decides.
    pub coordinator: Coordinator,
    /// Reads the log.
    pub reader: Reader,
    /// Who calls.
    pub auth: Auth,
    /// Where SQL may run.
    pub targets: Targets,
    /// The server is going down: streams and waiting calls end.
    pub stopping: CancellationToken,
    /// Where streams are when they are not here; `None`: here or nowhere.
    pub route: Option<Route>,
}

type Answered<T> = Result<Response<T>, Status>;

impl Schedulers {
    /// Asks about a scheduler. Not there and not the caller's are the same error.
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
    ) -> Answered<api::GetSchedulerResponse> {
        let caller = self.auth.caller(&request)?;
        let scheduler = self.open(caller, request.get_ref()).await?;
        Ok(Response::new(api::GetSchedulerResponse {
            scheduler: Some(scheduler),
        }))
    }

    async fn exec_async(
        &self,
        request: Request<api::ExecAsyncRequest>,
    ) -> Answered<api::ExecAsyncResponse> {
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
            other => Err(errors::bug(&other)),
        }
    }

    async fn synchronization(
        &self,
        request: Request<api::SynchronizationRequest>,
    ) -> Answered<DoneStream> {
        let caller = self.auth.caller(&request)?;
        Ok(Response::new(
            self.synchronize(caller, request.get_ref()).await?,
        ))
    }

    async fn release_scheduler(
        &self,
        request: Request<api::ReleaseSchedulerRequest>,
    ) -> Answered<api::ReleaseSchedulerResponse> {
        let caller = self.auth.caller(&request)?;
        Ok(Response::new(
            self.release(caller, request.get_ref()).await?,
        ))
    }

    async fn describe_scheduler(
        &self,
        request: Request<api::DescribeSchedulerRequest>,
    ) -> Answered<api::DescribeSchedulerResponse> {
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
    ) -> Answered<api::ListSchedulersResponse> {
        let caller = self.auth.caller(&request)?;
        Ok(Response::new(
            self.schedulers(caller, request.get_ref()).await?,
        ))
    }

    async fn update_scheduler(
        &self,
        request: Request<api::UpdateSchedulerRequest>,
    ) -> Answered<api::UpdateSchedulerResponse> {
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
    ) -> Answered<api::PauseSchedulerResponse> {
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
    ) -> Answered<api::ResumeSchedulerResponse> {
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
    ) -> Answered<api::CancelTaskResponse> {
        let caller = self.auth.caller(&request)?;
        let id = validate::task_id(request.get_ref().id.as_ref())?;
        Ok(Response::new(self.cancel(caller, id).await?))
    }

    async fn get_task(
        &self,
        request: Request<api::GetTaskRequest>,
    ) -> Answered<api::GetTaskResponse> {
        let caller = self.auth.caller(&request)?;
        let id = validate::task_id(request.get_ref().id.as_ref())?;
        Ok(Response::new(api::GetTaskResponse {
            task: Some(self.task(caller, id).await?),
        }))
    }

    async fn list_tasks(
        &self,
        request: Request<api::ListTasksRequest>,
    ) -> Answered<api::ListTasksResponse> {
        let caller = self.auth.caller(&request)?;
        Ok(Response::new(self.tasks(caller, request.get_ref()).await?))
    }
}
