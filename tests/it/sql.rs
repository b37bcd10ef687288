//! Hostile and unlucky SQL: each statement ends with the right outcome and harms no other task of
//! its scheduler.

use crate::harness::{
    postgres::{connect, value},
    server::{Server, Setup},
    work::{Work, sleep, sql},
};
use rallypoint_client::api::{self, AsyncDone, Outcome, SchedulerSettings};

#[tokio::test]
async fn sql_that_fails_says_its_sqlstate() {
    let done = beside_neighbours(sql("select 1/0")).await;
    assert_eq!(ending(&done), (Outcome::Failed, "22012"));
}

#[tokio::test]
async fn sql_that_runs_for_ever_ends_at_its_timeout() {
    let done = beside_neighbours(sql("select pg_sleep(3600)").timeout(200)).await;
    assert_eq!(ending(&done), (Outcome::TimedOut, "TIMEOUT"));
}

#[tokio::test]
async fn sql_that_runs_for_ever_without_waiting_ends_at_its_timeout() {
    let spin = "do $$ begin loop perform 1; end loop; end $$";
    let done = beside_neighbours(sql(spin).timeout(200)).await;
    assert_eq!(ending(&done), (Outcome::TimedOut, "TIMEOUT"));
}

#[tokio::test]
async fn sql_that_traps_the_cancel_ends_all_the_same() {
    let trap = "do $$ begin
        loop
            begin perform pg_sleep(3600); exception when query_canceled then null; end;
        end loop;
    end $$";
    let done = beside_neighbours(sql(trap).timeout(200)).await;
    assert_eq!(ending(&done), (Outcome::TimedOut, "TIMEOUT"));
}

#[tokio::test]
async fn sql_that_lifts_the_timeout_of_its_session_ends_all_the_same() {
    let done =
        beside_neighbours(sql("set statement_timeout = 0; select pg_sleep(3600)").timeout(200))
            .await;
    assert_eq!(ending(&done), (Outcome::TimedOut, "TIMEOUT"));
}

#[tokio::test]
async fn sql_that_says_commit_commits_what_is_its_own() {
    let text =
        "begin; create table mine as select 1 as a; commit; select 2; commit; begin; rollback";
    let done = beside_neighbours(sql(text)).await;
    assert_eq!(done.outcome(), Outcome::Succeeded, "{done:?}");
}

#[tokio::test]
async fn sql_that_leaves_a_transaction_open_fails_and_is_rolled_back() {
    let done = beside_neighbours(sql("begin; create table lost as select 1 as a")).await;
    assert_eq!(ending(&done), (Outcome::Failed, "TRANSACTION_LEFT_OPEN"));
}

#[tokio::test]
async fn sql_that_sets_another_role_is_refused_by_the_database() {
    for role in ["postgres", "rallypoint", "pg_monitor"] {
        let done = beside_neighbours(sql(format!("set role {role}; select 1"))).await;
        assert_eq!(ending(&done), (Outcome::Failed, "42501"));
    }
    let done = beside_neighbours(sql("set session authorization postgres; select 1")).await;
    assert_eq!(ending(&done), (Outcome::Failed, "42501"));
}

#[tokio::test]
async fn sql_that_returns_a_gigabyte_succeeds_and_keeps_what_was_asked_for() {
    let gigabyte = "select repeat('x', 1048576) as megabyte from generate_series(1, 1024)";
    let done = beside_neighbours(sql(gigabyte)).await;
    assert_eq!(done.outcome(), Outcome::Succeeded, "{done:?}");
    assert_eq!(done.result.map(|result| result.rows_affected), Some(1024));
}

#[tokio::test]
async fn sql_that_ends_its_own_backend_is_lost_so_often_and_then_exhausted() {
    let done =
        beside_neighbours(sql("select pg_terminate_backend(pg_backend_pid())").attempts(1)).await;
    assert_eq!(
        (done.outcome(), done.attempt),
        (Outcome::Exhausted, 3),
        "{done:?}"
    );
}

#[tokio::test]
async fn sql_that_litters_its_session_leaves_nothing_to_the_next_task() {
    let litter = "create temp table t as select 1; set search_path = nowhere; \
                  set work_mem = '64kB'; listen x; prepare p as select 1; select pg_advisory_lock(7); set role app";
    let done = beside_neighbours(sql(litter)).await;
    assert_eq!(done.outcome(), Outcome::Succeeded, "{done:?}");
}

#[tokio::test]
async fn what_a_task_says_comes_back_with_its_outcome_and_stands_in_the_log() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let texts = [
        "do $$ begin raise notice 'half way'; raise warning 'almost' using hint = 'wait'; end $$",
        "create table u (a int constraint only_one unique);
            insert into u values (1); insert into u values (1)",
        "select * from nowhere",
        "do $$ begin raise notice 'so far'; raise 'no' using detail = 'why', hint = 'how'; end $$",
    ];
    scheduler.submit(texts.map(|text| sql(text).order(1))).await;
    let mut done = scheduler.all_done().await;
    done.sort_by_key(|done| done.seq);
    for done in &done {
        assert_eq!((done.replica.as_str(), done.slot > 0), ("test", true));
        assert!(done.backend_pid > 0, "{done:?}");
    }
    assert_eq!(
        done[0].notices,
        "NOTICE: half way\nWARNING: almost\nHINT: wait\n"
    );
    let error = |at: usize| done[at].error.clone().expect("an error");
    assert_eq!(error(1).constraint, "only_one");
    assert_eq!(error(1).detail, "Key (a)=(1) already exists.");
    assert_eq!(
        (error(2).code.as_str(), error(2).position),
        ("42P01", Some(15))
    );
    assert_eq!(
        (error(3).detail.as_str(), error(3).hint.as_str()),
        ("why", "how")
    );
    assert!(error(3).context.contains("RAISE"), "{:?}", error(3));
    assert_eq!(done[3].notices, "NOTICE: so far\n");
    let query = "select string_agg(concat_ws('|', replica, slot > 0, backend_pid > 0, notices,
            diagnostics ->> 'constraint'), ';' order by seq)
        from rallypoint_log.execution_log";
    let logged = value(&mut connect(&server.journal).await, query).await;
    assert_eq!(
        logged,
        "test|t|t|NOTICE: half way\nWARNING: almost\nHINT: wait\n;test|t|t|only_one;\
         test|t|t;test|t|t|NOTICE: so far\n"
    );
}

#[tokio::test]
async fn options_of_a_scheduler_hold_for_its_tasks_unless_they_say_otherwise() {
    let server = Server::start().await;
    let session = |read_only, role: &str| api::SessionOptions {
        read_only: Some(read_only),
        role: Some(role.to_owned()).filter(|role| !role.is_empty()),
        ..Default::default()
    };
    let default_options = api::TaskOptions {
        session: Some(session(true, "")),
        ..Default::default()
    };
    let settings = SchedulerSettings {
        default_options: Some(default_options),
        ..Default::default()
    };
    let scheduler = server.open(settings.clone()).await;
    let create = || sql("create table made as select 1 as a");
    let tasks = [
        create().order(1),
        create().session(session(false, "")).order(2),
    ];
    scheduler.submit(tasks).await;
    let done = scheduler.all_done().await;
    let endings: Vec<_> = done.iter().map(ending).collect();
    let expected = [(Outcome::Failed, "25006"), (Outcome::Succeeded, "")];
    assert_eq!(endings, expected);
    let described = scheduler.scheduler.describe().await.expect("described");
    let shown = described.settings.expect("settings").default_options;
    assert_eq!(shown, settings.default_options);
    let refused = scheduler.try_submit([create().session(session(false, "postgres"))]);
    let error = refused.await.expect_err("no role is allowed");
    assert_eq!(error.code, tonic::Code::InvalidArgument);
    assert_eq!(error.violations[0].0, "tasks[0].options.session.role");
}

#[tokio::test]
async fn sql_with_a_nul_byte_is_refused_at_submit() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let error = scheduler
        .try_submit([sleep(1), sql("select '\0'")])
        .await
        .expect_err("no NUL");
    assert_eq!(error.code, tonic::Code::InvalidArgument);
    assert_eq!(error.violations[0].0, "tasks[1].sql.statement");
    assert_eq!(
        scheduler
            .scheduler
            .describe()
            .await
            .expect("described")
            .submitted,
        0
    );
}

#[tokio::test]
async fn no_task_reaches_the_coordination_database() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler
        .submit([
            sql("select * from rallypoint_log.execution_log"),
            sql("select * from pg_read_file('/etc/passwd')"),
        ])
        .await;
    let done = scheduler.all_done().await;
    let mut codes: Vec<_> = done.iter().map(|done| ending(done).1).collect();
    codes.sort_unstable();
    assert_eq!(codes, ["42501", "42P01"]);
}

/// Runs a task on one of two slots, with a neighbour beside it all the time and others after it on
/// the same slots; checks that the neighbours are unharmed and find a clean session.
async fn beside_neighbours(culprit: Work) -> AsyncDone {
    let server = Server::with(Setup {
        slots: 2,
        ..Setup::default()
    })
    .await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    let first = scheduler.submit([gate.task(), culprit]).await;
    scheduler.until(|now| now.done == 1).await;
    scheduler.submit(clean().times(2)).await;
    scheduler.until(|now| now.done == 3).await;
    gate.open().await;
    scheduler.submit(clean().times(4)).await;
    let done = scheduler.all_done().await;
    let neighbours = done.iter().filter(|done| done.seq != first + 1);
    for neighbour in neighbours {
        assert_eq!(
            (neighbour.outcome(), neighbour.attempt),
            (Outcome::Succeeded, 1),
            "{neighbour:?}"
        );
    }
    done.into_iter()
        .find(|done| done.seq == first + 1)
        .expect("the culprit has ended")
}

/// Fails unless its session is like a new one.
fn clean() -> Work {
    sql("do $$ begin
        assert current_user = 'app' and session_user = 'app', 'role';
        assert current_setting('search_path') = '\"$user\", public', 'search_path';
        assert current_setting('work_mem') = '4MB', 'work_mem';
        assert to_regclass('pg_temp.t') is null, 'temporary tables';
        assert not exists (select from pg_prepared_statements where name = 'p'), 'prepared';
        assert not exists (select from pg_listening_channels()), 'listening';
        assert not exists (
            select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()
        ), 'locks';
        assert to_regclass('lost') is null, 'uncommitted';
    end $$")
}

fn ending(done: &AsyncDone) -> (Outcome, &str) {
    (
        done.outcome(),
        done.error.as_ref().map_or("", |error| error.code.as_str()),
    )
}
