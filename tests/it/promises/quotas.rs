//! Quotas of a namespace: over one a call is refused whole with RESOURCE_EXHAUSTED, says whose limit it is and when to come
//! back; what ends is given back, also across a restart; other namespaces do not notice.

use crate::harness::{
    postgres::{connect, durable, value},
    server::{Server, Setup},
    work::{Work, noop, sql},
};
use rallypoint::core::model::limits::Limits;
use rallypoint_client::{
    Client,
    api::{
        ExecAsyncRequest, GetSchedulerRequest, SchedulerSettings, SynchronizationRequest, Until,
        scheduler_service_client::SchedulerServiceClient, until::Kind,
    },
};
use sqlx::Connection;
use std::time::Duration;
use tonic::{
    Code, Request, Status,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt;

/// Reason, limit, value, subject and whether it says when to come back, of an error that names them all alike.
fn refusal<T: std::fmt::Debug>(result: Result<T, Status>) -> (String, String, i64, String, bool) {
    let status = result.expect_err("it is over the limit");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    let details = status.get_error_details();
    let info = details.error_info().expect("ErrorInfo");
    let [violation] = &details.quota_failure().expect("QuotaFailure").violations[..] else {
        panic!("one violation")
    };
    assert_eq!(info.metadata["limit"], violation.quota_metric);
    assert_eq!(info.metadata["value"], violation.quota_value.to_string());
    assert!(
        violation.description.contains(&violation.quota_metric),
        "{violation:?}"
    );
    let waits = details
        .retry_info()
        .is_some_and(|info| info.retry_delay.is_some_and(|wait| !wait.is_zero()));
    (
        info.reason.clone(),
        violation.quota_metric.clone(),
        violation.quota_value,
        violation.subject.clone(),
        waits,
    )
}

fn over(reason: &str, limit: &str, value: i64) -> (String, String, i64, String, bool) {
    (
        reason.into(),
        limit.into(),
        value,
        "namespace:default".into(),
        true,
    )
}

fn exec(handle: &str, work: impl IntoIterator<Item = Work>) -> ExecAsyncRequest {
    let tasks = work.into_iter().map(Into::into).collect();
    ExecAsyncRequest {
        handle: handle.into(),
        tasks,
        ..Default::default()
    }
}

async fn limited(limits: Limits) -> (Server, SchedulerServiceClient<Channel>) {
    let server = Server::with(Setup {
        trusted: true,
        limits,
        ..Setup::default()
    })
    .await;
    let calls = server.raw();
    (server, calls)
}

#[tokio::test]
async fn a_scheduler_too_many_is_refused_until_one_is_released() {
    let (server, mut calls) = limited(Limits {
        open_schedulers: 1,
        ..Limits::default()
    })
    .await;
    let only = server.open(SchedulerSettings::default()).await;
    let refused = calls.get_scheduler(GetSchedulerRequest::default()).await;
    assert_eq!(
        refusal(refused),
        over("TOO_MANY_SCHEDULERS", "open_schedulers", 1)
    );
    server
        .open_as(&server.of_namespace("other"), SchedulerSettings::default())
        .await;
    only.cancel_everything().await;
    calls
        .get_scheduler(GetSchedulerRequest::default())
        .await
        .expect("there is room");
}

#[tokio::test]
async fn tasks_over_the_quota_are_refused_whole_until_some_have_ended() {
    let (server, mut calls) = limited(Limits {
        queued_tasks: 3,
        ..Limits::default()
    })
    .await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler.submit(gate.task().times(2)).await;
    let two = || exec(scheduler.handle(), noop().times(2));
    assert_eq!(
        refusal(calls.exec_async(two()).await),
        over("QUEUE_FULL", "queued_tasks", 3)
    );
    assert_eq!(
        scheduler
            .scheduler
            .describe()
            .await
            .expect("described")
            .submitted,
        2
    );
    gate.open().await;
    scheduler.all_done().await;
    calls.exec_async(two()).await.expect("there is room");
}

#[tokio::test]
async fn bytes_over_the_quota_are_refused_also_after_a_restart_until_tasks_have_ended() {
    let limits = Limits {
        queued_bytes: 10 << 10,
        ..Limits::default()
    };
    let postgres = durable(Vec::new());
    let large = || sql(format!("select 1 --{}", "x".repeat(3_000)));
    let setup = || Setup {
        postgres: Some(&postgres),
        limits,
        ..Setup::default()
    };
    let full = over("QUEUE_FULL", "queued_bytes", 10 << 10);
    let server = Server::with(setup()).await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler.scheduler.pause().await.expect("paused");
    scheduler.submit(large().times(3)).await;
    assert_eq!(
        refusal(
            server
                .raw()
                .exec_async(exec(scheduler.handle(), [large()]))
                .await
        ),
        full
    );
    drop(server);

    let server = Server::with(setup()).await;
    let mut calls = server.raw();
    assert_eq!(
        refusal(calls.exec_async(exec(scheduler.handle(), [large()])).await),
        full
    );
    calls
        .exec_async(exec(scheduler.handle(), [noop()]))
        .await
        .expect("a small one fits");
    let again = server.client.scheduler(scheduler.handle());
    again.cancel(2).await.expect("cancelled");
    calls
        .exec_async(exec(scheduler.handle(), [large()]))
        .await
        .expect("there is room");
}

#[tokio::test]
async fn a_call_that_can_never_fit_is_refused_without_a_time_to_come_back() {
    let (server, mut calls) = limited(Limits {
        queued_tasks: 3,
        ..Limits::default()
    })
    .await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let refused = refusal(
        calls
            .exec_async(exec(scheduler.handle(), noop().times(4)))
            .await,
    );
    assert_eq!(
        refused,
        (
            "QUEUE_FULL".into(),
            "queued_tasks".into(),
            3,
            "namespace:default".into(),
            false
        )
    );
}

#[tokio::test]
async fn a_submit_over_the_rate_is_refused_and_the_client_comes_back_when_told() {
    let (server, mut calls) = limited(Limits {
        submit_rate: Some(100),
        ..Limits::default()
    })
    .await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler.submit(noop().times(1_000)).await;
    let one = || exec(scheduler.handle(), [noop()]);
    assert_eq!(
        refusal(calls.exec_async(one()).await),
        over("SUBMIT_RATE_EXCEEDED", "submit_rate", 100)
    );
    let other = server
        .open_as(&server.of_namespace("other"), SchedulerSettings::default())
        .await;
    other.submit([noop()]).await;
    assert_eq!(
        scheduler.submit([noop()]).await,
        1_001,
        "nothing was accepted in between"
    );
}

#[tokio::test]
async fn a_stream_too_many_is_refused_until_one_has_ended() {
    let (server, mut calls) = limited(Limits {
        streams: 1,
        ..Limits::default()
    })
    .await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let until = Some(Until {
        kind: Some(Kind::Forever(Default::default())),
    });
    let watch = || SynchronizationRequest {
        handle: scheduler.handle().into(),
        until,
        ..Default::default()
    };
    let first = calls.synchronization(watch()).await.expect("the first one");
    assert_eq!(
        refusal(calls.synchronization(watch()).await),
        over("TOO_MANY_STREAMS", "streams", 1)
    );
    let mut other = Request::new(watch());
    other
        .metadata_mut()
        .insert("rallypoint-namespace", "other".parse().expect("a name"));
    assert_eq!(
        calls
            .synchronization(other)
            .await
            .expect_err("not theirs")
            .code(),
        Code::NotFound
    );
    drop(first);
    let patient: Client = server
        .client
        .clone()
        .with_retry_timeout(Duration::from_secs(60));
    let patient = patient.scheduler(scheduler.handle());
    patient
        .synchronize(0, Some(Kind::Forever(Default::default())))
        .await
        .expect("there is room");
}

#[tokio::test]
async fn streams_of_schedulers_that_have_left_memory_are_counted_too() {
    let postgres = durable(Vec::new());
    let setup = || Setup {
        postgres: Some(&postgres),
        limits: Limits {
            streams: 1,
            ..Limits::default()
        },
        ..Setup::default()
    };
    let server = Server::with(setup()).await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    for _ in 0..2 {
        scheduler.submit(noop().times(10_000)).await;
    }
    scheduler.cancel_everything().await;
    drop(server);
    let age = "update scheduler set released_at = released_at - interval '1 hour'";
    sqlx::raw_sql(age)
        .execute(&mut connect(&scheduler.journal).await)
        .await
        .expect("it was released long ago");

    let server = Server::with(setup()).await;
    // So that what it does not read soon stops it.
    let endpoint = Endpoint::from_shared(server.url.clone())
        .expect("a URL")
        .initial_stream_window_size(64 << 10);
    let mut calls = SchedulerServiceClient::new(endpoint.connect().await.expect("connected"));
    let watch = || SynchronizationRequest {
        handle: scheduler.handle().into(),
        ..Default::default()
    };
    let first = calls.synchronization(watch()).await.expect("the first one");
    assert_eq!(
        refusal(calls.synchronization(watch()).await),
        over("TOO_MANY_STREAMS", "streams", 1)
    );
    drop(first);
    let patient = server
        .client
        .clone()
        .with_retry_timeout(Duration::from_secs(20))
        .scheduler(scheduler.handle());
    patient.synchronize(0, None).await.expect("there is room");
}

#[tokio::test]
async fn a_stream_whose_caller_was_sent_away_while_the_journal_stalled_does_not_count() {
    let (server, mut calls) = limited(Limits {
        streams: 1,
        ..Limits::default()
    })
    .await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let mut stall = connect(&server.journal).await;
    sqlx::raw_sql("begin; lock table batch in exclusive mode")
        .execute(&mut stall)
        .await
        .expect("locked");
    let (mut others, submit) = (calls.clone(), exec(scheduler.handle(), [noop()]));
    let submitting = tokio::spawn(async move { others.exec_async(submit).await });
    let waits =
        "select count(*)::text from pg_locks where relation = 'batch'::regclass and not granted";
    while value(&mut stall, waits).await == "0" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let until = Some(Until {
        kind: Some(Kind::Forever(Default::default())),
    });
    let watch = SynchronizationRequest {
        handle: scheduler.handle().into(),
        until,
        ..Default::default()
    };
    assert_eq!(
        calls
            .synchronization(watch)
            .await
            .expect_err("nobody knows")
            .code(),
        Code::Unavailable
    );
    assert_eq!(
        submitting
            .await
            .expect("no panic")
            .expect_err("nobody knows")
            .code(),
        Code::Unavailable
    );
    stall.close().await.expect("the journal goes on");
    let patient = server
        .client
        .clone()
        .with_retry_timeout(Duration::from_secs(20))
        .scheduler(scheduler.handle());
    patient
        .synchronize(0, Some(Kind::Forever(Default::default())))
        .await
        .expect("there is room");
}

#[tokio::test]
async fn a_release_waits_for_the_last_outcome_without_a_stream_to_spare() {
    let (server, mut calls) = limited(Limits {
        streams: 0,
        ..Limits::default()
    })
    .await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler
        .submit(sql("select pg_sleep(0.05)").times(3))
        .await;
    let release = rallypoint_client::api::ReleaseSchedulerRequest {
        handle: scheduler.handle().into(),
        wait: true,
        ..Default::default()
    };
    assert_eq!(
        calls
            .release_scheduler(release)
            .await
            .expect("released")
            .into_inner()
            .pending,
        0
    );
}
