//! What Postgres says that a running task waits for: read when it is asked for, down to the session
//! that holds the lock.

use super::{kinds, until};
use crate::harness::{
    conversation::Conversation,
    gate::Gate,
    postgres::{connect, value},
    server::Server,
    work::{noop, sql},
};
use rallypoint::postgres::{SUPERUSER, TARGET};
use rallypoint_client::api::{
    ExplainTaskResponse, RunningAttempt, SchedulerSettings, SessionWait,
    blocker::{Kind, Session},
};
use sqlx::{Connection, PgConnection, postgres::PgConnectOptions};

/// The sessions in the way of a task, the nearest first.
fn sessions(answer: &ExplainTaskResponse) -> Vec<Session> {
    let session = |kind| match kind {
        Kind::Session(session) => session,
        other => panic!("{other:?}"),
    };
    kinds(answer).into_iter().map(session).collect()
}

fn attempt(answer: &ExplainTaskResponse) -> RunningAttempt {
    answer.running.clone().expect("it runs")
}

/// What is said once it waits for a lock.
async fn waits(scheduler: &Conversation, seq: i64) -> (ExplainTaskResponse, SessionWait) {
    let locked = |answer: &ExplainTaskResponse| {
        let wait = answer.running.as_ref().and_then(|one| one.wait.as_ref());
        wait.is_some_and(|wait| !wait.lock_mode.is_empty()) && !answer.blockers.is_empty()
    };
    let answer = until(scheduler, seq, locked).await;
    let wait = attempt(&answer).wait.expect("it says so");
    (answer, wait)
}

async fn run(session: &mut PgConnection, text: &'static str) {
    sqlx::raw_sql(text).execute(session).await.expect(text);
}

/// A session on the target, and its process id.
async fn session(options: &PgConnectOptions) -> (PgConnection, i32) {
    let mut session = connect(options).await;
    let pid = value(&mut session, "select pg_backend_pid()::text").await;
    (session, pid.parse().expect("a number"))
}

#[tokio::test]
async fn a_lock_that_another_session_holds_is_told_down_to_its_pid_user_and_age() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let (mut holder, pid) = session(&server.app).await;
    run(
        &mut holder,
        "create table t (a int); insert into t values (1)",
    )
    .await;
    run(
        &mut holder,
        "set application_name = 'payroll'; begin; update t set a = 2",
    )
    .await;
    let text = "set application_name = 'report'; update t set a = 3";
    scheduler.submit([sql(text)]).await;
    let (answer, wait) = waits(&scheduler, 1).await;
    assert_eq!(
        (wait.state.as_str(), wait.wait_event_type.as_str()),
        ("active", "Lock")
    );
    assert_eq!(
        (wait.lock_type.as_str(), wait.lock_mode.as_str()),
        ("transactionid", "ShareLock")
    );
    let [found] = &sessions(&answer)[..] else {
        panic!("{answer:?}")
    };
    assert_eq!((found.backend_pid, found.depth), (pid, 1));
    assert_eq!(
        (found.user.as_str(), found.application.as_str()),
        (TARGET, "payroll")
    );
    assert_eq!(found.state, "idle in transaction");
    assert_eq!(found.backend_type, "client backend");
    let age = |session: &Session| session.transaction_age.map(|age| (age.seconds, age.nanos));
    let before = age(found);
    assert!(before > Some((0, 0)), "{found:?}");
    let text = &answer.text;
    for part in [
        &format!("session {pid} of {TARGET} (payroll)"),
        "ShareLock",
        "transaction for",
    ] {
        assert!(text.contains(part), "{text}");
    }
    // It is asked again each time.
    let (later, _) = waits(&scheduler, 1).await;
    assert!(age(&sessions(&later)[0]) > before);
    run(&mut holder, "commit").await;
    scheduler.all_done().await;
}

#[tokio::test]
async fn who_waits_for_somebody_else_is_followed_to_the_one_who_does_not() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let (mut first, first_pid) = session(&server.app).await;
    run(&mut first, "create table t (a int)").await;
    run(&mut first, "begin; lock table t in row exclusive mode").await;
    let (mut second, second_pid) = session(&server.app).await;
    let locking = tokio::spawn(async move {
        run(
            &mut second,
            "begin; lock table t in access exclusive mode; commit",
        )
        .await;
        second.close().await.expect("closed");
    });
    let waiting = "select count(*)::text
        from pg_locks
        where not granted
            and database = (select oid from pg_database where datname = current_database())";
    while value(&mut first, waiting).await == "0" {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    scheduler.submit([sql("select * from t")]).await;
    let (answer, wait) = waits(&scheduler, 1).await;
    assert_eq!(
        (wait.lock_mode.as_str(), wait.lock_relation.as_str()),
        ("AccessShareLock", "public.t")
    );
    let found: Vec<(i32, i32)> = sessions(&answer)
        .iter()
        .map(|session| (session.backend_pid, session.depth))
        .collect();
    assert_eq!(found, [(second_pid, 1), (first_pid, 2)]);
    assert_eq!(sessions(&answer)[0].wait_event_type, "Lock");
    run(&mut first, "commit").await;
    locking.await.expect("it got its lock");
    scheduler.all_done().await;
}

#[tokio::test]
async fn a_task_of_ours_that_holds_the_lock_is_named() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let (mut gatekeeper, _) = session(&server.app).await;
    run(&mut gatekeeper, "create table t (a int)").await;
    let gate = Gate::close(&server.app).await;
    let holder = "begin; lock table t; select pg_advisory_xact_lock_shared(1); commit";
    scheduler.submit([sql(holder)]).await;
    waits(&scheduler, 1).await;
    scheduler.submit([sql("select * from t")]).await;
    let (answer, _) = waits(&scheduler, 2).await;
    let named: Vec<_> = sessions(&answer)
        .iter()
        .map(|session| session.task.as_ref().map(|task| task.seq))
        .collect();
    assert_eq!(named, [Some(1), None], "{answer:?}");
    let said = format!("which runs task {}/1, is in the way", scheduler.handle());
    assert!(answer.text.contains(&said), "{}", answer.text);
    gate.open().await;
    scheduler.all_done().await;
}

#[tokio::test]
async fn of_a_session_that_the_login_may_not_see_at_least_its_pid_and_user_are_told() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let other = server.app.clone().username(SUPERUSER);
    let mut gate = Gate::close(&other).await;
    let pid = gate.pid().await;
    scheduler.submit([gate.task()]).await;
    let (answer, _) = waits(&scheduler, 1).await;
    let [hidden] = &sessions(&answer)[..] else {
        panic!("{answer:?}")
    };
    assert_eq!(
        (
            hidden.backend_pid,
            hidden.user.as_str(),
            hidden.state.as_str()
        ),
        (pid, SUPERUSER, "")
    );
    assert!(
        answer.text.contains("may see no more of it"),
        "{}",
        answer.text
    );
    gate.open().await;
    scheduler.all_done().await;
}

#[tokio::test]
async fn a_task_that_waits_for_no_lock_says_what_it_does() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler
        .submit([sql("select pg_sleep(3600)"), noop()])
        .await;
    let sleeps = |answer: &ExplainTaskResponse| {
        let wait = answer.running.as_ref().and_then(|one| one.wait.as_ref());
        wait.is_some_and(|wait| wait.wait_event == "PgSleep")
    };
    let answer = until(&scheduler, 1, sleeps).await;
    assert!(answer.blockers.is_empty(), "{answer:?}");
    assert!(answer.text.contains("Timeout/PgSleep"), "{}", answer.text);
    scheduler.cancel_everything().await;
}

#[tokio::test]
async fn a_target_that_does_not_answer_is_no_error() {
    let postgres = crate::harness::postgres::start(Vec::new());
    let server = Server::with(crate::harness::server::Setup {
        far: Some(&postgres),
        ..Default::default()
    })
    .await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let far = sql("select pg_sleep(3600)").on("far").at_most_once();
    scheduler.submit([far]).await;
    until(&scheduler, 1, |answer| {
        let running = answer.running.as_ref();
        running.is_some_and(|one| one.wait.is_some())
    })
    .await;
    postgres.immediate_stop();
    let answer = until(&scheduler, 1, |answer| {
        let running = answer.running.as_ref();
        running.is_some_and(|one| !one.wait_unknown.is_empty())
    })
    .await;
    assert!(answer.text.contains("is not known"), "{}", answer.text);
    postgres.restart().expect("started again");
    scheduler.all_done().await;
}

#[tokio::test]
async fn a_task_that_timed_out_behind_a_lock_says_who_held_it() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let mut gate = Gate::close(&server.app).await;
    let pid = gate.pid().await;
    scheduler.submit([gate.task().timeout(300)]).await;
    let done = scheduler.all_done().await;
    let error = done[0].error.as_ref().expect("it has failed");
    assert_eq!(error.code, "TIMEOUT");
    let said = format!("waiting for a lock behind session {pid} of {TARGET}");
    assert!(error.message.contains(&said), "{}", error.message);
}
