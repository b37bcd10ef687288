//! The unary calls of SchedulerService, one line each: its messages, the method that carries it out
//! here, and by its own name the one that sends it to the owner.

use super::{
    Schedulers,
    unary::{Owner, Unary},
};
use crate::core::Caller;
use rallypoint_client::api;
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// `creates by FIELD`: the call creates something each time it is made without a request id there.
/// `waits if FIELD`: it then waits for tasks.
macro_rules! unary {
    ($($call:ident($request:ident) -> $response:ident = $run:ident
        $(, creates by $id:ident)? $(, waits if $waits:ident)?;)*) => {
        $(impl Unary for api::$request {
            type Response = api::$response;

            $(fn request_id(&mut self) -> Option<&mut String> {
                Some(&mut self.$id)
            })?

            $(fn waits(&self) -> bool {
                self.$waits
            })?

            async fn run(
                self: Arc<Self>,
                here: &Schedulers,
                caller: Caller,
            ) -> Result<Self::Response, Status> {
                here.$run(caller, self).await
            }

            async fn send(
                mut owner: Owner,
                request: Request<Self>,
            ) -> Result<Response<Self::Response>, Status> {
                owner.$call(request).await
            }
        })*
    };
}

unary! {
    get_scheduler(GetSchedulerRequest) -> GetSchedulerResponse = open, creates by request_id;
    exec_async(ExecAsyncRequest) -> ExecAsyncResponse = submit, creates by request_id;
    release_scheduler(ReleaseSchedulerRequest) -> ReleaseSchedulerResponse = release, waits if wait;
    describe_scheduler(DescribeSchedulerRequest) -> DescribeSchedulerResponse = describe;
    list_schedulers(ListSchedulersRequest) -> ListSchedulersResponse = schedulers;
    update_scheduler(UpdateSchedulerRequest) -> UpdateSchedulerResponse = update;
    pause_scheduler(PauseSchedulerRequest) -> PauseSchedulerResponse = pause;
    resume_scheduler(ResumeSchedulerRequest) -> ResumeSchedulerResponse = resume;
    cancel_task(CancelTaskRequest) -> CancelTaskResponse = cancel;
    get_task(GetTaskRequest) -> GetTaskResponse = task;
    explain_task(ExplainTaskRequest) -> ExplainTaskResponse = explain;
    list_tasks(ListTasksRequest) -> ListTasksResponse = tasks;
}
