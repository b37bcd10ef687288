//! The session of a slot, from one task to the next.

use super::fixture::{Fixture, Task, WAIT_TIMEOUT, failed, json, login, sql};
use crate::harness::postgres::{POSTGRES, connect, database, value};
use rallypoint::{
    core::{Report, SessionReset},
    postgres::{SUPERUSER, TARGET},
};
use std::time::Duration;
use tokio::time::{sleep, timeout};

#[tokio::test]
async fn a_transaction_left_open_is_rolled_back_and_fails_its_task() {
    let mut fixture = Fixture::new(1).await;
    fixture.result(sql("create table t (a int)")).await;
    assert_eq!(
        failed(fixture.text("begin; insert into t values (1)").await),
        ("TRANSACTION_LEFT_OPEN".into(), false)
    );
    assert_eq!(
        failed(fixture.text("begin; select 1 / 0").await),
        ("22012".into(), false)
    );
    assert_eq!(fixture.value("select count(*) from t").await, "0");
}

#[tokio::test]
async fn nothing_of_a_task_is_left_in_the_session_of_the_next() {
    let mut fixture = Fixture::new(1).await;
    let mut superuser = connect(&fixture.options.clone().username(SUPERUSER)).await;
    sqlx::raw_sql("create role guest; grant guest to app")
        .execute(&mut superuser)
        .await
        .expect("a role");
    let result = fixture.result(Task {
        rows: 1,
        ..sql(
            "set search_path = x; set statement_timeout = 9999; set role guest;
            select current_user",
        )
    });
    assert_eq!(json(&result.await), r#"[{"current_user":"guest"}]"#);
    assert_eq!(
        fixture.value("select current_setting('search_path')").await,
        r#""$user", public"#
    );
    assert_eq!(
        fixture
            .value("select current_setting('statement_timeout')")
            .await,
        "0"
    );
    assert_eq!(fixture.value("select current_user").await, "app");
    let text = "create temp table mine (a int); prepare p as select 1; listen c;
        select pg_advisory_lock(1);
        declare c cursor with hold for select 1";
    let pid = fixture.value("select pg_backend_pid()").await;
    fixture.result(sql(text)).await;
    let left = "select concat(
        to_regclass('mine'),
        (select count(*) from pg_prepared_statements where from_sql),
        (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()),
        (select count(*) from pg_listening_channels()),
        (select count(*) from pg_cursors where is_holdable))";
    assert_eq!(fixture.value(left).await, "0000");
    assert_eq!(
        fixture.value("select pg_backend_pid()").await,
        pid,
        "the same session"
    );
}

#[tokio::test]
async fn a_session_is_registered_before_its_first_task_and_named_after_each() {
    let mut fixture = Fixture::new(2).await;
    let label = format!("/*task='{}%2F1'*/", fixture.handle);
    let text = fixture.value("select current_query()").await;
    assert!(text.ends_with(&label), "{text}");
    let session = fixture.notes.recv().await.expect("registered");
    assert_eq!((session.target.as_ref(), session.slot), ("app", 1));
    let query = format!(
        "select count(*) from pg_stat_activity where pid = {} and pid = pg_backend_pid()
            and backend_start = '1970-01-01Z'::timestamptz + {} * interval '1 microsecond'",
        session.pid, session.backend_start.0
    );
    assert_eq!(fixture.value(&query).await, "1");
    assert_eq!(
        fixture
            .value("select current_setting('client_connection_check_interval')")
            .await,
        "500ms"
    );
    let rows = fixture.executor.executions();
    assert_eq!(
        rows.iter()
            .map(|row| (row.slot, row.backend_pid))
            .collect::<Vec<_>>(),
        [(1, session.pid), (2, 0)]
    );
}

#[tokio::test]
async fn a_session_that_died_in_its_sleep_costs_no_attempt() {
    let mut fixture = Fixture::new(1).await;
    let pid = fixture.value("select pg_backend_pid()").await;
    let mut session = fixture.session().await;
    let pid: i32 = pid.parse().expect("a number");
    sqlx::query("select pg_terminate_backend($1, 5000)")
        .bind(pid)
        .execute(&mut session)
        .await
        .expect("terminated");
    assert!(matches!(
        fixture.text("select 1").await,
        Report::Succeeded(_)
    ));
}

#[tokio::test]
async fn a_session_idle_for_too_long_is_closed_and_one_stays_warm() {
    let options = POSTGRES.options_for(&database(TARGET), TARGET);
    let idle = Duration::from_millis(400);
    let mut fixture = Fixture::with(login(&options), options, 3, idle);
    assert_eq!(fixture.slots().await, 3);
    let mut gate = fixture.session().await;
    value(&mut gate, "select pg_advisory_lock(1)::text").await;
    let started: Vec<_> = (0..3)
        .map(|_| fixture.start(sql("select pg_advisory_lock_shared(1)")))
        .collect();
    // None is idle before all are there.
    has_sessions(&fixture, 3).await;
    value(&mut gate, "select pg_advisory_unlock(1)::text").await;
    for seq in started {
        fixture.ended(seq).await;
    }
    has_sessions(&fixture, 1).await;
    sleep(idle * 3).await;
    assert_eq!(sessions(&fixture), 1);
    let mut observer = fixture.session().await;
    let query = "select count(*)::text
        from pg_stat_activity
        where application_name = 'rallypoint' and datname = current_database()";
    // Beside the one that stops texts.
    let closed = async {
        while value(&mut observer, query).await != "2" {
            sleep(idle / 10).await;
        }
    };
    timeout(WAIT_TIMEOUT, closed)
        .await
        .expect("they are closed");
    assert_eq!(fixture.value("select 1").await, "1");
}

#[tokio::test]
async fn a_session_that_is_idle_and_holds_what_a_task_left_is_closed_though_it_is_the_last() {
    let options = POSTGRES.options_for(&database(TARGET), TARGET);
    let idle = Duration::from_millis(400);
    let mut fixture = Fixture::with(login(&options), options, 1, idle);
    assert_eq!(fixture.slots().await, 1);
    fixture
        .result(Task {
            reset: SessionReset::Scheduler,
            ..sql("select pg_advisory_lock(7)")
        })
        .await;
    let mut other = fixture.session().await;
    let lock = sqlx::raw_sql("select pg_advisory_lock(7)").execute(&mut other);
    let locked = timeout(Duration::from_secs(30), lock).await;
    locked.expect("it is freed").expect("locked");
    assert_eq!(sessions(&fixture), 0);
}

/// Waits until the executor has so many sessions.
async fn has_sessions(fixture: &Fixture, count: usize) {
    let has = async {
        while sessions(fixture) != count {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WAIT_TIMEOUT, has).await.expect("so many sessions");
}

fn sessions(fixture: &Fixture) -> usize {
    let rows = fixture.executor.executions();
    rows.iter().filter(|row| row.backend_pid != 0).count()
}
