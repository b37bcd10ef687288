//! A scheduler as its caller holds it: submit, wait, release, and the companions. Every call may be
//! repeated, and is, when it is not known whether it had an effect.

use crate::api;
use crate::{Client, DoneStream, error::Result, request_id};

/// An open (or released) scheduler, by its handle. Clones speak over the same connection.
#[derive(Clone, Debug)]
pub struct Scheduler {
    client: Client,
    handle: String,
}

impl Scheduler {
    pub(super) fn new(client: Client, handle: String) -> Self {
        Scheduler { client, handle }
    }

    /// Its handle.
    pub fn handle(&self) -> &str {
        &self.handle
    }

    /// Submits tasks: all or nothing, durable when it returns.
    pub async fn exec(&self, tasks: Vec<api::Task>) -> Result<api::ExecAsyncResponse> {
        let request = api::ExecAsyncRequest {
            handle: self.handle.clone(),
            request_id: request_id(),
            tasks,
        };
        self.client.scheduler_call("ExecAsync", request).await
    }

    /// The events after `after` until the goal is met (`None`: all tasks submitted so far have
    /// ended). The stream resumes by itself when it breaks.
    pub async fn synchronize(
        &self,
        after: i64,
        until: Option<api::until::Kind>,
    ) -> Result<DoneStream> {
        DoneStream::open(self.client.clone(), self.handle.clone(), after, until).await
    }

    /// Ends the conversation; with `wait` it returns when every task has ended.
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

    /// Settings and counts.
    pub async fn describe(&self) -> Result<api::Scheduler> {
        let request = api::DescribeSchedulerRequest {
            handle: self.handle.clone(),
        };
        let response: api::DescribeSchedulerResponse = self
            .client
            .scheduler_call("DescribeScheduler", request)
            .await?;
        Ok(response.scheduler.unwrap_or_default())
    }

    /// Takes the settings named in `mask`.
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

    /// Starts nothing more.
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

    /// Lifts a pause, and with `ignore_failures` a halt.
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

    /// Cancels a task.
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

    /// A task with its body and its full result.
    pub async fn task(&self, seq: i64) -> Result<api::TaskView> {
        let request = api::GetTaskRequest {
            id: Some(self.task_id(seq)),
        };
        let response: api::GetTaskResponse = self.client.scheduler_call("GetTask", request).await?;
        Ok(response.task.unwrap_or_default())
    }

    /// A page of tasks, newest first. Its `handle` is filled in.
    pub async fn tasks(&self, request: api::ListTasksRequest) -> Result<api::ListTasksResponse> {
        let request = api::ListTasksRequest {
            handle: self.handle.clone(),
            ..request
        };
        self.client.scheduler_call("ListTasks", request).await
    }

    fn task_id(&self, seq: i64) -> api::TaskId {
        api::TaskId {
            handle: self.handle.clone(),
            seq,
        }
    }
}
