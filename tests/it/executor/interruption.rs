//! Attempts that are ended from outside: by limits, by a stop, by a lost backend, by a shutdown.

use super::fixture::{Fixture, GRACE, Task, WAIT_TIMEOUT, failed, limited, sql, token};
use crate::harness::postgres::value;
use rallypoint::core::{Report, Seq};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

const SHORT: Duration = Duration::from_millis(100);
/// The number of backends that sleep.
const SLEEPING: &str = "select count(*)
    from pg_stat_activity
    where wait_event = 'PgSleep' and datname = current_database()";

#[tokio::test]
async fn an_attempt_ends_at_its_timeout_and_at_its_deadline() {
    let mut fixture = Fixture::new(1).await;
    assert_eq!(
        timed_out(fixture.run(limited("select pg_sleep(60)", SHORT)).await),
        "TIMEOUT"
    );
    let task = Task {
        deadline: Some(fixture.clock.now() + SHORT),
        ..sql("select pg_sleep(60)")
    };
    assert_eq!(timed_out(fixture.run(task).await), "DEADLINE");
    // It began later than it was handed out.
    let task = Task {
        deadline: Some(fixture.clock.now() + SHORT),
        ..limited("select pg_sleep(60)", Duration::from_secs(60))
    };
    assert_eq!(timed_out(fixture.run(task).await), "DEADLINE");
    assert!(matches!(
        fixture
            .run(limited("select 1", Duration::from_secs(60)))
            .await,
        Report::Succeeded(_)
    ));
    assert_eq!(fixture.value(SLEEPING).await, "0");
}

#[tokio::test]
async fn a_text_that_traps_its_cancel_is_terminated() {
    let mut fixture = Fixture::new(1).await;
    let trap = "do $$ begin
        loop
            begin perform pg_sleep(60); exception when query_canceled then null; end;
        end loop;
    end $$";
    let begun = Instant::now();
    assert_eq!(
        timed_out(fixture.run(limited(trap, SHORT)).await),
        "TIMEOUT"
    );
    assert!(begun.elapsed() >= SHORT + GRACE);
    assert_eq!(fixture.value(SLEEPING).await, "0");
}

#[tokio::test]
async fn a_text_that_outruns_its_cancel_has_succeeded() {
    let mut fixture = Fixture::new(1).await;
    let quick = "do $$ begin perform pg_sleep(60); exception when query_canceled then null; end $$";
    assert!(matches!(
        fixture.run(limited(quick, SHORT)).await,
        Report::Succeeded(_)
    ));
    let open =
        "begin; do $$ begin perform pg_sleep(60); exception when query_canceled then null; end $$";
    assert_eq!(
        timed_out(fixture.run(limited(open, SHORT)).await),
        "TIMEOUT"
    );
    assert_eq!(fixture.value("select 1").await, "1");
}

#[tokio::test]
async fn a_running_task_is_stopped_and_another_attempt_is_not() {
    let mut fixture = Fixture::new(1).await;
    let seq = fixture.start(sql("select pg_sleep(60)"));
    let pid = fixture.asleep().await;
    let row = fixture.executor.executions().remove(0);
    assert_eq!(
        (
            row.backend_pid,
            row.running.map(|(assignment, _)| assignment.first)
        ),
        (pid, Some(seq))
    );
    fixture.executor.stop(token(Seq(99)));
    fixture.executor.stop(token(seq));
    assert_eq!(fixture.ended(seq).await.report, Report::Stopped);
    assert_ne!(
        fixture.value("select pg_backend_pid()").await,
        pid.to_string(),
        "a late cancel must not hit the next task"
    );
}

#[tokio::test]
async fn a_backend_ended_by_somebody_else_is_a_transient_failure() {
    let mut fixture = Fixture::new(1).await;
    let seq = fixture.start(sql("select pg_sleep(60)"));
    let pid = fixture.asleep().await;
    let mut session = fixture.session().await;
    sqlx::query("select pg_terminate_backend($1)")
        .bind(pid)
        .execute(&mut session)
        .await
        .expect("terminated");
    assert_eq!(
        failed(fixture.ended(seq).await.report),
        ("57P01".into(), true)
    );
    assert_eq!(fixture.value("select 1").await, "1");
}

#[tokio::test]
async fn a_shutdown_lets_tasks_finish_and_stops_the_rest() {
    let mut fixture = Fixture::new(2).await;
    let mut gate = fixture.session().await;
    value(&mut gate, "select pg_advisory_lock(1)::text").await;
    let quick = fixture.start(sql("select pg_advisory_lock_shared(1)"));
    let waits = "select count(*)::text
        from pg_locks
        where locktype = 'advisory' and not granted
            and database = (select oid from pg_database where datname = current_database())";
    let begun = async {
        while value(&mut gate, waits).await != "1" {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(WAIT_TIMEOUT, begun).await.expect("it waits");
    let slow = fixture.start(sql("select pg_sleep(60)"));
    fixture.asleep().await;
    let executor = fixture.executor.clone();
    let shutdown = tokio::spawn(async move { executor.shutdown(Duration::from_secs(3)).await });
    assert_eq!(fixture.slots().await, 0);
    let late = fixture.start(sql("select 1"));
    value(&mut gate, "select pg_advisory_unlock(1)::text").await;
    assert!(matches!(
        fixture.ended(quick).await.report,
        Report::Succeeded(_)
    ));
    assert_eq!(fixture.ended(slow).await.report, Report::Stopped);
    assert_eq!(fixture.ended(late).await.report, Report::NotStarted);
    shutdown.await.expect("it ends");
    assert!(fixture.executor.is_idle());
}

fn timed_out(report: Report) -> String {
    match report {
        Report::TimedOut(error) => error.code.clone(),
        other => panic!("{other:?}"),
    }
}
