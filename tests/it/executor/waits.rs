//! What an executor can say of a running attempt, which is what the login that watches over its
//! target may see.

use super::{
    fixture::{Fixture, Task, WAIT_TIMEOUT, sql},
    namespaces::with_logins,
};
use rallypoint::{
    core::{Attempt, Seq, TaskId},
    executor::{AttemptStatus, SessionWait},
};
use std::time::Duration;
use tokio::time::{sleep, timeout};

async fn attempt(fixture: &Fixture, seq: Seq) -> Option<AttemptStatus> {
    let task = TaskId {
        handle: fixture.handle,
        seq,
    };
    fixture.executor.attempt(task, Attempt(1)).await
}

/// What is said of a task of the namespace `a` that sleeps.
async fn said(fixture: &mut Fixture) -> Result<SessionWait, String> {
    let sleeping = fixture.start(Task {
        namespace: "a",
        ..sql("select pg_sleep(3600)")
    });
    let mut looking = fixture.options.clone();
    looking = looking.username(rallypoint::postgres::SUPERUSER);
    let mut looking = crate::harness::postgres::connect(&looking).await;
    let sleeps = "select count(*)::text from pg_stat_activity
        where datname = current_database() and wait_event = 'PgSleep'";
    let asked = async {
        while crate::harness::postgres::value(&mut looking, sleeps).await == "0" {
            sleep(Duration::from_millis(5)).await;
        }
        loop {
            let found = attempt(fixture, sleeping).await.expect("it runs");
            assert!(found.row.backend_pid > 0);
            match found.wait.expect("it has a session") {
                // A busy machine.
                Err(why) if why.contains("has not answered in time") => {}
                said => return said,
            }
        }
    };
    timeout(WAIT_TIMEOUT, asked).await.expect("it is said")
}

#[tokio::test]
async fn the_watchdog_says_what_the_task_of_any_login_waits_for() {
    let mut fixture = with_logins("seen", &["a"], 1, true).await;
    let wait = said(&mut fixture).await.expect("it may see that");
    assert_eq!(
        (wait.state.as_str(), wait.wait_event.as_str()),
        ("active", "PgSleep")
    );
}

#[tokio::test]
async fn a_login_that_may_not_see_a_session_says_what_to_grant() {
    let mut fixture = with_logins("unseen", &["a"], 1, false).await;
    let why = said(&mut fixture).await.expect_err("it may not see that");
    assert!(why.contains("pg_read_all_stats"), "{why}");
}

#[tokio::test]
async fn what_does_not_run_here_is_not_described() {
    let mut fixture = Fixture::new(1).await;
    let done = fixture.start(sql("select 1"));
    fixture.ended(done).await;
    assert!(attempt(&fixture, done).await.is_none());
}
