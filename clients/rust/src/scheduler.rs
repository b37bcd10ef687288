//! A scheduler as its caller uses it: submit, wait, release, inspect. Every call can be repeated,
//! and is while its outcome is unknown.

use crate::{Client, DoneStream, Outage, api, error::Result};
use std::time::Duration;

/// An open or released scheduler, identified by its handle. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Scheduler {
    client: Client,
    handle: String,
}

impl Scheduler {
    pub(super) fn new(client: Client, handle: String) -> Self {
        Scheduler { client, handle }
    }

    /// The handle: 36 characters that name this scheduler to [`Client::scheduler`].
    pub fn handle(&self) -> &str {
        &self.handle
    }

    /// Whether calls about this scheduler find a server that takes them. Streams have their own.
    pub fn outage(&self) -> Outage {
        self.client.outage()
    }

    /// Sets for how long calls about this scheduler are repeated, as
    /// [`Client::with_retry_timeout`] does for all.
    pub fn with_retry_timeout(self, retry_timeout: Duration) -> Scheduler {
        Scheduler {
            client: self.client.with_retry_timeout(retry_timeout),
            ..self
        }
    }

    /// Sets how long a call about this scheduler may take, as [`Client::with_time_limit`] does for
    /// all.
    pub fn with_time_limit(self, time_limit: Option<Duration>) -> Scheduler {
        Scheduler {
            client: self.client.with_time_limit(time_limit),
            ..self
        }
    }

    /// Sets the request id, a UUID, of one call that submits tasks or retries them all: made again
    /// under the same one, by this program or another, it has its effect once, within 15 minutes
    /// and while fewer than a million other calls have come since. So the tasks of a row of an
    /// outbox are submitted under the id of that row:
    /// `scheduler.clone().with_request_id(row.id).exec(tasks)`. Other tasks need another one, and
    /// are refused with `REQUEST_ID_REUSED` under this one.
    ///
    /// Without it each call has a new one, which an [`Error`](crate::Error) names.
    pub fn with_request_id(self, request_id: impl Into<String>) -> Scheduler {
        Scheduler {
            client: self.client.with_request_id(request_id),
            ..self
        }
    }

    /// Submits 1 to 10 000 tasks, 4 MiB in all: all or nothing, durable when it returns.
    ///
    /// Fails with `ORDER_CLOSED` when a task comes too late for its order, `HANDLE_RELEASED` after
    /// a release, and `QUEUE_FULL` or `SUBMIT_RATE_EXCEEDED` over a limit of the namespace.
    pub async fn exec(&self, tasks: Vec<api::Task>) -> Result<api::ExecAsyncResponse> {
        let request_id = self.client.request_id();
        let request = api::ExecAsyncRequest {
            handle: self.handle.clone(),
            request_id: request_id.clone(),
            tasks,
        };
        let taken = self.client.scheduler_call("ExecAsync", request).await;
        taken.map_err(|error| error.under(request_id))
    }

    /// The events with numbers above `after`, in order, until the goal is met. Without a goal:
    /// until every task submitted so far has ended. The stream resumes by itself when it breaks.
    ///
    /// Fails with `CURSOR_TRUNCATED` when `after` is past its retention.
    pub async fn synchronize(
        &self,
        after: i64,
        until: Option<api::until::Kind>,
    ) -> Result<DoneStream> {
        DoneStream::open(self.client.clone(), self.handle.clone(), after, until).await
    }

    /// Accepts no more tasks and lets the submitted ones finish or cancels them, as `mode` says.
    /// With `wait` it returns when every task has ended.
    pub async fn release(
        &self,
        mode: api::ReleaseMode,
        wait: bool,
    ) -> Result<api::ReleaseSchedulerResponse> {
        let request = api::ReleaseSchedulerRequest {
            handle: self.handle.clone(),
            mode: mode.into(),
            wait,
        };
        self.client
            .scheduler_call("ReleaseScheduler", request)
            .await
    }

    /// The settings of the scheduler and the counts of its tasks.
    pub async fn describe(&self) -> Result<api::Scheduler> {
        let request = api::DescribeSchedulerRequest {
            handle: self.handle.clone(),
            ..Default::default()
        };
        let response: api::DescribeSchedulerResponse = self
            .client
            .scheduler_call("DescribeScheduler", request)
            .await?;
        Ok(response.scheduler.unwrap_or_default())
    }

    /// The same, with when its tasks will have ended. Takes longer.
    pub async fn describe_with_forecast(
        &self,
    ) -> Result<(api::Scheduler, api::ForecastSchedulerResponse)> {
        let request = api::DescribeSchedulerRequest {
            handle: self.handle.clone(),
            forecast: true,
        };
        let response: api::DescribeSchedulerResponse = self
            .client
            .scheduler_call("DescribeScheduler", request)
            .await?;
        let (scheduler, forecast) = (response.scheduler, response.forecast);
        Ok((scheduler.unwrap_or_default(), forecast.unwrap_or_default()))
    }

    /// Changes the settings named in `mask`, such as `max_parallelism`.
    pub async fn update(
        &self,
        settings: api::SchedulerSettings,
        mask: &[&str],
    ) -> Result<api::Scheduler> {
        let paths = mask.iter().map(|path| path.to_string()).collect();
        let request = api::UpdateSchedulerRequest {
            handle: self.handle.clone(),
            settings: Some(settings),
            update_mask: Some(prost_types::FieldMask { paths }),
        };
        let response: api::UpdateSchedulerResponse = self
            .client
            .scheduler_call("UpdateScheduler", request)
            .await?;
        Ok(response.scheduler.unwrap_or_default())
    }

    /// Starts no more tasks until [`Scheduler::resume`]; running ones go on.
    pub async fn pause(&self) -> Result<api::Scheduler> {
        let request = api::PauseSchedulerRequest {
            handle: self.handle.clone(),
        };
        let response: api::PauseSchedulerResponse = self
            .client
            .scheduler_call("PauseScheduler", request)
            .await?;
        Ok(response.scheduler.unwrap_or_default())
    }

    /// Lifts a pause, and with `ignore_failures` also a halt.
    pub async fn resume(&self, ignore_failures: bool) -> Result<api::Scheduler> {
        let request = api::ResumeSchedulerRequest {
            handle: self.handle.clone(),
            ignore_failures,
        };
        let response: api::ResumeSchedulerResponse = self
            .client
            .scheduler_call("ResumeScheduler", request)
            .await?;
        Ok(response.scheduler.unwrap_or_default())
    }

    /// Cancels the task with number `seq`. A running task is stopped; one that has ended stays as
    /// it is.
    pub async fn cancel(&self, seq: i64) -> Result<api::CancelTaskResponse> {
        self.client
            .scheduler_call(
                "CancelTask",
                api::CancelTaskRequest {
                    id: Some(self.task_id(seq)),
                },
            )
            .await
    }

    /// Cancels the unfinished tasks that meet the filter of the request, some thousand of them, or
    /// with `dry_run` counts them: go on with the `next_page_token` of the answer until that is
    /// empty. The `handle` of the request is filled in.
    ///
    /// Fails with `FILTER_INVALID` where the filter asks how tasks have ended, and without one.
    pub async fn cancel_tasks(
        &self,
        request: api::CancelTasksRequest,
    ) -> Result<api::CancelTasksResponse> {
        let request = api::CancelTasksRequest {
            handle: self.handle.clone(),
            ..request
        };
        self.client.scheduler_call("CancelTasks", request).await
    }

    /// Submits a copy of the task with number `seq`, which has ended other than succeeded. A task
    /// has one retry at most, so calling this again answers with the same one.
    ///
    /// Fails with `TASK_UNFINISHED`, `TASK_SUCCEEDED`, and `HANDLE_RELEASED` after a release.
    pub async fn retry(&self, seq: i64) -> Result<api::RetryTaskResponse> {
        self.retry_task(seq, api::RetryTaskRequest::default()).await
    }

    /// As [`Scheduler::retry`], but the copy runs this statement instead: the task was wrong. Empty
    /// `params` and `target`: those of the task.
    ///
    /// Fails besides with `ALREADY_RETRIED` when the task has a retry that runs another statement.
    pub async fn retry_as(&self, seq: i64, sql: api::SqlTask) -> Result<api::RetryTaskResponse> {
        let request = api::RetryTaskRequest {
            sql: Some(sql),
            ..Default::default()
        };
        self.retry_task(seq, request).await
    }

    /// As [`Scheduler::retry_as`], with everything that the call can say but the task, which is set
    /// here.
    pub async fn retry_task(
        &self,
        seq: i64,
        request: api::RetryTaskRequest,
    ) -> Result<api::RetryTaskResponse> {
        let request = api::RetryTaskRequest {
            id: Some(self.task_id(seq)),
            ..request
        };
        self.client.scheduler_call("RetryTask", request).await
    }

    /// Retries the failed tasks that have no retry yet, about a thousand of them: go on with the
    /// `next_page_token` of the answer until that is empty. Without a filter: all that failed.
    ///
    /// Fails with `HANDLE_RELEASED` after a release.
    pub async fn retry_failed(
        &self,
        filter: Option<api::TaskFilter>,
        page_token: String,
    ) -> Result<api::RetryFailedResponse> {
        let request_id = self.client.request_id();
        let request = api::RetryFailedRequest {
            handle: self.handle.clone(),
            request_id: request_id.clone(),
            filter,
            page_token,
        };
        let retried = self.client.scheduler_call("RetryFailed", request).await;
        retried.map_err(|error| error.under(request_id))
    }

    /// The task with number `seq`, with its body and its full result.
    pub async fn task(&self, seq: i64) -> Result<api::TaskView> {
        let request = api::GetTaskRequest {
            id: Some(self.task_id(seq)),
        };
        let response: api::GetTaskResponse = self.client.scheduler_call("GetTask", request).await?;
        Ok(response.task.unwrap_or_default())
    }

    /// Why the task with number `seq` is not running, or what of it runs.
    pub async fn explain(&self, seq: i64) -> Result<api::ExplainTaskResponse> {
        let request = api::ExplainTaskRequest {
            id: Some(self.task_id(seq)),
        };
        self.client.scheduler_call("ExplainTask", request).await
    }

    /// When the tasks submitted so far will have ended. The `handle` of the request is filled in.
    pub async fn forecast(
        &self,
        request: api::ForecastSchedulerRequest,
    ) -> Result<api::ForecastSchedulerResponse> {
        let request = api::ForecastSchedulerRequest {
            handle: self.handle.clone(),
            ..request
        };
        self.client
            .scheduler_call("ForecastScheduler", request)
            .await
    }

    /// One page of tasks, newest first. The `handle` of the request is filled in.
    pub async fn tasks(&self, request: api::ListTasksRequest) -> Result<api::ListTasksResponse> {
        let request = api::ListTasksRequest {
            handle: self.handle.clone(),
            ..request
        };
        self.client.scheduler_call("ListTasks", request).await
    }

    /// One page of the attempts of a task, the first one first. Its name is filled in.
    pub async fn attempts(
        &self,
        seq: i64,
        request: api::ListAttemptsRequest,
    ) -> Result<api::ListAttemptsResponse> {
        let request = api::ListAttemptsRequest {
            id: Some(self.task_id(seq)),
            ..request
        };
        self.client.scheduler_call("ListAttempts", request).await
    }

    fn task_id(&self, seq: i64) -> api::TaskId {
        api::TaskId {
            handle: self.handle.clone(),
            seq,
        }
    }
}
