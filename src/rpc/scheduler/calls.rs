//! The unary calls of SchedulerService: how each is carried out here, and how it is sent to the
//! owner. Each is the same walk: validate, ask the coordinator, translate the reply.

use super::{
    Schedulers,
    unary::{Owner, Unary},
    validate,
};
use crate::{
    core::{Caller, Reply, Verb},
    rpc::errors,
};
use rallypoint_client::api;
use std::sync::Arc;
use tonic::{Request, Response, Status};

impl Unary for api::GetSchedulerRequest {
    type Response = api::GetSchedulerResponse;

    fn request_id(&mut self) -> Option<&mut String> {
        Some(&mut self.request_id)
    }

    async fn run(
        self: Arc<Self>,
        here: &Schedulers,
        caller: Caller,
    ) -> Result<Self::Response, Status> {
        let scheduler = Some(here.open(caller, &self).await?);
        Ok(api::GetSchedulerResponse { scheduler })
    }

    async fn send(
        mut owner: Owner,
        request: Request<Self>,
    ) -> Result<Response<Self::Response>, Status> {
        owner.get_scheduler(request).await
    }
}

impl Unary for api::ExecAsyncRequest {
    type Response = api::ExecAsyncResponse;

    fn request_id(&mut self) -> Option<&mut String> {
        Some(&mut self.request_id)
    }

    async fn run(
        self: Arc<Self>,
        here: &Schedulers,
        caller: Caller,
    ) -> Result<Self::Response, Status> {
        let (handle, submit) = validate::exec_async(&self, &here.targets)?;
        // Unless it may have to be forwarded later, the request is gone before the call waits.
        drop(self);
        match here.ask(caller, handle, Verb::Submit(submit)).await? {
            Reply::Submitted {
                first_seq,
                count,
                done_no,
            } => Ok(api::ExecAsyncResponse {
                first_seq: first_seq.0,
                count: count as i32,
                done_no: done_no.0,
            }),
            other => Err(errors::mismatched_reply(&other)),
        }
    }

    async fn send(
        mut owner: Owner,
        request: Request<Self>,
    ) -> Result<Response<Self::Response>, Status> {
        owner.exec_async(request).await
    }
}

impl Unary for api::ReleaseSchedulerRequest {
    type Response = api::ReleaseSchedulerResponse;

    async fn run(
        self: Arc<Self>,
        here: &Schedulers,
        caller: Caller,
    ) -> Result<Self::Response, Status> {
        here.release(caller, &self).await
    }

    async fn send(
        mut owner: Owner,
        request: Request<Self>,
    ) -> Result<Response<Self::Response>, Status> {
        owner.release_scheduler(request).await
    }
}

impl Unary for api::DescribeSchedulerRequest {
    type Response = api::DescribeSchedulerResponse;

    async fn run(
        self: Arc<Self>,
        here: &Schedulers,
        caller: Caller,
    ) -> Result<Self::Response, Status> {
        let handle = validate::handle(&self.handle)?;
        let scheduler = Some(here.scheduler(caller, handle, Verb::Describe).await?);
        Ok(api::DescribeSchedulerResponse { scheduler })
    }

    async fn send(
        mut owner: Owner,
        request: Request<Self>,
    ) -> Result<Response<Self::Response>, Status> {
        owner.describe_scheduler(request).await
    }
}

impl Unary for api::ListSchedulersRequest {
    type Response = api::ListSchedulersResponse;

    async fn run(
        self: Arc<Self>,
        here: &Schedulers,
        caller: Caller,
    ) -> Result<Self::Response, Status> {
        here.schedulers(caller, &self).await
    }

    async fn send(
        mut owner: Owner,
        request: Request<Self>,
    ) -> Result<Response<Self::Response>, Status> {
        owner.list_schedulers(request).await
    }
}

impl Unary for api::UpdateSchedulerRequest {
    type Response = api::UpdateSchedulerResponse;

    async fn run(
        self: Arc<Self>,
        here: &Schedulers,
        caller: Caller,
    ) -> Result<Self::Response, Status> {
        let (handle, update) = validate::update(Arc::unwrap_or_clone(self))?;
        let verb = Verb::Update(update);
        let scheduler = Some(here.scheduler(caller, handle, verb).await?);
        Ok(api::UpdateSchedulerResponse { scheduler })
    }

    async fn send(
        mut owner: Owner,
        request: Request<Self>,
    ) -> Result<Response<Self::Response>, Status> {
        owner.update_scheduler(request).await
    }
}

impl Unary for api::PauseSchedulerRequest {
    type Response = api::PauseSchedulerResponse;

    async fn run(
        self: Arc<Self>,
        here: &Schedulers,
        caller: Caller,
    ) -> Result<Self::Response, Status> {
        let handle = validate::handle(&self.handle)?;
        let scheduler = Some(here.scheduler(caller, handle, Verb::Pause).await?);
        Ok(api::PauseSchedulerResponse { scheduler })
    }

    async fn send(
        mut owner: Owner,
        request: Request<Self>,
    ) -> Result<Response<Self::Response>, Status> {
        owner.pause_scheduler(request).await
    }
}

impl Unary for api::ResumeSchedulerRequest {
    type Response = api::ResumeSchedulerResponse;

    async fn run(
        self: Arc<Self>,
        here: &Schedulers,
        caller: Caller,
    ) -> Result<Self::Response, Status> {
        let handle = validate::handle(&self.handle)?;
        let verb = Verb::Resume {
            ignore_failures: self.ignore_failures,
        };
        let scheduler = Some(here.scheduler(caller, handle, verb).await?);
        Ok(api::ResumeSchedulerResponse { scheduler })
    }

    async fn send(
        mut owner: Owner,
        request: Request<Self>,
    ) -> Result<Response<Self::Response>, Status> {
        owner.resume_scheduler(request).await
    }
}

impl Unary for api::CancelTaskRequest {
    type Response = api::CancelTaskResponse;

    async fn run(
        self: Arc<Self>,
        here: &Schedulers,
        caller: Caller,
    ) -> Result<Self::Response, Status> {
        let id = validate::task_id(self.id.as_ref())?;
        here.cancel(caller, id).await
    }

    async fn send(
        mut owner: Owner,
        request: Request<Self>,
    ) -> Result<Response<Self::Response>, Status> {
        owner.cancel_task(request).await
    }
}

impl Unary for api::GetTaskRequest {
    type Response = api::GetTaskResponse;

    async fn run(
        self: Arc<Self>,
        here: &Schedulers,
        caller: Caller,
    ) -> Result<Self::Response, Status> {
        let id = validate::task_id(self.id.as_ref())?;
        let task = Some(here.task(caller, id).await?);
        Ok(api::GetTaskResponse { task })
    }

    async fn send(
        mut owner: Owner,
        request: Request<Self>,
    ) -> Result<Response<Self::Response>, Status> {
        owner.get_task(request).await
    }
}

impl Unary for api::ListTasksRequest {
    type Response = api::ListTasksResponse;

    async fn run(
        self: Arc<Self>,
        here: &Schedulers,
        caller: Caller,
    ) -> Result<Self::Response, Status> {
        here.tasks(caller, &self).await
    }

    async fn send(
        mut owner: Owner,
        request: Request<Self>,
    ) -> Result<Response<Self::Response>, Status> {
        owner.list_tasks(request).await
    }
}
