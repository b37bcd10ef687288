//! Orders: the tasks of one run together, and the next one starts only when it has ended, whatever
//! happens in between.

use crate::harness::{
    conversation::Conversation,
    server::Server,
    work::{Work, failing, noop, sleep, sql},
};
use rallypoint_client::api::{LateOrder, SchedulerSettings};

#[tokio::test]
async fn no_two_orders_overlap_and_an_order_runs_together() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let shuffled = [300, 100, 500, 100, 200, 400, 100, 200, 400, 300];
    scheduler
        .submit(shuffled.map(|order| sleep(40).order(order)))
        .await;
    scheduler.all_done().await;
    let log = scheduler.log().await;
    assert_eq!((log.overlaps(), log.most_running()), (vec![], 3));
}

#[tokio::test]
async fn an_order_submitted_in_many_calls_is_one_order() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler.submit([gate.task().order(1)]).await;
    for order in (0..40).map(|n| 1 + n % 4) {
        scheduler
            .submit([sleep(2).order(order), noop().order(order)])
            .await;
    }
    gate.open().await;
    assert_eq!(scheduler.all_done().await.len(), 81);
    assert_eq!(scheduler.log().await.overlaps(), []);
}

#[tokio::test]
async fn an_order_waits_for_the_retries_of_the_one_before() {
    let server = Server::start().await;
    let scheduler = third_time_lucky(&server).await;
    scheduler
        .submit([
            flaky().order(100),
            sleep(1).order(100),
            sleep(1).order(200),
            noop().order(300),
        ])
        .await;
    scheduler.all_done().await;
    let log = scheduler.log().await;
    assert_eq!(log.overlaps(), []);
    assert_eq!(
        (log.entry(1).attempt, log.outcomes()["succeeded"]),
        (Some(3), 4)
    );
}

#[tokio::test]
async fn a_late_order_is_refused_and_nothing_of_its_call_is_taken() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler
        .submit([noop().order(100), gate.task().order(200)])
        .await;
    scheduler.until(|now| now.current_order == Some(200)).await;
    let error = scheduler
        .try_submit([noop(), noop().order(100)])
        .await
        .expect_err("late");
    assert!(error.is("ORDER_CLOSED"), "{error}");
    assert_eq!(scheduler.submit([noop().order(200)]).await, 3);
    gate.open().await;
    assert_eq!(scheduler.all_done().await.len(), 3);
}

#[tokio::test]
async fn a_late_order_joins_the_current_one_where_that_is_asked_for() {
    let server = Server::start().await;
    let scheduler = server
        .open(SchedulerSettings {
            late_order: LateOrder::Join.into(),
            ..Default::default()
        })
        .await;
    let gate = server.gate().await;
    scheduler
        .submit([noop().order(100), gate.task().order(200), noop().order(300)])
        .await;
    scheduler.until(|now| now.current_order == Some(200)).await;
    let late = scheduler.submit([sleep(1).order(100)]).await;
    gate.open().await;
    scheduler.all_done().await;
    let task = scheduler.task(late).await;
    assert_eq!(
        (task.task.and_then(|task| task.order), task.effective_order),
        (Some(100), Some(200))
    );
    assert_eq!(scheduler.log().await.overlaps(), []);
}

#[tokio::test]
async fn a_task_without_order_waits_for_no_barrier_and_holds_none_up() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler
        .submit([
            gate.task(),
            noop().order(100),
            sleep(1).order(200),
            gate.task().order(300),
            noop(),
        ])
        .await;
    let now = scheduler
        .until(|now| now.done == 3 && now.running == 2)
        .await;
    assert_eq!(now.current_order, Some(300));
    gate.open().await;
    let log = {
        scheduler.all_done().await;
        scheduler.log().await
    };
    assert_eq!((log.overlaps(), log.outcomes()["succeeded"]), (vec![], 5));
}

#[tokio::test]
async fn a_failed_order_opens_the_barrier_by_default() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler
        .submit([
            failing().order(100),
            sleep(20).order(100),
            noop().order(200),
        ])
        .await;
    scheduler.all_done().await;
    let log = scheduler.log().await;
    assert_eq!(log.overlaps(), []);
    assert_eq!(
        (
            log.entry(1).outcome.as_deref(),
            log.entry(3).outcome.as_deref()
        ),
        (Some("failed"), Some("succeeded"))
    );
}

/// A scheduler beside a sequence for [`flaky`].
async fn third_time_lucky(server: &Server) -> Conversation {
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler.submit([sql("create sequence tries")]).await;
    scheduler.all_done().await;
    server.open(SchedulerSettings::default()).await
}

/// Fails twice: a sequence is not rolled back.
fn flaky() -> Work {
    sql("select 1 / (case when nextval('tries') < 3 then 0 else 1 end)").attempts(3)
}
