//! More work than the service can take: what does not fit is refused at once with a time to come
//! back, calls nobody waits for any more are not carried out, and what was accepted stays.

mod abuse;
mod half_sent;
mod refused;
mod unfetched;

use crate::harness::{
    server::{Server, Setup},
    work::noop,
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rallypoint_client::{
    Error,
    api::{
        ExecAsyncRequest, NoopTask, SchedulerSettings, Task,
        scheduler_service_client::SchedulerServiceClient, task::Kind,
    },
};
use sqlx::{Connection, Executor, PgConnection};
use std::time::Duration;
use tokio::task::JoinSet;
use tonic::{Code, Request};

/// Keeps the next batch from becoming durable until the session is dropped or closed.
async fn hold_batches(server: &Server) -> PgConnection {
    let mut holder = PgConnection::connect_with(&server.journal)
        .await
        .expect("connected");
    holder.execute("begin").await.expect("begun");
    holder
        .execute("lock table batch in access exclusive mode")
        .await
        .expect("locked");
    holder
}

/// Waits until the writer waits for the lock of [`hold_batches`].
async fn until_held(server: &Server) {
    let mut session = PgConnection::connect_with(&server.journal)
        .await
        .expect("connected");
    let waits = "select exists (
                     select 1
                     from pg_locks l
                     join pg_stat_activity a on a.pid = l.pid
                     where not l.granted
                       and l.relation = 'batch'::regclass
                       and a.datname = current_database()
                       and a.application_name = 'rallypoint journal writer')";
    while !sqlx::query_scalar::<_, bool>(waits)
        .fetch_one(&mut session)
        .await
        .expect("an answer")
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A client that does not watch the deadlines of its own calls: it learns from the server that one
/// has passed, and the server has then given up the call.
fn without_clock(
    server: &Server,
) -> SchedulerServiceClient<Client<HttpConnector, tonic::body::Body>> {
    let client = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http();
    SchedulerServiceClient::with_origin(client, server.url.parse().expect("a URL"))
}

#[tokio::test]
async fn a_call_whose_caller_has_given_up_before_it_was_decided_has_no_effect() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let holder = hold_batches(&server).await;
    let first = tokio::spawn({
        let scheduler = scheduler.clone();
        async move { scheduler.submit([noop()]).await }
    });
    until_held(&server).await;
    let tasks = vec![noop().into(), noop().into()];
    let mut second = Request::new(ExecAsyncRequest {
        handle: scheduler.handle().into(),
        tasks,
        ..Default::default()
    });
    second.set_timeout(Duration::from_millis(200));
    let code = without_clock(&server)
        .exec_async(second)
        .await
        .expect_err("it takes too long")
        .code();
    assert_eq!(code, Code::DeadlineExceeded);
    holder.close().await.expect("closed");
    assert_eq!(first.await.expect("no panic"), 1);
    assert_eq!(
        scheduler.submit([noop()]).await,
        2,
        "the second call was not decided"
    );
}

#[tokio::test]
async fn a_full_queue_refuses_at_once_and_loses_nothing_it_accepted() {
    let server = Server::with(Setup::default()).await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let holder = hold_batches(&server).await;
    let impatient = server.client.clone().with_retry_timeout(Duration::ZERO);
    let mut calls = JoinSet::new();
    // The queue takes 64 MiB.
    for _ in 0..30 {
        let scheduler = impatient.scheduler(scheduler.handle());
        calls.spawn(async move { scheduler.exec(large()).await });
    }
    let refused = calls
        .join_next()
        .await
        .expect("a call")
        .expect("no panic")
        .expect_err("one is refused before any is done");
    overloaded(&refused);
    holder.close().await.expect("closed");
    let mut accepted = 0;
    while let Some(call) = calls.join_next().await {
        match call.expect("no panic") {
            Ok(response) => accepted += i64::from(response.count),
            Err(error) => overloaded(&error),
        }
    }
    let now = scheduler.until(|now| now.submitted == now.done).await;
    assert_eq!(now.submitted, accepted);
    assert!(accepted > 0);
}

#[tokio::test]
async fn those_who_watch_what_runs_leave_places_to_other_namespaces() {
    let server = Server::with(Setup {
        trusted: true,
        ..Setup::default()
    })
    .await;
    let second = Duration::from_secs(1);
    let flood = server.of_namespace("flood");
    let mut open = Vec::new();
    let refused = loop {
        match flood.watch_executions(second).await {
            Ok(stream) => open.push(stream),
            Err(error) => break error,
        }
    };
    overloaded(&refused);
    let other = server.of_namespace("other").watch_executions(second).await;
    let mut other = other.expect("a place is left");
    let first = other.message().await.expect("it goes on");
    assert!(first.is_some_and(|first| !first.executions.is_empty()));
}

fn overloaded(error: &Error) {
    assert!(
        error.code == Code::Unavailable && error.is("OVERLOADED"),
        "{error:?}"
    );
    assert!(
        error.retry_after.is_some_and(|wait| !wait.is_zero()),
        "{error:?}"
    );
}

/// Almost 4 MiB.
fn large() -> Vec<Task> {
    let payload = vec![7; 1_000_000].into();
    vec![
        Task {
            kind: Some(Kind::Noop(NoopTask { payload })),
            ..Default::default()
        };
        4
    ]
}
