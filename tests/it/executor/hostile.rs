//! Texts that try what a text can try on the session it runs on, and on what is sent with it.

use super::fixture::{Fixture, Task, WAIT_TIMEOUT, failed, json, limited, sql, with_params};
use rallypoint::core::Report;
use std::time::Duration;
use tokio::time::timeout;

/// Texts and what they come to: the rows of the last statement, or a code.
type Texts<'a> = &'a [(&'a str, Result<i64, &'a str>)];

/// How a text may end.
const ENDINGS: Texts<'_> = &[
    ("", Ok(0)),
    (" ; ; ", Ok(0)),
    ("select 1 --", Ok(1)),
    ("select 1 -- with a comment", Ok(1)),
    ("select 1 -- '", Ok(1)),
    ("select 1;", Ok(1)),
    ("select 1 /* closed */", Ok(1)),
    ("select 1 /* open", Err("42601")),
    ("select 1 /* a /* b */", Err("42601")),
    ("select 1 /", Err("42601")),
    ("select 'open", Err("42601")),
    ("select ' open '' still", Err("42601")),
    ("select E'open \\", Err("42601")),
    ("select E'open \\'", Err("42601")),
    ("select \"open", Err("42601")),
    ("select $$ open", Err("42601")),
    ("select $tag$ open $$", Err("42601")),
    ("select U&'open", Err("42601")),
    ("select 1 as a\\", Err("42601")),
    ("set standard_conforming_strings = off; select 1", Ok(1)),
];

/// What a text may do to its session.
const LITTER: Texts<'_> = &[
    ("begin", Err("TRANSACTION_LEFT_OPEN")),
    ("begin; select 1; commit", Ok(0)),
    ("rollback", Ok(0)),
    ("commit", Ok(0)),
    ("select 1; rollback; select 2", Ok(1)),
    ("begin; select 1 / 0", Err("22012")),
    ("begin; savepoint a; select 2", Err("TRANSACTION_LEFT_OPEN")),
    ("discard all", Ok(0)),
    ("prepare left_behind as select 1", Ok(0)),
    ("declare left_behind cursor with hold for select 1", Ok(0)),
    ("create temp table left_behind (a int)", Ok(0)),
    ("listen left_behind", Ok(0)),
    (
        "set search_path = nowhere; set client_min_messages = debug5",
        Ok(0),
    ),
    ("set client_encoding = latin1; select 'ä'", Ok(1)),
    (
        "set session characteristics as transaction read only",
        Ok(0),
    ),
    (
        "create table t (a int); insert into t values (1), (2)",
        Ok(2),
    ),
    ("copy t from stdin", Err("PROTOCOL")),
    (
        "insert into t values (3); copy t from stdin",
        Err("PROTOCOL"),
    ),
    ("copy t to stdout", Err("PROTOCOL")),
    (
        "select count(*) from t where a = 3 having count(*) = 0",
        Ok(1),
    ),
];

/// What a text comes to, and that the next task finds a session that is like a new one.
async fn ends(fixture: &mut Fixture, text: &str) -> Result<i64, String> {
    let report = fixture.text(text).await;
    let clean = "select concat(
        current_setting('standard_conforming_strings'), current_user, current_setting('search_path'),
        (select count(*) from pg_prepared_statements), (select count(*) from pg_cursors),
        (select count(*) from pg_listening_channels()), to_regclass('pg_temp.left_behind'))";
    let found = fixture.value(clean).await;
    assert_eq!(found, r#"onapp"$user", public000"#, "after {text}");
    match report {
        Report::Succeeded(Some(result)) => Ok(result.rows_affected),
        report => Err(failed(report).0),
    }
}

#[tokio::test]
async fn what_a_text_ends_with_does_not_reach_what_is_sent_behind_it() {
    all_end(ENDINGS).await;
}

#[tokio::test]
async fn what_a_text_does_to_its_session_does_not_reach_the_next() {
    all_end(LITTER).await;
}

async fn all_end(texts: Texts<'_>) {
    let mut fixture = Fixture::new(1).await;
    for (text, expected) in texts {
        let ended = ends(&mut fixture, text).await;
        assert_eq!(ended, expected.map_err(str::to_owned), "{text}");
    }
}

#[tokio::test]
async fn a_text_whose_quotes_are_off_by_setting_stays_an_error() {
    let mut fixture = Fixture::new(1).await;
    // In its database alone: other tests have the same role.
    let role = "do $$ begin
        execute format(
            'alter role app in database %I set standard_conforming_strings = off',
            current_database());
    end $$";
    fixture.result(sql(role)).await;
    // A new session takes the setting of its role.
    let fixture = &mut Fixture::on(fixture.options.clone(), 1);
    assert_eq!(fixture.slots().await, 1);
    for text in [r"select 'open \'", r"select 'open \"] {
        assert_eq!(failed(fixture.text(text).await).0, "42601", "{text}");
    }
}

#[tokio::test]
async fn a_notification_at_the_worst_moment_harms_nothing() {
    let mut fixture = Fixture::new(1).await;
    // Its own: it arrives behind the text's answer, before that of the cleaning.
    let text = "listen c; select 1; notify c, 'mine'";
    assert_eq!(fixture.result(sql(text)).await.rows_affected, 0);
    // Somebody else's, while it runs and when it ends.
    let seq = fixture.start(sql("listen c; commit; select pg_sleep(2); select 42"));
    fixture.asleep().await;
    let mut other = fixture.session().await;
    let notified = async {
        loop {
            sqlx::raw_sql("notify c, 'yours'")
                .execute(&mut other)
                .await
                .expect("notified");
            if let Ok(ended) = timeout(Duration::from_millis(5), fixture.ended(seq)).await {
                return ended.report;
            }
        }
    };
    let ended = timeout(WAIT_TIMEOUT, notified).await.expect("it ends");
    assert!(matches!(ended, Report::Succeeded(_)), "{ended:?}");
    assert_eq!(fixture.value("select 1").await, "1");
}

#[tokio::test]
async fn parameters_are_no_text() {
    let mut fixture = Fixture::new(1).await;
    let inject = r#"["1) --", "'; drop table t; --"]"#;
    let text = "select $1::text as a, $2::text as b";
    let result = fixture.result(with_params(text, inject)).await;
    assert_eq!(
        json(&result),
        r#"[{"a":"1) --","b":"'; drop table t; --"}]"#
    );
    for (text, code) in [
        ("select $1::int -- open", None),
        ("select $1::int /* open", Some("42601")),
        ("select $1::int, 'open", Some("42601")),
        ("select $1::int; select 2", Some("42601")),
        ("begin", Some("PARAMS_INVALID")),
    ] {
        let report = fixture.run(with_params(text, r#"["1"]"#)).await;
        match code {
            None => assert!(matches!(report, Report::Succeeded(_)), "{text}: {report:?}"),
            Some(code) => assert_eq!(failed(report).0, code, "{text}"),
        }
    }
    assert_eq!(fixture.value("select 1").await, "1");
}

#[tokio::test]
async fn a_cancel_that_is_trapped_ends_only_its_own_task() {
    let mut fixture = Fixture::new(2).await;
    let neighbour = fixture.start(sql("select pg_sleep(2); select 7"));
    let trap = "do $$ begin
        loop
            begin perform pg_sleep(60); exception when query_canceled then null; end;
        end loop;
    end $$";
    let ended = fixture.run(limited(trap, Duration::from_millis(100))).await;
    assert!(matches!(ended, Report::TimedOut(_)), "{ended:?}");
    let ended = fixture.ended(neighbour).await.report;
    assert!(matches!(ended, Report::Succeeded(_)), "{ended:?}");
}

#[tokio::test]
async fn a_text_that_ends_its_session_by_itself_is_lost() {
    let mut fixture = Fixture::new(1).await;
    let text = "select pg_terminate_backend(pg_backend_pid())";
    let expected = ("57P01".to_owned(), true);
    assert_eq!(failed(fixture.text(text).await), expected);
    let task = Task {
        rows: 1,
        ..sql("select 1 as a")
    };
    assert_eq!(json(&fixture.result(task).await), r#"[{"a":1}]"#);
}
