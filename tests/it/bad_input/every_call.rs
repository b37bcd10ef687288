//! Every call that names a scheduler, made with one handle: what must hold for all of them is
//! tested on all of them.

use super::live::{Schedulers, from, noop};
use rallypoint_client::api;
use tonic::Status;

/// The field of a request that holds the handle.
pub(super) const HANDLE: &str = "handle";
/// The same where the request names a task.
pub(super) const TASK_HANDLE: &str = "id.handle";

/// Makes every call with a handle that must not work for this namespace; returns the field that
/// holds the handle, and the error, of each.
pub(super) async fn errors(
    client: &mut Schedulers,
    namespace: &'static str,
    handle: &str,
) -> Vec<(&'static str, Status)> {
    let mut errors = errors_of_commands(client, namespace, handle).await;
    errors.extend(errors_of_cancels(client, namespace, handle).await);
    errors.extend(errors_of_retries(client, namespace, handle).await);
    errors.extend(errors_of_reads(client, namespace, handle).await);
    errors
}

async fn errors_of_commands(
    client: &mut Schedulers,
    namespace: &'static str,
    handle: &str,
) -> Vec<(&'static str, Status)> {
    let text = || handle.to_owned();
    let exec = api::ExecAsyncRequest {
        handle: text(),
        tasks: vec![noop(None)],
        ..Default::default()
    };
    let release = api::ReleaseSchedulerRequest {
        handle: text(),
        wait: true,
        ..Default::default()
    };
    let update = api::UpdateSchedulerRequest {
        handle: text(),
        settings: None,
        update_mask: Some(prost_types::FieldMask {
            paths: vec!["weight".into()],
        }),
    };
    let pause = api::PauseSchedulerRequest { handle: text() };
    let resume = api::ResumeSchedulerRequest {
        handle: text(),
        ignore_failures: true,
    };
    vec![
        (
            HANDLE,
            error(client.exec_async(from(namespace, exec)).await),
        ),
        (
            HANDLE,
            error(client.release_scheduler(from(namespace, release)).await),
        ),
        (
            HANDLE,
            error(client.update_scheduler(from(namespace, update)).await),
        ),
        (
            HANDLE,
            error(client.pause_scheduler(from(namespace, pause)).await),
        ),
        (
            HANDLE,
            error(client.resume_scheduler(from(namespace, resume)).await),
        ),
    ]
}

async fn errors_of_cancels(
    client: &mut Schedulers,
    namespace: &'static str,
    handle: &str,
) -> Vec<(&'static str, Status)> {
    let cancel = api::CancelTaskRequest { id: first(handle) };
    let cancel_tasks = api::CancelTasksRequest {
        handle: handle.to_owned(),
        filter: Some(Default::default()),
        ..Default::default()
    };
    vec![
        (
            TASK_HANDLE,
            error(client.cancel_task(from(namespace, cancel)).await),
        ),
        (
            HANDLE,
            error(client.cancel_tasks(from(namespace, cancel_tasks)).await),
        ),
    ]
}

async fn errors_of_retries(
    client: &mut Schedulers,
    namespace: &'static str,
    handle: &str,
) -> Vec<(&'static str, Status)> {
    let retry = api::RetryTaskRequest {
        id: first(handle),
        ..Default::default()
    };
    let retry_failed = api::RetryFailedRequest {
        handle: handle.to_owned(),
        ..Default::default()
    };
    vec![
        (
            TASK_HANDLE,
            error(client.retry_task(from(namespace, retry)).await),
        ),
        (
            HANDLE,
            error(client.retry_failed(from(namespace, retry_failed)).await),
        ),
    ]
}

async fn errors_of_reads(
    client: &mut Schedulers,
    namespace: &'static str,
    handle: &str,
) -> Vec<(&'static str, Status)> {
    let watch = api::SynchronizationRequest {
        handle: handle.to_owned(),
        ..Default::default()
    };
    let describe = api::DescribeSchedulerRequest {
        handle: handle.to_owned(),
        ..Default::default()
    };
    let list = api::ListTasksRequest {
        handle: handle.to_owned(),
        ..Default::default()
    };
    let get = api::GetTaskRequest { id: first(handle) };
    let explain = api::ExplainTaskRequest { id: first(handle) };
    let forecast = api::ForecastSchedulerRequest {
        handle: handle.to_owned(),
        ..Default::default()
    };
    vec![
        (
            HANDLE,
            error(client.synchronization(from(namespace, watch)).await),
        ),
        (
            HANDLE,
            error(client.describe_scheduler(from(namespace, describe)).await),
        ),
        (
            HANDLE,
            error(client.list_tasks(from(namespace, list)).await),
        ),
        (
            TASK_HANDLE,
            error(client.get_task(from(namespace, get)).await),
        ),
        (
            TASK_HANDLE,
            error(client.explain_task(from(namespace, explain)).await),
        ),
        (
            HANDLE,
            error(client.forecast_scheduler(from(namespace, forecast)).await),
        ),
    ]
}

fn first(handle: &str) -> Option<api::TaskId> {
    Some(api::TaskId {
        handle: handle.to_owned(),
        seq: 1,
    })
}

fn error<T: std::fmt::Debug>(result: Result<T, Status>) -> Status {
    result.expect_err("the handle does not work")
}
