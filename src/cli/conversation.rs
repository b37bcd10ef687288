//! A conversation as the command line holds it: open, submit, follow, release.
//!
//! Calls carry request ids and are repeated while the server is briefly away, so nothing runs twice; the stream is
//! resumed by its cursor, so no event is missed or printed twice.

use super::Failure;
use crate::api::{
    ExecAsyncRequest, GetSchedulerRequest, Goal, ReleaseMode, ReleaseSchedulerRequest, ReleaseSchedulerResponse,
    SchedulerSettings, SynchronizationRequest, SynchronizationResponse, Task, scheduler_service_client::SchedulerServiceClient,
};
use crate::core::limits;
use prost::Message;
use std::{
    future::Future,
    time::{Duration, Instant},
};
use tonic::{Code, Response, Status, Streaming, transport::Channel};
use tonic_types::StatusExt;
use uuid::Uuid;

/// How long a server may be away before the command line gives up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause before a stream that broke is opened again.
const REOPEN: Duration = Duration::from_millis(100);
/// Bytes of tasks put into one call: room is left for the rest of the message.
const CALL_BYTES: usize = limits::CALL_BYTES - (64 << 10);

/// An open scheduler.
#[derive(Clone)]
pub struct Conversation {
    client: SchedulerServiceClient<Channel>,
    /// Its name.
    pub handle: String,
}

impl Conversation {
    /// Opens a scheduler.
    pub async fn open(client: SchedulerServiceClient<Channel>, settings: SchedulerSettings) -> Result<Conversation, Failure> {
        let request = GetSchedulerRequest { settings: Some(settings), request_id: Uuid::now_v7().to_string() };
        let answer = patiently("cannot open a scheduler", || {
            let (mut client, request) = (client.clone(), request.clone());
            async move { client.get_scheduler(request).await }
        });
        let handle = answer.await?.scheduler.unwrap_or_default().handle;
        Ok(Conversation { client, handle })
    }

    /// Submits tasks in as many calls as their size needs; all orders of a call must be at least those of the call before,
    /// which is why the caller sorts them when there are many.
    pub async fn submit(&self, tasks: Vec<Task>) -> Result<(), Failure> {
        for call in calls(tasks) {
            let request = ExecAsyncRequest { handle: self.handle.clone(), request_id: Uuid::now_v7().to_string(), tasks: call };
            patiently("the tasks were not accepted", || {
                let (mut client, request) = (self.client.clone(), request.clone());
                async move { client.exec_async(request).await }
            })
            .await?;
        }
        Ok(())
    }

    /// Follows the events after `after` until every task submitted so far has ended.
    pub fn follow(&self, after: i64) -> Follow {
        Follow { client: self.client.clone(), handle: self.handle.clone(), after, goal: None, stream: None, ended: false }
    }

    /// Ends the conversation.
    pub async fn release(&self, mode: ReleaseMode, wait: bool) -> Result<ReleaseSchedulerResponse, Failure> {
        let request = ReleaseSchedulerRequest { handle: self.handle.clone(), mode: mode.into(), wait };
        patiently("the scheduler was not released", || {
            let (mut client, request) = (self.client.clone(), request.clone());
            async move { client.release_scheduler(request).await }
        })
        .await
    }
}

/// A stream of events that survives the server's absence.
pub struct Follow {
    client: SchedulerServiceClient<Channel>,
    handle: String,
    after: i64,
    goal: Option<Goal>,
    stream: Option<Streaming<SynchronizationResponse>>,
    ended: bool,
}

impl Follow {
    /// The next message; `None` after the last one. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Option<SynchronizationResponse>, Failure> {
        while !self.ended {
            if self.stream.is_none() {
                self.stream = Some(self.open().await?);
            }
            let Some(stream) = &mut self.stream else { continue };
            match stream.message().await {
                Ok(Some(message)) => return Ok(Some(self.seen(message))),
                Err(status) if wait_before_retry(&status).is_none() => {
                    return Err(Failure::rpc("the stream of events broke", &status));
                }
                Ok(None) | Err(_) => self.stream = None,
            }
            tokio::time::sleep(REOPEN).await;
        }
        Ok(None)
    }

    /// Number of the last event seen.
    pub fn after(&self) -> i64 {
        self.after
    }

    async fn open(&self) -> Result<Streaming<SynchronizationResponse>, Failure> {
        let request = SynchronizationRequest { handle: self.handle.clone(), after: self.after, until: None, resume: self.goal };
        patiently("cannot follow the scheduler", || {
            let (mut client, request) = (self.client.clone(), request.clone());
            async move { client.synchronization(request).await }
        })
        .await
    }

    fn seen(&mut self, message: SynchronizationResponse) -> SynchronizationResponse {
        self.after = message.done.last().map_or(self.after, |done| done.done_no);
        self.goal = message.goal.or(self.goal);
        self.ended = message.end.is_some();
        message
    }
}

/// Repeats a call while the server is away or asks for patience, at most a minute.
async fn patiently<T, F>(what: &str, call: impl Fn() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let begun = Instant::now();
    loop {
        let status = match call().await {
            Ok(answer) => return Ok(answer.into_inner()),
            Err(status) => status,
        };
        match wait_before_retry(&status) {
            Some(wait) if begun.elapsed() + wait < PATIENCE => tokio::time::sleep(wait).await,
            _ => return Err(Failure::rpc(what, &status)),
        }
    }
}

/// How long to wait before the call is worth repeating; `None`: repeating it would not help.
fn wait_before_retry(status: &Status) -> Option<Duration> {
    let asked = status.get_error_details().retry_info().and_then(|info| info.retry_delay);
    match (status.code(), asked) {
        (Code::Unavailable, wait) => Some(wait.unwrap_or(Duration::from_millis(200))),
        (Code::ResourceExhausted, Some(wait)) => Some(wait.max(Duration::from_millis(10))),
        _ => None,
    }
}

/// Cuts tasks into calls that keep the service's limits.
fn calls(tasks: Vec<Task>) -> Vec<Vec<Task>> {
    let mut calls: Vec<Vec<Task>> = Vec::new();
    let mut bytes = 0;
    for task in tasks {
        let size = task.encoded_len() + 8;
        match calls.last_mut() {
            Some(call) if call.len() < limits::TASKS_PER_CALL && bytes + size <= CALL_BYTES => {
                bytes += size;
                call.push(task);
            }
            _ => {
                bytes = size;
                calls.push(vec![task]);
            }
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{SqlTask, task::Kind};

    fn task(bytes: usize) -> Task {
        let sql = SqlTask { statement: "x".repeat(bytes), ..SqlTask::default() };
        Task { kind: Some(Kind::Sql(sql)), ..Task::default() }
    }

    #[test]
    fn calls_keep_the_limit_of_tasks() {
        let sizes: Vec<usize> = calls(vec![task(1); 20_001]).iter().map(Vec::len).collect();
        assert_eq!(sizes, [10_000, 10_000, 1]);
    }

    #[test]
    fn calls_keep_the_limit_of_bytes() {
        let calls = calls(vec![task(1 << 20); 7]);
        assert_eq!(calls.iter().map(Vec::len).sum::<usize>(), 7);
        assert!(calls.iter().all(|call| call.iter().map(Task::encoded_len).sum::<usize>() < limits::CALL_BYTES));
    }
}
