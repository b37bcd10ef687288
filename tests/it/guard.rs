//! The guard of a target: a database refuses whoever shows a lower token than it has seen, in the
//! writer's own transaction, and only those may show one who are let in.

mod access;
mod control_table;
mod pause;

use crate::harness::{
    conversation::WAIT_TIMEOUT,
    postgres::{self, POSTGRES, connect, value},
    process::PROGRAM,
};
use rallypoint::postgres::{SUPERUSER, TARGET};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::{process::Command, time::Duration};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

/// A database with the guard, which the login `app` may use.
struct Scene {
    database: String,
}

impl Scene {
    fn new() -> Scene {
        let scene = Scene {
            database: postgres::database(TARGET),
        };
        scene.install(&["--login", TARGET]);
        scene
    }

    /// Runs `guard install`.
    fn install(&self, options: &[&str]) {
        let url = POSTGRES.url_for(&self.database, SUPERUSER);
        let mut command = Command::new(PROGRAM);
        command.args(["guard", "install", "--url", &url]);
        let output = command.args(options).output().expect("the program runs");
        assert!(output.status.success(), "{output:?}");
    }

    async fn session(&self) -> PgConnection {
        self.login(TARGET).await
    }

    async fn login(&self, role: &str) -> PgConnection {
        connect(&POSTGRES.options_for(&self.database, role)).await
    }

    /// Waits until a session stands before a lock.
    async fn waits(&self, backend: i32) {
        let mut watcher = self.login(SUPERUSER).await;
        let query =
            "select coalesce(wait_event_type, '') = 'Lock' from pg_stat_activity where pid = $1";
        let begun = Instant::now();
        while !sqlx::query_scalar::<_, bool>(query)
            .bind(backend)
            .fetch_one(&mut watcher)
            .await
            .expect(query)
        {
            assert!(begun.elapsed() < WAIT_TIMEOUT, "it does not wait");
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Runs statements; the error is the SQLSTATE and what is said.
async fn run(session: &mut PgConnection, text: &str) -> Result<(), (String, String)> {
    let ran = sqlx::raw_sql(AssertSqlSafe(text)).execute(session).await;
    ran.map(drop).map_err(|error| {
        let error = error.into_database_error().expect("an answer");
        let error = error.downcast::<sqlx::postgres::PgDatabaseError>();
        let said = [Some(error.message()), error.detail(), error.hint()];
        let said: Vec<&str> = said.into_iter().flatten().collect();
        (error.code().to_owned(), said.join("\n"))
    })
}

/// Begins a transaction and shows a token in it; returns the backend of the session.
async fn begin(session: &mut PgConnection, shown: &str) -> i32 {
    let guard = format!("begin; select rallypoint.guard({shown})");
    run(session, &guard).await.expect("in time");
    backend(session).await
}

async fn backend(session: &mut PgConnection) -> i32 {
    let pid = value(session, "select pg_backend_pid()::text").await;
    pid.parse().expect("a number")
}

/// Shows a token in a transaction of its own, in a session of its own that has to wait.
async fn waiting(scene: &Scene, shown: &str) -> JoinHandle<Result<(), (String, String)>> {
    let mut session = scene.session().await;
    let backend = backend(&mut session).await;
    let guard = format!("select rallypoint.guard({shown})");
    let showing = tokio::spawn(async move { run(&mut session, &guard).await });
    scene.waits(backend).await;
    showing
}

#[tokio::test]
async fn a_lower_token_than_the_highest_seen_is_refused() {
    let scene = Scene::new();
    let mut session = scene.session().await;
    let named = "set application_name = 'billing'";
    run(&mut session, named).await.expect("set");
    for allowed in ["'orders', 7", "'orders', 7", "'orders', 9", "'other', 1"] {
        let guard = format!("select rallypoint.guard({allowed})");
        run(&mut session, &guard).await.expect(allowed);
    }
    let stale = run(&mut session, "select rallypoint.guard('orders', 8)").await;
    let (code, said) = stale.expect_err("it is lower than 9");
    assert_eq!(code, "RP003");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "stale token 8 for \"orders\": 9 was seen");
    assert!(lines[1].starts_with("Token 9 was shown at 2"), "{said}");
    assert!(lines[1].ends_with("Z by app (billing)."), "{said}");
    let hint = "The hold of token 8 is over. Roll back, and claim \"orders\" anew.";
    assert_eq!(lines[2], hint);
}

#[tokio::test]
async fn what_is_no_token_is_refused_and_not_passed_over() {
    let scene = Scene::new();
    let mut session = scene.session().await;
    let long = format!("'{}', 1", "x".repeat(256));
    for wrong in [
        "null, 1",
        "'', 1",
        "'orders', null",
        "'orders', 0",
        "'orders', -1",
        "'orders', 1, null",
        &long,
    ] {
        let guard = format!("select rallypoint.guard({wrong})");
        let refused = run(&mut session, &guard).await;
        assert_eq!(refused.expect_err(wrong).0, "22023", "{wrong}");
    }
}

#[tokio::test]
async fn the_next_writer_waits_for_the_transaction_of_the_one_before() {
    let scene = Scene::new();
    let mut first = scene.session().await;
    begin(&mut first, "'orders', 5").await;
    let next = waiting(&scene, "'orders', 6").await;
    run(&mut first, "commit").await.expect("5 came before 6");
    next.await.expect("it ends").expect("6 is higher");
    // A stale one waits, too, and is refused by what was committed meanwhile.
    begin(&mut first, "'orders', 8").await;
    let stale = waiting(&scene, "'orders', 7").await;
    run(&mut first, "commit").await.expect("committed");
    let refused = stale.await.expect("it ends").expect_err("8 was seen");
    assert_eq!(refused.0, "RP003");
    // What was rolled back was not seen: it has written nothing.
    begin(&mut first, "'orders', 10").await;
    let lower = waiting(&scene, "'orders', 9").await;
    run(&mut first, "rollback").await.expect("rolled back");
    lower.await.expect("it ends").expect("nothing above 8");
}

#[tokio::test]
async fn a_transaction_that_sees_the_past_only_does_not_pass_by_it() {
    let scene = Scene::new();
    for level in ["repeatable read", "serializable"] {
        let mut late = scene.session().await;
        let look = format!("begin isolation level {level}; select 1 from pg_class");
        run(&mut late, &look).await.expect("begun");
        let mut writer = scene.session().await;
        let guard = format!("select rallypoint.guard('{level}', 2)");
        run(&mut writer, &guard).await.expect("the first one");
        for shown in ["1", "1, shared => true"] {
            let guard = format!("savepoint s; select rallypoint.guard('{level}', {shown})");
            let refused = run(&mut late, &guard).await.expect_err(level);
            assert_eq!(refused.0, "40001", "{level}");
            run(&mut late, "rollback to s").await.expect("undone");
        }
    }
}

#[tokio::test]
async fn readers_go_together_and_are_refused_behind_a_later_writer() {
    let scene = Scene::new();
    let (mut one, mut other) = (scene.session().await, scene.session().await);
    run(&mut one, "select rallypoint.guard('orders', 3)")
        .await
        .expect("a writer");
    // In any sequence, at the same time.
    begin(&mut one, "'orders', 5, shared => true").await;
    begin(&mut other, "'orders', 4, shared => true").await;
    let writer = waiting(&scene, "'orders', 6").await;
    for reader in [&mut one, &mut other] {
        run(reader, "commit").await.expect("committed");
    }
    writer.await.expect("it ends").expect("6 is higher");
    let late = "select rallypoint.guard('orders', 5, shared => true)";
    let refused = run(&mut one, late).await.expect_err("6 was seen");
    assert_eq!(refused.0, "RP003");
    // Among readers of a name on which nobody has written, none is too late.
    for reader in ["2", "1"] {
        let guard = format!("select rallypoint.guard('report', {reader}, shared => true)");
        run(&mut one, &guard).await.expect("no writer");
    }
}

#[tokio::test]
async fn among_many_at_once_no_write_comes_behind_one_of_a_higher_token() {
    const WRITERS: i64 = 8;
    const EACH: i64 = 40;
    let scene = Scene::new();
    let mut owner = scene.session().await;
    let ledger = "create table ledger (place serial, token int8 not null)";
    run(&mut owner, ledger).await.expect("made");
    let writers = (0..WRITERS).map(|writer| {
        let database = POSTGRES.options_for(&scene.database, TARGET);
        tokio::spawn(async move {
            let mut session = connect(&database).await;
            let mut refused = 0;
            for turn in 0..EACH {
                let token = turn * WRITERS + writer + 1;
                let write = format!(
                    "select rallypoint.guard('ledger', {token}); insert into ledger (token) values ({token})"
                );
                if let Err((code, _)) = run(&mut session, &write).await {
                    assert_eq!(code, "RP003");
                    refused += 1;
                }
            }
            session.close().await.expect("closed");
            refused
        })
    });
    let mut refused = 0;
    for writer in writers.collect::<Vec<_>>() {
        refused += writer.await.expect("it ends");
    }
    let fallen = "select count(*)::text from (
        select token < lag(token) over (order by place) as fell from ledger) as steps where fell";
    assert_eq!(value(&mut owner, fallen).await, "0");
    let written = value(&mut owner, "select count(*)::text from ledger").await;
    assert_eq!(written, (WRITERS * EACH - refused).to_string());
}

#[tokio::test]
async fn a_table_with_the_trigger_is_written_with_a_token_only() {
    let scene = Scene::new();
    let mut writer = scene.session().await;
    let made = "create table orders (id int);
        create trigger held before insert or update or delete or truncate on orders
            for each statement execute function rallypoint.guard_writes('orders')";
    run(&mut writer, made).await.expect("made");
    let insert = "insert into orders values (1)";
    let refused = run(&mut writer, insert).await.expect_err("no token");
    assert_eq!(refused.0, "RP004");
    assert!(refused.1.contains("public.orders"), "{}", refused.1);
    let with =
        |token: &str| format!("begin; set local rallypoint.token = {token}; {insert}; commit");
    run(&mut writer, &with("4")).await.expect("the first one");
    let refused = run(&mut writer, &with("3")).await.expect_err("4 was seen");
    assert_eq!(refused.0, "RP003");
    run(&mut writer, "rollback").await.expect("undone");
    for write in ["delete from orders", "truncate orders"] {
        let refused = run(&mut writer, write).await.expect_err(write);
        assert_eq!(refused.0, "RP004", "{write}");
    }
    let nines = "9".repeat(200_000);
    for shown in ["4 5", "-5", "\u{2003}5", "9223372036854775808", &nines] {
        let shown = format!("begin; set local rallypoint.token = '{shown}'; {insert}");
        let (code, said) = run(&mut writer, &shown).await.expect_err("no token");
        let is_explained = said.contains("which is no token") && said.contains("RALLYPOINT_TOKEN");
        assert!(code == "22023" && is_explained, "{code} {said}");
        run(&mut writer, "rollback").await.expect("undone");
    }
    let highest = format!("'{}{}'", "0".repeat(50), i64::MAX);
    run(&mut writer, &with(&highest))
        .await
        .expect("the highest there is");
    // For each row it would drop rows.
    let rows = "create table lines (id int);
        create trigger held before insert on lines
            for each row execute function rallypoint.guard_writes('orders');
        insert into lines values (1)";
    assert_eq!(run(&mut writer, rows).await.expect_err("rows").0, "39P01");
}
