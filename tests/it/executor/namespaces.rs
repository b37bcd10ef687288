//! Logins of namespaces, and the one that watches over all sessions.

use super::fixture::{Fixture, Task, failed, json, limited, login, sql};
use crate::harness::postgres::{POSTGRES, connect, database};
use rallypoint::{
    core::Report,
    executor::TargetConfig,
    postgres::{SUPERUSER, TARGET},
};
use sqlx::AssertSqlSafe;
use std::{sync::atomic::Ordering, time::Duration};

/// An executor on whose target these namespaces have logins called `PREFIX_NAMESPACE`.
pub(super) async fn with_logins(
    prefix: &str,
    namespaces: &[&str],
    slots: u32,
    watchdog: bool,
) -> Fixture {
    let options = POSTGRES.options_for(&database(TARGET), TARGET);
    let mut superuser = connect(&options.clone().username(SUPERUSER)).await;
    let names = namespaces
        .iter()
        .map(|namespace| format!("{prefix}_{namespace}"));
    let watch = format!("{prefix}_watch");
    let base = login(&options);
    for name in names.chain([watch.clone()]) {
        let database = options.get_database().expect("a name");
        let statements =
            format!("create role {name} login; grant connect on database {database} to {name}");
        let made = sqlx::raw_sql(AssertSqlSafe(statements));
        made.execute(&mut superuser).await.expect("a login");
    }
    let grant = format!("grant pg_signal_backend, pg_read_all_stats to {watch}");
    let granted = sqlx::raw_sql(AssertSqlSafe(grant)).execute(&mut superuser);
    granted.await.expect("granted");
    let as_whom = |name: String| base.clone().as_user(name, None);
    let target = TargetConfig {
        logins: namespaces
            .iter()
            .map(|one| ((*one).into(), as_whom(format!("{prefix}_{one}"))))
            .collect(),
        watchdog: watchdog.then(|| as_whom(watch)),
        ..TargetConfig::new("app", base.clone(), slots)
    };
    let mut fixture = Fixture::of(target, options);
    assert_eq!(fixture.slots().await, slots);
    fixture
}

/// The login of a task of this namespace, and its backend.
async fn who(fixture: &mut Fixture, namespace: &'static str) -> (String, i64) {
    let task = Task {
        namespace,
        rows: 1,
        ..sql("select session_user::text as u, pg_backend_pid() as pid")
    };
    let result = fixture.result(task).await;
    let rows: serde_json::Value = serde_json::from_str(json(&result)).expect("JSON");
    let user = rows[0]["u"].as_str().expect("a user").to_owned();
    (user, rows[0]["pid"].as_i64().expect("a pid"))
}

#[tokio::test]
async fn a_login_is_used_for_its_namespace_alone_and_a_session_keeps_its_login() {
    let mut fixture = with_logins("alone", &["a", "b"], 1, true).await;
    let mut seen = Vec::new();
    for (namespace, user) in [
        ("a", "alone_a"),
        ("b", "alone_b"),
        ("c", "app"),
        ("a", "alone_a"),
    ] {
        let (found, pid) = who(&mut fixture, namespace).await;
        assert_eq!(found, user);
        assert!(!seen.contains(&pid), "a session of another login");
        seen.push(pid);
    }
    let (_, again) = who(&mut fixture, "a").await;
    assert_eq!(seen.last(), Some(&again), "its own session");
    let text = "reset role; reset session authorization; set session authorization default;
        select session_user";
    let task = Task {
        namespace: "a",
        rows: 1,
        ..sql(text)
    };
    let result = fixture.result(task).await;
    assert_eq!(json(&result), r#"[{"session_user":"alone_a"}]"#);
}

#[tokio::test]
async fn a_task_gets_a_free_slot_whose_session_is_of_its_login() {
    let mut fixture = with_logins("slots", &["a", "b"], 2, true).await;
    let (_, of_a) = who(&mut fixture, "a").await;
    let (_, of_b) = who(&mut fixture, "b").await;
    for _ in 0..3 {
        assert_eq!(who(&mut fixture, "a").await.1, of_a);
        assert_eq!(who(&mut fixture, "b").await.1, of_b);
    }
}

#[tokio::test]
async fn a_namespace_whose_login_is_refused_fails_alone() {
    let mut fixture = with_logins("refused", &["a"], 1, true).await;
    let mut superuser = connect(&fixture.options.clone().username(SUPERUSER)).await;
    let forbid = sqlx::raw_sql("alter role refused_a nologin").execute(&mut superuser);
    forbid.await.expect("altered");
    let task = Task {
        namespace: "a",
        ..sql("select 1")
    };
    let report = fixture.run(task).await;
    let Report::Failed { error, transient } = report else {
        panic!("{report:?}");
    };
    assert_eq!((error.code.as_str(), transient), ("28000", false));
    assert!(
        error.message.contains("login of the namespace"),
        "{error:?}"
    );
    assert_eq!(who(&mut fixture, "c").await.0, "app");
    assert_eq!(fixture.executor.targets()[0].unavailable, None);
}

/// Cannot be cancelled, only terminated.
const STUBBORN: &str = "do $$ begin
        loop
            begin perform pg_sleep(3600); exception when query_canceled then null; end;
        end loop;
    end $$";

#[tokio::test]
async fn the_watchdog_ends_a_backend_that_no_other_login_could() {
    let stubborn = || Task {
        namespace: "a",
        ..limited(STUBBORN, Duration::from_millis(200))
    };
    let mut fixture = with_logins("watched", &["a"], 1, true).await;
    let report = fixture.run(stubborn()).await;
    assert!(matches!(report, Report::TimedOut(_)), "{report:?}");
    assert_eq!(who(&mut fixture, "c").await.0, "app");
    let mut fixture = with_logins("unwatched", &["a"], 1, false).await;
    fixture.start(stubborn());
    let why = fixture.pending.recv().await.expect("it is in the way");
    assert!(why.contains("pg_signal_backend"), "{why}");
    fixture.declared_dead.store(true, Ordering::Release);
}

#[tokio::test]
async fn a_namespace_may_do_what_its_login_may() {
    let mut fixture = with_logins("may", &["a"], 1, true).await;
    fixture
        .result(sql("create table secret as select 1 as a"))
        .await;
    let task = Task {
        namespace: "a",
        ..sql("select * from public.secret")
    };
    assert_eq!(failed(fixture.run(task).await).0, "42501");
}

/// Has the login find these first, whatever a name means in `pg_catalog`.
const HIJACKED: &str = "create view own.pg_stat_activity as
        select pid, now() as backend_start from pg_catalog.pg_stat_activity where false;
    create function own.pg_backend_pid() returns int language sql as 'select 1';
    create function own.same(int, int) returns bool language sql as 'select false';
    create operator own.= (leftarg = int, rightarg = int, function = own.same);";

#[tokio::test]
async fn what_a_login_puts_ahead_of_the_catalog_reaches_nobody() {
    let mut fixture = with_logins("hijack", &["a"], 1, true).await;
    let mut superuser = connect(&fixture.options.clone().username(SUPERUSER)).await;
    let schema = sqlx::raw_sql("create schema own authorization hijack_a");
    schema.execute(&mut superuser).await.expect("a schema");
    let text = format!("{HIJACKED} alter role hijack_a set search_path = own, pg_catalog");
    let of_a = |text: &str| Task {
        namespace: "a",
        rows: 1,
        ..sql(text)
    };
    fixture.result(of_a(&text)).await;
    // The next session of this login finds them.
    assert_eq!(who(&mut fixture, "c").await.0, "app");
    let text = "select pg_catalog.pg_backend_pid() as pid, pg_backend_pid() as own";
    let result = fixture.result(of_a(text)).await;
    let mut last = None;
    while let Ok(session) = fixture.notes.try_recv() {
        last = Some(session.pid);
    }
    let pid = last.expect("a registered session");
    assert_eq!(json(&result), format!(r#"[{{"pid":{pid},"own":1}}]"#));
    assert_eq!(who(&mut fixture, "c").await.0, "app");
    assert_eq!(fixture.executor.targets()[0].unavailable, None);
}

#[tokio::test]
async fn what_tasks_put_ahead_of_the_catalog_hides_no_session_from_its_end() {
    let mut fixture = Fixture::new(1).await;
    let text = format!(
        "create schema own; {HIJACKED}
        do $$ begin
            execute format(
                'alter role %I in database %I set search_path = own, pg_catalog',
                current_user, current_database());
        end $$"
    );
    fixture.result(sql(&text)).await;
    let stubborn = limited(STUBBORN, Duration::from_millis(200));
    let report = fixture.run(stubborn).await;
    assert!(matches!(report, Report::TimedOut(_)), "{report:?}");
    let left = "select count(*)
        from pg_stat_activity
        where wait_event = 'PgSleep' and datname = current_database()";
    let mut superuser = connect(&fixture.options.clone().username(SUPERUSER)).await;
    let left: i64 = sqlx::query_scalar(left)
        .fetch_one(&mut superuser)
        .await
        .expect("a count");
    assert_eq!(left, 0);
}

/// Does it as the superuser of the target.
pub(super) async fn administer(fixture: &Fixture, statements: String) {
    let mut superuser = connect(&fixture.options.clone().username(SUPERUSER)).await;
    let done = sqlx::raw_sql(AssertSqlSafe(statements)).execute(&mut superuser);
    done.await.expect("done");
}

#[tokio::test]
async fn a_full_server_costs_a_task_of_a_namespace_no_attempt() {
    let mut fixture = with_logins("full", &["a"], 1, true).await;
    let limit = |fixture: &Fixture, connections: i32| {
        let database = fixture.options.get_database().expect("a name");
        format!("alter database {database} connection limit {connections}")
    };
    administer(&fixture, limit(&fixture, 0)).await;
    let task = || Task {
        namespace: "a",
        ..sql("select 1")
    };
    let report = fixture.run(task()).await;
    assert!(matches!(report, Report::NotStarted), "{report:?}");
    while fixture.slots().await != 0 {}
    administer(&fixture, limit(&fixture, -1)).await;
    while fixture.slots().await != 1 {}
    fixture.result(task()).await;
}

#[tokio::test]
async fn a_login_that_may_open_no_more_sessions_waits_alone() {
    let mut fixture = with_logins("many", &["a"], 1, true).await;
    administer(&fixture, "alter role many_a connection limit 0".into()).await;
    let task = || Task {
        namespace: "a",
        ..sql("select 1")
    };
    let report = fixture.run(task()).await;
    assert!(matches!(report, Report::NotStarted), "{report:?}");
    assert_eq!(fixture.executor.targets()[0].unavailable, None);
    assert_eq!(who(&mut fixture, "c").await.0, "app");
    administer(&fixture, "alter role many_a connection limit -1".into()).await;
    fixture.result(task()).await;
}

#[tokio::test]
async fn logins_that_get_in_and_are_not_told_which_session_they_have_are_an_outage() {
    let mut fixture = with_logins("untold", &["a"], 1, true).await;
    let revoke = "revoke execute on function pg_control_system() from public";
    administer(&fixture, revoke.into()).await;
    assert_eq!(fixture.run(sql("select 1")).await, Report::NotStarted);
    assert_eq!(fixture.slots().await, 0);
    let status = fixture.executor.targets().remove(0);
    let why = status.unavailable.expect("it says why").why;
    assert!(why.contains("pg_control_system"), "{why}");
    let grant = "grant execute on function pg_control_system() to public";
    administer(&fixture, grant.into()).await;
    while fixture.slots().await != 1 {}
    assert_eq!(fixture.value("select 1").await, "1");
}

#[tokio::test]
async fn every_task_begins_with_the_role_that_its_login_brings() {
    let mut fixture = with_logins("roled", &["a"], 1, true).await;
    let statements = "create role roled_limited; grant roled_limited to roled_a;
        alter role roled_a set role = roled_limited";
    administer(&fixture, statements.into()).await;
    let of_a = |text: &str| Task {
        namespace: "a",
        rows: 1,
        ..sql(text)
    };
    for between in [
        "select 1",
        "select 1/0",
        "begin",
        "reset role; begin",
        "set role none",
    ] {
        let result = fixture.result(of_a("select current_user::text as u")).await;
        assert_eq!(json(&result), r#"[{"u":"roled_limited"}]"#, "{between}");
        fixture.run(of_a(between)).await;
    }
    let result = fixture.result(of_a("select current_user::text as u")).await;
    assert_eq!(json(&result), r#"[{"u":"roled_limited"}]"#);
}
