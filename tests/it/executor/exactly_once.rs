//! EXACTLY_ONCE tasks whose session is not as it was opened: their marker is written by their
//! login, and their text finds what it was promised.

use super::{
    fixture::{Fixture, Task, json, sql},
    namespaces::{administer, with_logins},
    options::allowing,
};
use crate::harness::postgres::{POSTGRES, connect, prepare_target, value};
use rallypoint::{
    core::{Report, SessionOptions, SessionReset},
    postgres::{SUPERUSER, TARGET},
};

const USER: &str = "select current_user::text as u";

fn prepare(fixture: &Fixture, logins: &[&str]) {
    let database = fixture.options.get_database().expect("a name");
    prepare_target(&POSTGRES, database, logins);
}

async fn markers(fixture: &Fixture) -> String {
    let mut superuser = connect(&fixture.options.clone().username(SUPERUSER)).await;
    let query = "select count(*)::text from rallypoint.marker where ended is not null";
    value(&mut superuser, query).await
}

fn once(text: &str) -> Task {
    Task {
        exactly_once: true,
        ..sql(text)
    }
}

async fn user(fixture: &mut Fixture, task: Task) -> String {
    let result = fixture.result(Task { rows: 1, ..task }).await;
    let rows: serde_json::Value = serde_json::from_str(json(&result)).expect("JSON");
    rows[0]["u"].as_str().expect("text").to_owned()
}

#[tokio::test]
async fn a_marker_is_written_whatever_role_and_search_path_its_task_asks_for() {
    let mut fixture = allowing(&["once_guest"], SessionOptions::default()).await;
    prepare(&fixture, &[TARGET]);
    let hostile = "create role once_guest; grant once_guest to app;
        create schema hostile; grant usage on schema hostile to public;
        create domain hostile.int8 as pg_catalog.int8 check (value = 77);
        create function hostile.set_config(text, text, boolean) returns text
            language sql as $$ select (1 / 0)::text $$;
        create function hostile.current_setting(text) returns text
            language sql as $$ select (1 / 0)::text $$";
    administer(&fixture, hostile.into()).await;
    let asked = |text: &str| Task {
        reset: SessionReset::Scheduler,
        session: SessionOptions {
            role: Some("once_guest".into()),
            search_path: vec!["hostile".into(), "pg_catalog".into()],
            ..SessionOptions::default()
        },
        ..once(text)
    };
    let check = "do $$ begin assert current_user = 'once_guest'; end $$; select from pg_class";
    for _ in 0..2 {
        fixture.result(asked(check)).await;
        assert_eq!(user(&mut fixture, asked(USER)).await, "once_guest");
    }
    assert_eq!(markers(&fixture).await, "4");
}

#[tokio::test]
async fn a_role_that_a_text_has_left_to_its_scheduler_writes_no_marker_and_stays() {
    let mut fixture = allowing(&[], SessionOptions::default()).await;
    prepare(&fixture, &[TARGET]);
    let create = "create role once_left; grant once_left to app";
    administer(&fixture, create.into()).await;
    let kept = |text: &str| Task {
        reset: SessionReset::Scheduler,
        ..once(text)
    };
    assert_eq!(user(&mut fixture, kept(USER)).await, "app");
    fixture.result(kept("set role once_left")).await;
    assert_eq!(user(&mut fixture, kept(USER)).await, "once_left");
    fixture.result(kept("set role none")).await;
    assert_eq!(user(&mut fixture, kept(USER)).await, "app");
    let plain = Task {
        reset: SessionReset::Scheduler,
        ..sql(USER)
    };
    assert_eq!(user(&mut fixture, plain).await, "app");
    assert_eq!(markers(&fixture).await, "5");
}

#[tokio::test]
async fn a_statement_that_was_left_prepared_is_in_nobodys_way() {
    let mut fixture = allowing(&[], SessionOptions::default()).await;
    prepare(&fixture, &[TARGET]);
    let kept = |task: Task| Task {
        reset: SessionReset::Scheduler,
        ..task
    };
    // As a commit leaves it that has failed, since two transactions were in each other's way.
    let left = "prepare rallypoint_body as select 1";
    fixture.result(kept(sql(left))).await;
    for _ in 0..2 {
        assert_eq!(user(&mut fixture, kept(once(USER))).await, "app");
    }
}

#[tokio::test]
async fn what_is_put_off_until_the_commit_is_heard_behind_the_text() {
    let mut fixture = allowing(&[], SessionOptions::default()).await;
    prepare(&fixture, &[TARGET]);
    let deferred = "create table t (a int);
        create function speak() returns trigger language plpgsql
            as $$ begin raise notice 'at the commit'; if new.a = 2 then raise 'no'; end if;
                return null; end $$;
        create constraint trigger late after insert on t
            deferrable initially deferred for each row execute function speak()";
    fixture.result(sql(deferred)).await;
    for value in [1, 2] {
        let text = format!(
            "do $$ begin raise notice 'in the text'; insert into t values ({value}); end $$"
        );
        let seq = fixture.start(once(&text));
        let ended = fixture.ended(seq).await;
        assert_eq!(matches!(ended.report, Report::Succeeded(_)), value == 1);
        let said = String::from_utf8(ended.diagnostics.to_vec()).expect("JSON");
        let (first, second) = (said.find("in the text"), said.find("at the commit"));
        assert!(first.is_some() && first < second, "{said}");
    }
}

#[tokio::test]
async fn what_says_much_at_the_commit_keeps_no_large_result_from_its_marker() {
    let mut fixture = allowing(&[], SessionOptions::default()).await;
    prepare(&fixture, &[TARGET]);
    let deferred = "create table t (a int);
        create function speak() returns trigger language plpgsql
            as $$ begin raise notice '%', repeat('much', 50); return null; end $$;
        create constraint trigger late after insert on t
            deferrable initially deferred for each row execute function speak()";
    fixture.result(sql(deferred)).await;
    let text = "insert into t select generate_series(1, 20000)
        returning case a when 1 then repeat('x', 1000000) end as x";
    let task = Task {
        rows: 1,
        ..once(text)
    };
    let result = fixture.result(task).await;
    assert!(result.rows_json.len() > 1_000_000, "the row is whole");
    assert_eq!(markers(&fixture).await, "1");
}

#[tokio::test]
async fn a_place_within_a_function_is_none_of_the_text() {
    let mut fixture = allowing(&[], SessionOptions::default()).await;
    prepare(&fixture, &[TARGET]);
    let broken = "create function broken() returns int language plpgsql
        as $$ begin return (select a from nowhere); end $$";
    fixture.result(sql(broken)).await;
    for (text, has_place) in [("select broken()", false), ("select a from nowhere", true)] {
        let seq = fixture.start(once(text));
        let ended = fixture.ended(seq).await;
        let said = String::from_utf8(ended.diagnostics.to_vec()).expect("JSON");
        assert_eq!(said.contains("position"), has_place, "{text}: {said}");
    }
}

#[tokio::test]
async fn a_login_that_begins_with_a_role_writes_its_markers_itself() {
    let mut fixture = with_logins("once", &["a"], 1, true).await;
    prepare(&fixture, &[TARGET, "once_a", "once_watch"]);
    let statements = "create role once_limited; grant once_limited to once_a;
        alter role once_a set role = once_limited";
    administer(&fixture, statements.into()).await;
    for text in ["select 1", "reset role", "set role none"] {
        let of_a = |task: Task| Task {
            namespace: "a",
            ..task
        };
        assert_eq!(user(&mut fixture, of_a(once(USER))).await, "once_limited");
        fixture.result(of_a(once(text))).await;
        assert_eq!(user(&mut fixture, of_a(sql(USER))).await, "once_limited");
    }
    assert_eq!(markers(&fixture).await, "6");
}
