//! What shows that a session of a lost executor has ended, on real servers: nothing but the word of
//! the server it ran on, or of an operator.

use super::fixture::{Fixture, sql};
use crate::harness::{
    network::Network,
    postgres::{POSTGRES, connect, database, on_port},
};
use rallypoint::{
    executor::{Executor, Session},
    postgres::{SUPERUSER, TARGET},
};
use sqlx::{PgConnection, postgres::PgConnectOptions};
use std::{sync::atomic::Ordering, time::Duration};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// A task that sleeps on the target; returns its session.
async fn left(fixture: &mut Fixture) -> Session {
    assert_eq!(fixture.slots().await, 1);
    fixture.start(sql("select pg_sleep(600)"));
    fixture.asleep().await;
    fixture.notes.recv().await.expect("registered")
}

fn fence(executor: &Executor, session: &Session) -> JoinHandle<()> {
    let (executor, session) = (executor.clone(), session.clone());
    tokio::spawn(async move { executor.end_session(&session).await })
}

/// Why the fence waits, as the register heard it.
async fn why(fixture: &mut Fixture) -> String {
    let why = timeout(WAIT_TIMEOUT, fixture.pending.recv()).await;
    why.expect("it says so in time").expect("a reason")
}

async fn sleeping(options: &PgConnectOptions) -> i64 {
    let query = "select count(*)
        from pg_stat_activity
        where wait_event = 'PgSleep' and datname = current_database()";
    sqlx::query_scalar(query)
        .fetch_one(&mut connect(options).await)
        .await
        .expect("a count")
}

async fn as_superuser(options: &PgConnectOptions, statements: &'static str) {
    let mut session: PgConnection = connect(&options.clone().username(SUPERUSER)).await;
    sqlx::raw_sql(statements)
        .execute(&mut session)
        .await
        .expect(statements);
}

async fn ends(fence: JoinHandle<()>) {
    let ended = timeout(WAIT_TIMEOUT, fence).await;
    ended.expect("the fence ends in time").expect("no panic");
}

#[tokio::test]
async fn a_login_that_may_not_see_a_session_cannot_call_it_dead() {
    let options = POSTGRES.options_for(&database(TARGET), TARGET);
    let observer = options.clone().username(SUPERUSER);
    let mut before = Fixture::on(options.clone(), 1);
    let session = left(&mut before).await;
    as_superuser(
        &options,
        "create role blind login;
        do $$ begin execute format('grant connect on database %I to blind', current_database()); end $$",
    )
    .await;
    let mut after = Fixture::on(options.clone().username("blind"), 1);
    let waiting = fence(&after.executor, &session);
    let why = why(&mut after).await;
    assert!(why.contains("may not see session"), "{why}");
    assert!(!waiting.is_finished());
    assert_eq!(sleeping(&observer).await, 1);
    as_superuser(
        &options,
        "grant pg_read_all_stats, pg_signal_backend to blind",
    )
    .await;
    ends(waiting).await;
    assert_eq!(sleeping(&observer).await, 0);
}

#[tokio::test]
async fn another_server_under_the_same_name_proves_nothing() {
    let (home, home_port) = on_port();
    let (_other, other_port) = on_port();
    let network = Network::to(home_port).await;
    let target = network.options();
    let observer = home.options_for(TARGET, TARGET).port(home_port);
    let mut before = Fixture::on(observer.clone(), 1);
    let session = left(&mut before).await;
    network.lead_to(other_port);
    let mut after = Fixture::on(target, 1);
    let waiting = fence(&after.executor, &session);
    let why = why(&mut after).await;
    assert!(why.contains("answers now"), "{why}");
    assert!(!waiting.is_finished());
    assert_eq!(sleeping(&observer).await, 1);
    // The name leads home again.
    network.lead_to(home_port);
    ends(waiting).await;
    assert_eq!(sleeping(&observer).await, 0);
}

#[tokio::test]
async fn sessions_of_a_removed_target_wait_for_the_word_of_an_operator() {
    let options = POSTGRES.options_for(&database(TARGET), TARGET);
    let mut before = Fixture::on(options.clone(), 1);
    let session = Session {
        target: "removed".into(),
        ..left(&mut before).await
    };
    let waiting = fence(&before.executor, &session);
    let why = why(&mut before).await;
    assert!(why.contains("no target `removed`"), "{why}");
    sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    before.declared_dead.store(true, Ordering::Release);
    ends(waiting).await;
}
