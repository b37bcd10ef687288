//! The quota of streams: what counts as an open stream, and what does not.

use super::refusal::{exec, limited, over, refusal};
use crate::harness::{
    postgres::{connect, durable, value},
    server::{Server, Setup},
    work::{noop, sql},
};
use rallypoint::core::model::limits::Limits;
use rallypoint_client::api::{
    ReleaseSchedulerRequest, SchedulerSettings, SynchronizationRequest, Until,
    scheduler_service_client::SchedulerServiceClient, until::Kind,
};
use sqlx::Connection;
use std::time::Duration;
use tonic::{Code, Request, transport::Endpoint};

#[tokio::test]
async fn a_stream_too_many_is_refused_until_one_has_ended() {
    let (server, mut calls) = limited(Limits {
        streams: 1,
        ..Limits::default()
    })
    .await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let until = Some(Until {
        kind: Some(Kind::Forever(())),
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
    let patient = server
        .client
        .clone()
        .with_retry_timeout(Duration::from_secs(60))
        .scheduler(scheduler.handle());
    patient
        .synchronize(0, Some(Kind::Forever(())))
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
    // A small window stops a stream that is not read.
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
    let waits = "select count(*)::text
        from pg_locks
        where relation = 'batch'::regclass and not granted
            and database = (select oid from pg_database where datname = current_database())";
    while value(&mut stall, waits).await == "0" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let until = Some(Until {
        kind: Some(Kind::Forever(())),
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
        .synchronize(0, Some(Kind::Forever(())))
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
    let release = ReleaseSchedulerRequest {
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
