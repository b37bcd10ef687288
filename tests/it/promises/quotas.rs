//! Quotas of a namespace: a call over one is refused whole with RESOURCE_EXHAUSTED and says whose
//! limit it is and when to come back. What ends is given back, also across a restart; other
//! namespaces do not notice.

mod refusal;
mod streams;

use crate::harness::{
    postgres::durable,
    server::{Server, Setup},
    work::{noop, sql},
};
use rallypoint::core::model::limits::Limits;
use rallypoint_client::api::{GetSchedulerRequest, SchedulerSettings};
use refusal::{Refusal, exec, limited, over, refusal};

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
        Refusal {
            comes_back: false,
            ..over("QUEUE_FULL", "queued_tasks", 3)
        }
    );
}

#[tokio::test]
async fn a_submit_over_the_rate_is_refused_and_the_client_comes_back_in_time() {
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
