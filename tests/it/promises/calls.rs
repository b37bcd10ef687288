//! Calls that may be repeated: a request id has its effect once, and none with another payload.

use crate::harness::{
    conversation::Conversation,
    server::{Server, Setup},
    work::{Work, noop, sleep},
};
use rallypoint::core::model::limits::Limits;
use rallypoint_client::api::{
    ExecAsyncRequest, ExecAsyncResponse, GetSchedulerRequest, ReleaseMode, Scheduler,
    SchedulerSettings,
};
use tonic::{Code, Status};
use tonic_types::StatusExt;
use uuid::Uuid;

#[tokio::test]
async fn a_repeated_submit_gives_the_same_ids_and_has_its_effect_once() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let request = submit(scheduler.handle(), [noop(), sleep(1)]);
    let first = exec_raw(&server, &request).await.expect("accepted");
    scheduler.all_done().await;
    let again = exec_raw(&server, &request).await.expect("accepted");
    assert_eq!(again, first);
    assert_eq!(submitted(&scheduler).await, 2);
}

#[tokio::test]
async fn repeats_at_the_same_time_have_their_effect_once() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let request = submit(scheduler.handle(), noop().times(100));
    let calls = (0..20).map(|_| {
        let (mut client, request) = (server.raw(), request.clone());
        tokio::spawn(async move {
            client
                .exec_async(request)
                .await
                .expect("accepted")
                .into_inner()
                .first_seq
        })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.expect("no panic"), 1);
    }
    assert_eq!(scheduler.all_done().await.len(), 100);
}

#[tokio::test]
async fn another_payload_under_a_used_request_id_is_refused() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let request = submit(scheduler.handle(), [noop()]);
    exec_raw(&server, &request).await.expect("accepted");
    let other = ExecAsyncRequest {
        tasks: vec![sleep(1).into()],
        ..request
    };
    let status = exec_raw(&server, &other).await.expect_err("refused");
    assert_eq!(status.code(), Code::AlreadyExists);
    assert_eq!(
        status
            .get_error_details()
            .error_info()
            .map(|info| info.reason.as_str()),
        Some("REQUEST_ID_REUSED")
    );
    assert_eq!(scheduler.all_done().await.len(), 1);
}

#[tokio::test]
async fn a_repeated_open_gives_the_same_scheduler() {
    let server = Server::start().await;
    let request = GetSchedulerRequest {
        settings: Some(SchedulerSettings::default()),
        request_id: Uuid::now_v7().to_string(),
        ..Default::default()
    };
    let mut handles = Vec::new();
    for _ in 0..3 {
        handles.push(open_raw(&server, &request).await.expect("opened").handle);
    }
    assert!(
        handles.iter().all(|handle| *handle == handles[0]),
        "{handles:?}"
    );
    let other = GetSchedulerRequest {
        settings: Some(another()),
        ..request
    };
    let status = open_raw(&server, &other).await.expect_err("refused");
    assert_eq!(status.code(), Code::AlreadyExists);
}

#[tokio::test]
async fn calls_can_be_repeated_when_their_scheduler_has_ended_and_left_memory() {
    let limits = Limits {
        ended_schedulers: 0,
        ..Limits::default()
    };
    let server = Server::with(Setup {
        limits,
        ..Setup::default()
    })
    .await;
    let open = GetSchedulerRequest {
        settings: Some(SchedulerSettings::default()),
        request_id: Uuid::now_v7().to_string(),
        ..Default::default()
    };
    let handle = open_raw(&server, &open).await.expect("opened").handle;
    let request = submit(&handle, [noop()]);
    let first = exec_raw(&server, &request).await.expect("accepted");
    let scheduler = server.client.scheduler(&handle);
    scheduler
        .release(ReleaseMode::Finish, true)
        .await
        .expect("released");
    scheduler
        .describe()
        .await
        .expect("from memory or the journal: then it has left memory");

    let again = open_raw(&server, &open).await.expect("opened");
    assert_eq!((again.handle, again.submitted), (handle, 1));
    let again = exec_raw(&server, &request).await.expect("accepted");
    assert_eq!(again, first);
    let other = GetSchedulerRequest {
        settings: Some(another()),
        ..open
    };
    let reused = open_raw(&server, &other).await.expect_err("refused");
    assert_eq!(reused.code(), Code::AlreadyExists);
    let new = ExecAsyncRequest {
        request_id: Uuid::now_v7().to_string(),
        ..request
    };
    let released = exec_raw(&server, &new).await.expect_err("refused");
    assert_eq!(released.code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn a_call_takes_all_of_its_tasks_or_none() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let request = submit(
        scheduler.handle(),
        [noop(), noop().on("nowhere"), noop().order(-1)],
    );
    let status = exec_raw(&server, &request).await.expect_err("refused");
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(submitted(&scheduler).await, 0);
}

/// One call, without the repetitions of the client.
async fn exec_raw(
    server: &Server,
    request: &ExecAsyncRequest,
) -> Result<ExecAsyncResponse, Status> {
    let response = server.raw().exec_async(request.clone()).await?;
    Ok(response.into_inner())
}

async fn open_raw(server: &Server, request: &GetSchedulerRequest) -> Result<Scheduler, Status> {
    let response = server.raw().get_scheduler(request.clone()).await?;
    Ok(response.into_inner().scheduler.expect("a scheduler"))
}

async fn submitted(scheduler: &Conversation) -> i64 {
    let now = scheduler.scheduler.describe().await.expect("described");
    now.submitted
}

fn another() -> SchedulerSettings {
    SchedulerSettings {
        display_name: "another".into(),
        ..Default::default()
    }
}

fn submit(handle: &str, work: impl IntoIterator<Item = Work>) -> ExecAsyncRequest {
    let tasks = work.into_iter().map(Into::into).collect();
    ExecAsyncRequest {
        handle: handle.to_owned(),
        request_id: Uuid::now_v7().to_string(),
        tasks,
    }
}
