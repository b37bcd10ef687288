//! Limits: never more tasks at one time than allowed, as read from the log; a lowered limit kills
//! nothing.

use crate::harness::{
    log::Log,
    server::{Server, Setup},
    work::{noop, sleep},
};
use rallypoint_client::api::SchedulerSettings;

#[tokio::test]
async fn of_a_thousand_tasks_never_more_run_than_allowed() {
    let server = Server::with(Setup {
        slots: 8,
        ..Setup::default()
    })
    .await;
    let scheduler = server.open(at_most(3)).await;
    scheduler.submit(sleep(20).times(1000)).await;
    scheduler.all_done().await;
    let log = scheduler.log().await;
    assert_eq!((log.outcomes()["succeeded"], log.most_running()), (1000, 3));
}

#[tokio::test]
async fn a_lowered_limit_drains_reports_the_surplus_and_then_holds() {
    let server = Server::with(Setup {
        slots: 8,
        ..Setup::default()
    })
    .await;
    let scheduler = server.open(at_most(3)).await;
    let gate = server.gate().await;
    scheduler
        .submit(gate.task().times(3).into_iter().chain(sleep(5).times(100)))
        .await;
    scheduler.until(|now| now.running == 3).await;
    let lowered = scheduler
        .scheduler
        .update(at_most(1), &["max_parallelism"])
        .await
        .expect("updated");
    assert_eq!((lowered.running, lowered.surplus), (3, 2));
    gate.open().await;
    scheduler.all_done().await;
    let log = scheduler.log().await;
    assert_eq!(log.outcomes()["succeeded"], 103);
    let drained = (1..=3)
        .filter_map(|seq| log.entry(seq).ended)
        .max()
        .expect("they ended");
    let rest = Log(log.0.into_iter().filter(|entry| entry.seq > 3).collect());
    assert!(rest.starts().0 >= drained);
    assert_eq!(rest.most_running(), 1);
}

#[tokio::test]
async fn a_limit_lowered_in_mid_flight_holds_for_all_that_follows() {
    let server = Server::with(Setup {
        slots: 8,
        ..Setup::default()
    })
    .await;
    let scheduler = server.open(at_most(3)).await;
    scheduler.submit(sleep(5).times(400)).await;
    scheduler.until(|now| now.done >= 100).await;
    scheduler
        .scheduler
        .update(at_most(1), &["max_parallelism"])
        .await
        .expect("updated");
    let done = scheduler.until(|now| now.surplus == 0).await.done;
    scheduler.all_done().await;
    let log = scheduler.log().await;
    assert_eq!((log.outcomes()["succeeded"], log.most_running()), (400, 3));
    let later = Log(log
        .0
        .into_iter()
        .filter(|entry| entry.done_no > Some(done + 1))
        .collect());
    assert_eq!(later.most_running(), 1);
}

#[tokio::test]
async fn a_raised_limit_is_used_at_once() {
    let server = Server::with(Setup {
        slots: 8,
        ..Setup::default()
    })
    .await;
    let scheduler = server.open(at_most(1)).await;
    let gate = server.gate().await;
    scheduler.submit(gate.task().times(4)).await;
    scheduler.until(|now| now.running == 1).await;
    scheduler
        .scheduler
        .update(at_most(4), &["max_parallelism"])
        .await
        .expect("updated");
    scheduler.until(|now| now.running == 4).await;
    gate.open().await;
    assert_eq!(scheduler.all_done().await.len(), 4);
}

#[tokio::test]
async fn a_limit_and_an_order_hold_together() {
    let server = Server::with(Setup {
        slots: 8,
        ..Setup::default()
    })
    .await;
    let scheduler = server.open(at_most(2)).await;
    let work = (0..60).map(|n| if n % 3 == 0 { noop() } else { sleep(3) }.order(1 + n / 20));
    scheduler.submit(work).await;
    scheduler.all_done().await;
    let log = scheduler.log().await;
    assert_eq!(
        (
            log.overlaps(),
            log.most_running(),
            log.outcomes()["succeeded"]
        ),
        (vec![], 2, 60)
    );
}

fn at_most(max_parallelism: i32) -> SchedulerSettings {
    SchedulerSettings {
        max_parallelism: Some(max_parallelism),
        ..Default::default()
    }
}
