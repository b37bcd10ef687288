//! A slot that becomes free does not wait for the journal, and what may not start without it waits.

use crate::harness::{
    conversation::WAIT_TIMEOUT,
    postgres::{connect, value},
    server::Server,
    work::sql,
};
use rallypoint_client::api::SchedulerSettings;
use std::time::Duration;
use tokio::time::{sleep, timeout};

#[tokio::test]
async fn the_tasks_of_an_order_follow_one_another_while_the_journal_stalls() {
    let server = Server::start().await;
    let mut target = connect(&server.app).await;
    sqlx::raw_sql("create table trace (which int)")
        .execute(&mut target)
        .await
        .expect("created");
    let scheduler = server
        .open(SchedulerSettings {
            max_parallelism: Some(1),
            ..Default::default()
        })
        .await;
    let gate = server.gate().await;
    let first = [gate.task().order(1)].into_iter();
    let then = sql("insert into trace values (1)").order(1).times(6);
    let last = sql("insert into trace values (2)").order(2);
    scheduler.submit(first.chain(then).chain([last])).await;
    scheduler.until(|now| now.running == 1).await;
    let mut stall = connect(&server.journal).await;
    sqlx::raw_sql("begin; lock table batch in exclusive mode")
        .execute(&mut stall)
        .await
        .expect("locked");

    gate.open().await;
    let ran = "select string_agg(which::text, '') from trace";
    let follow = async {
        while value(&mut target, ran).await != "111111" {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(WAIT_TIMEOUT, follow)
        .await
        .expect("they wait for nothing");
    let waits = "select count(*)::text
        from pg_locks
        where relation = 'batch'::regclass and not granted
            and database = (select oid from pg_database where datname = current_database())";
    let stalls = async {
        while value(&mut stall, waits).await != "1" {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(WAIT_TIMEOUT, stalls)
        .await
        .expect("the journal waits");
    assert_eq!(value(&mut target, ran).await, "111111");
    sqlx::raw_sql("rollback")
        .execute(&mut stall)
        .await
        .expect("unlocked");
    assert_eq!(scheduler.all_done().await.len(), 8);
    let log = scheduler.log().await;
    assert_eq!((log.overlaps(), log.most_running()), (vec![], 1));
}
