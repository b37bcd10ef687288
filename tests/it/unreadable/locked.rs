//! That a scheduler was set aside is noted also when somebody has its row locked meanwhile.

use crate::harness::{
    cluster::Cluster,
    conversation::WAIT_TIMEOUT,
    postgres::{connect, value},
};
use rallypoint::postgres::COORDINATION;
use sqlx::{Executor, PgConnection};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tonic::Code;

/// A server that cannot read its scheduler, whose row this session has locked.
async fn set_aside_and_locked() -> (Cluster, PgConnection) {
    let mut cluster = Cluster::start(1).await;
    let client = cluster.client(0);
    let lost = cluster.open_named(&client, "a").await;
    cluster.kill_9(0);
    let tear = "update scheduler set settings = '?'";
    cluster.meddle(COORDINATION, tear.to_owned()).await;
    let mut journal = connect(&cluster.postgres.options_for(COORDINATION, COORDINATION)).await;
    journal
        .execute("begin; select from scheduler for update")
        .await
        .expect("locked");
    cluster.restart(0);
    let described = lost.scheduler.describe().await;
    let described = described.expect_err("it cannot be read");
    assert_eq!(described.code, Code::DataLoss, "{described}");
    (cluster, journal)
}

#[tokio::test]
async fn a_row_that_is_locked_while_the_journal_is_read_is_noted_when_it_is_free() {
    let (_cluster, mut journal) = set_aside_and_locked().await;
    journal.execute("rollback").await.expect("free");
    let noted = async {
        let noted = "select bool_and(set_aside)::text from scheduler";
        while value(&mut journal, noted).await != "true" {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WAIT_TIMEOUT, noted).await.expect("it is noted");
}

#[tokio::test]
async fn an_owner_that_stops_before_the_row_is_free_says_what_it_leaves() {
    let (mut cluster, _locked) = set_aside_and_locked().await;
    cluster.terminate(0).await;
    let log = cluster.log_tail(0);
    assert!(log.contains("it is not noted"), "{log}");
}
