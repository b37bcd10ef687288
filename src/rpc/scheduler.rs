//! SchedulerService. `calls` lists the unary calls, `forwarding::unary` answers them here or at the
//! owner of the shard; what each of them does stands in `lifecycle`, `submit`, `tasks`, `explain`
//! and `listing`. A handler may be dropped at any await: the command has been queued or not, and
//! nothing else is held.

mod attempts;
mod calls;
mod cancel_tasks;
mod explain;
mod forecast;
mod lifecycle;
mod listing;
mod resumable_stream;
mod retry;
mod retry_failed;
mod retry_traces;
mod submit;
mod synchronize;
mod task_list;
mod tasks;

use super::{
    auth::{self, Auth},
    convert::{explanation, stream::DoneStream},
    errors,
    forwarding::{
        route::Route,
        unary::{Endpoint, Unary},
    },
    status::executions::Executions,
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
    /// What runs on all replicas.
    pub executions: Executions,
    /// Cancelled when the server shuts down: streams and waiting calls end.
    pub stopping: CancellationToken,
    /// Route to the owner; `None`: this replica answers itself, as the owner does another one.
    pub route: Option<Route>,
}

type Answer<T> = Result<Response<T>, Status>;

impl Schedulers {
    /// Answers a call, wherever the owner is.
    async fn answer<C: Unary<Schedulers>>(&self, request: Request<C>) -> Answer<C::Response> {
        let endpoint = Endpoint {
            here: self,
            auth: &self.auth,
            route: self.route.as_ref(),
            stopping: &self.stopping,
        };
        endpoint.answer(request).await
    }

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
        self.answer(request).await
    }

    async fn exec_async(
        &self,
        request: Request<api::ExecAsyncRequest>,
    ) -> Answer<api::ExecAsyncResponse> {
        self.answer(request).await
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
        self.answer(request).await
    }

    async fn describe_scheduler(
        &self,
        request: Request<api::DescribeSchedulerRequest>,
    ) -> Answer<api::DescribeSchedulerResponse> {
        self.answer(request).await
    }

    async fn list_schedulers(
        &self,
        request: Request<api::ListSchedulersRequest>,
    ) -> Answer<api::ListSchedulersResponse> {
        self.answer(request).await
    }

    async fn update_scheduler(
        &self,
        request: Request<api::UpdateSchedulerRequest>,
    ) -> Answer<api::UpdateSchedulerResponse> {
        self.answer(request).await
    }

    async fn pause_scheduler(
        &self,
        request: Request<api::PauseSchedulerRequest>,
    ) -> Answer<api::PauseSchedulerResponse> {
        self.answer(request).await
    }

    async fn resume_scheduler(
        &self,
        request: Request<api::ResumeSchedulerRequest>,
    ) -> Answer<api::ResumeSchedulerResponse> {
        self.answer(request).await
    }

    async fn cancel_task(
        &self,
        request: Request<api::CancelTaskRequest>,
    ) -> Answer<api::CancelTaskResponse> {
        self.answer(request).await
    }

    async fn cancel_tasks(
        &self,
        request: Request<api::CancelTasksRequest>,
    ) -> Answer<api::CancelTasksResponse> {
        self.answer(request).await
    }

    async fn retry_task(
        &self,
        request: Request<api::RetryTaskRequest>,
    ) -> Answer<api::RetryTaskResponse> {
        self.answer(request).await
    }

    async fn retry_failed(
        &self,
        request: Request<api::RetryFailedRequest>,
    ) -> Answer<api::RetryFailedResponse> {
        self.answer(request).await
    }

    async fn get_task(
        &self,
        request: Request<api::GetTaskRequest>,
    ) -> Answer<api::GetTaskResponse> {
        self.answer(request).await
    }

    async fn explain_task(
        &self,
        request: Request<api::ExplainTaskRequest>,
    ) -> Answer<api::ExplainTaskResponse> {
        // The owner is not told what the caller may see.
        let sees_all = auth::visible(&request).is_none();
        let mut answer = self.answer(request).await?;
        if !sees_all {
            explanation::restrict(answer.get_mut());
        }
        Ok(answer)
    }

    async fn forecast_scheduler(
        &self,
        request: Request<api::ForecastSchedulerRequest>,
    ) -> Answer<api::ForecastSchedulerResponse> {
        self.answer(request).await
    }

    async fn list_tasks(
        &self,
        request: Request<api::ListTasksRequest>,
    ) -> Answer<api::ListTasksResponse> {
        self.answer(request).await
    }

    async fn list_attempts(
        &self,
        request: Request<api::ListAttemptsRequest>,
    ) -> Answer<api::ListAttemptsResponse> {
        self.answer(request).await
    }
}
