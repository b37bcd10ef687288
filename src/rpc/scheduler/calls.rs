//! The unary calls of SchedulerService, one line each: its messages, the method that carries it out
//! here, and by its own name the one that sends it to the owner.

use super::Schedulers;
use crate::rpc::forwarding::unary::unary_calls;
use rallypoint_client::api::scheduler_service_client::SchedulerServiceClient;

unary_calls! {
    Schedulers, SchedulerServiceClient:
    get_scheduler(GetSchedulerRequest) -> GetSchedulerResponse = open, of "scheduler" name, creates by request_id;
    exec_async(ExecAsyncRequest) -> ExecAsyncResponse = submit, creates by request_id;
    release_scheduler(ReleaseSchedulerRequest) -> ReleaseSchedulerResponse = release, of "scheduler" handle, waits if wait;
    describe_scheduler(DescribeSchedulerRequest) -> DescribeSchedulerResponse = describe;
    list_schedulers(ListSchedulersRequest) -> ListSchedulersResponse = schedulers;
    update_scheduler(UpdateSchedulerRequest) -> UpdateSchedulerResponse = update, of "scheduler" handle;
    pause_scheduler(PauseSchedulerRequest) -> PauseSchedulerResponse = pause, of "scheduler" handle;
    resume_scheduler(ResumeSchedulerRequest) -> ResumeSchedulerResponse = resume, of "scheduler" handle;
    cancel_task(CancelTaskRequest) -> CancelTaskResponse = cancel, of "task" id;
    cancel_tasks(CancelTasksRequest) -> CancelTasksResponse = cancel_tasks, of "scheduler" handle, dry if dry_run;
    retry_task(RetryTaskRequest) -> RetryTaskResponse = retry, of "task" id;
    retry_failed(RetryFailedRequest) -> RetryFailedResponse = retry_failed, of "scheduler" handle, creates by request_id;
    get_task(GetTaskRequest) -> GetTaskResponse = task;
    explain_task(ExplainTaskRequest) -> ExplainTaskResponse = explain;
    forecast_scheduler(ForecastSchedulerRequest) -> ForecastSchedulerResponse = forecast;
    list_tasks(ListTasksRequest) -> ListTasksResponse = tasks;
    list_attempts(ListAttemptsRequest) -> ListAttemptsResponse = attempts;
}

#[cfg(test)]
mod tests {
    use super::Schedulers;
    use crate::rpc::forwarding::unary::Unary;
    use rallypoint_client::api;

    fn lacks_one(mut call: impl Unary<Schedulers>) -> bool {
        call.request_id().is_some_and(|id| id.is_empty())
    }

    #[test]
    fn only_what_would_be_created_twice_needs_a_request_id() {
        let exec = |request_id: &str| api::ExecAsyncRequest {
            request_id: request_id.into(),
            ..Default::default()
        };
        assert!(lacks_one(exec("")));
        assert!(!lacks_one(exec("of the caller")));
        assert!(lacks_one(api::GetSchedulerRequest::default()));
        assert!(!lacks_one(api::CancelTaskRequest::default()));
        assert!(!lacks_one(api::ReleaseSchedulerRequest::default()));
    }
}
