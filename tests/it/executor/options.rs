//! What the session of a task begins with, and what is left of that for the next one.

use super::fixture::{Fixture, Task, failed, json, login, sql, with_params};
use crate::harness::postgres::{POSTGRES, connect, database};
use rallypoint::{
    core::{Isolation, Report, SessionOptions, SessionReset},
    executor::TargetConfig,
    postgres::{SUPERUSER, TARGET},
};
use std::time::Duration;

/// An executor with one slot, on whose target tasks may name these roles.
pub(super) async fn allowing(roles: &[&str], defaults: SessionOptions) -> Fixture {
    let options = POSTGRES.options_for(&database(TARGET), TARGET);
    let target = TargetConfig {
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        defaults,
        ..TargetConfig::new("app", login(&options), 1)
    };
    let mut fixture = Fixture::of(target, options);
    assert_eq!(fixture.slots().await, 1);
    fixture
}

async fn as_superuser(fixture: &Fixture, statements: &'static str) {
    let mut superuser = connect(&fixture.options.clone().username(SUPERUSER)).await;
    let done = sqlx::raw_sql(statements).execute(&mut superuser).await;
    done.expect("as a superuser");
}

fn with(session: SessionOptions, text: &str) -> Task {
    Task {
        session,
        rows: 10,
        ..sql(text)
    }
}

fn read_only() -> SessionOptions {
    SessionOptions {
        read_only: Some(true),
        ..SessionOptions::default()
    }
}

fn role(name: &str) -> SessionOptions {
    SessionOptions {
        role: Some(name.into()),
        ..SessionOptions::default()
    }
}

/// Everything that can be set.
fn all() -> SessionOptions {
    SessionOptions {
        read_only: Some(true),
        isolation: Some(Isolation::Serializable),
        search_path: vec!["a, \"b'".into(), "public".into()],
        statement_timeout: Some(Duration::from_secs(77)),
        role: Some("option_reader".into()),
        due: None,
    }
}

const SHOWN: &str = "select concat_ws('|', current_setting('transaction_read_only'),
    current_setting('transaction_isolation'), current_setting('search_path'),
    current_setting('statement_timeout'), current_user)";

async fn shown(fixture: &mut Fixture, task: Task) -> String {
    let result = fixture.result(task).await;
    let rows: serde_json::Value = serde_json::from_str(json(&result)).expect("JSON");
    rows[0]["concat_ws"].as_str().expect("text").to_owned()
}

const AS_EVER: &str = "off|read committed|\"$user\", public|0|app";

#[tokio::test]
async fn options_are_in_force_for_their_task_and_gone_for_the_next() {
    let mut fixture = allowing(&["option_reader"], SessionOptions::default()).await;
    as_superuser(
        &fixture,
        "create role option_reader; grant option_reader to app",
    )
    .await;
    let pid = fixture.value("select pg_backend_pid()").await;
    let set = "on|serializable|\"a, \"\"b'\", \"public\"|77s|option_reader";
    for params in [None, Some("[]")] {
        let task = Task {
            params,
            ..with(all(), SHOWN)
        };
        assert_eq!(shown(&mut fixture, task).await, set);
        let next = with(SessionOptions::default(), SHOWN);
        assert_eq!(shown(&mut fixture, next).await, AS_EVER);
    }
    assert_eq!(
        fixture.value("select pg_backend_pid()").await,
        pid,
        "in the same session"
    );
}

#[tokio::test]
async fn a_read_only_task_writes_nothing_and_a_search_path_finds_a_table() {
    let mut fixture = allowing(&[], SessionOptions::default()).await;
    let text = "create schema hidden; create table hidden.t (a int); create table u (a int)";
    fixture.result(sql(text)).await;
    let insert = "insert into u values (1)";
    let report = fixture.run(with(read_only(), insert)).await;
    assert_eq!(failed(report), ("25006".into(), false));
    fixture.result(sql(insert)).await;
    assert_eq!(failed(fixture.text("select * from t").await).0, "42P01");
    let path = SessionOptions {
        search_path: vec!["hidden".into()],
        ..SessionOptions::default()
    };
    fixture.result(with(path, "select * from t")).await;
    let short = SessionOptions {
        statement_timeout: Some(Duration::from_millis(50)),
        ..SessionOptions::default()
    };
    let report = fixture.run(with(short, "select pg_sleep(3600)")).await;
    assert_eq!(failed(report), ("57014".into(), false));
}

#[tokio::test]
async fn a_text_with_options_is_wrapped_in_nothing() {
    let mut fixture = allowing(&[], SessionOptions::default()).await;
    let path = SessionOptions {
        search_path: vec!["public".into()],
        ..SessionOptions::default()
    };
    let text = "create procedure two() language plpgsql as $$ begin
            insert into u values (1); commit; insert into u values (2); rollback;
        end $$;
        create table u (a int)";
    fixture.result(with(path.clone(), text)).await;
    fixture.result(with(path.clone(), "vacuum u")).await;
    fixture.result(with(path.clone(), "call two()")).await;
    let call = Task {
        session: path.clone(),
        ..with_params("call two()", "[]")
    };
    fixture.result(call).await;
    assert_eq!(fixture.value("select count(*) from u").await, "2");
    let open = fixture.run(with(path, "begin; insert into u values (3)"));
    assert_eq!(failed(open.await).0, "TRANSACTION_LEFT_OPEN");
    assert_eq!(fixture.value("select count(*) from u").await, "2");
}

#[tokio::test]
async fn a_text_whose_options_cannot_be_set_is_not_run() {
    let roles = ["postgres", "no_such_role"];
    let mut fixture = allowing(&roles, SessionOptions::default()).await;
    fixture.result(sql("create table t (a int)")).await;
    for (name, code) in [("postgres", "42501"), ("no_such_role", "22023")] {
        for params in [None, Some("[]")] {
            let task = Task {
                params,
                ..with(role(name), "insert into t values (1)")
            };
            let report = fixture.run(task).await;
            let Report::Failed { error, transient } = report else {
                panic!("{report:?}");
            };
            assert_eq!((error.code.as_str(), transient), (code, false));
            assert!(error.message.contains("options of the task"), "{error:?}");
        }
    }
    assert_eq!(fixture.value("select count(*) from t").await, "0");
    let next = with(SessionOptions::default(), SHOWN);
    assert_eq!(shown(&mut fixture, next).await, AS_EVER);
}

#[tokio::test]
async fn a_role_gives_no_more_than_the_login_may() {
    let mut fixture = allowing(&["option_guest"], SessionOptions::default()).await;
    as_superuser(
        &fixture,
        "create role option_guest; grant option_guest to app; create role option_boss",
    )
    .await;
    let user = "select concat_ws('|', current_user, session_user)";
    let task = with(role("option_guest"), user);
    assert_eq!(shown(&mut fixture, task).await, "option_guest|app");
    let reset = "reset role; select concat_ws('|', current_user, session_user)";
    let task = with(role("option_guest"), reset);
    assert_eq!(shown(&mut fixture, task).await, "app|app");
    let more = with(role("option_guest"), "reset role; set role option_boss");
    assert_eq!(failed(fixture.run(more).await).0, "42501");
    let report = fixture.run(with(role("option_boss"), "select 1")).await;
    assert_eq!(failed(report), ("ROLE_NOT_ALLOWED".into(), false));
}

#[tokio::test]
async fn a_target_says_what_tasks_and_schedulers_leave_open() {
    let mut fixture = allowing(&[], read_only()).await;
    let create = "create table t (a int)";
    assert_eq!(failed(fixture.text(create).await).0, "25006");
    let write = SessionOptions {
        read_only: Some(false),
        ..SessionOptions::default()
    };
    fixture.result(with(write, create)).await;
}

#[tokio::test]
async fn a_session_that_is_kept_for_a_scheduler_keeps_no_options_of_another_task() {
    let mut fixture = allowing(&[], SessionOptions::default()).await;
    let kept = |task: Task| Task {
        reset: SessionReset::Scheduler,
        ..task
    };
    let isolation = "select current_setting('transaction_isolation') as concat_ws";
    let serializable = SessionOptions {
        isolation: Some(Isolation::Serializable),
        ..SessionOptions::default()
    };
    let keep = "create temp table kept (a int)";
    fixture.result(kept(with(serializable.clone(), keep))).await;
    let same = kept(with(serializable.clone(), "select from kept"));
    fixture.result(same).await;
    let other = kept(with(SessionOptions::default(), isolation));
    assert_eq!(shown(&mut fixture, other).await, "read committed");
    let again = kept(with(serializable, isolation));
    assert_eq!(shown(&mut fixture, again).await, "serializable");
}

#[tokio::test]
async fn a_target_that_cleans_after_every_task_does_so_for_every_scheduler() {
    let options = POSTGRES.options_for(&database(TARGET), TARGET);
    let target = TargetConfig {
        session_reset: SessionReset::Task,
        ..TargetConfig::new("app", login(&options), 1)
    };
    let mut fixture = Fixture::of(target, options);
    assert_eq!(fixture.slots().await, 1);
    let kept = |text: &str| Task {
        reset: SessionReset::Scheduler,
        ..sql(text)
    };
    fixture.result(kept("create temp table kept (a int)")).await;
    let report = fixture.run(kept("select from kept")).await;
    assert_eq!(failed(report).0, "42P01");
}
