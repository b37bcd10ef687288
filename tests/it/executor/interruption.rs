//! Attempts that are ended from outside.

use super::fixture::{GRACE, Rig, Task, failed, limited, sql, token};
use rallypoint::core::{Report, Seq, TimeLimit};
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(100);

#[tokio::test]
async fn an_attempt_ends_at_its_timeout_and_at_its_deadline() {
    let mut rig = Rig::new(1).await;
    assert_eq!(
        timed_out(rig.run(limited("select pg_sleep(60)", SHORT)).await),
        "TIMEOUT"
    );
    let at = rig.clock.now() + SHORT;
    let task = Task {
        limit: Some(TimeLimit::Deadline(at)),
        ..sql("select pg_sleep(60)")
    };
    assert_eq!(timed_out(rig.run(task).await), "DEADLINE");
    assert!(matches!(
        rig.run(limited("select 1", Duration::from_secs(60))).await,
        Report::Succeeded(_)
    ));
    assert_eq!(
        rig.value("select count(*) from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()").await,
        "0"
    );
}

#[tokio::test]
async fn a_text_that_traps_its_cancel_is_terminated() {
    let mut rig = Rig::new(1).await;
    let trap = "do $$ begin loop begin perform pg_sleep(60); exception when query_canceled then null; end; end loop; end $$";
    let begun = Instant::now();
    assert_eq!(timed_out(rig.run(limited(trap, SHORT)).await), "TIMEOUT");
    assert!(begun.elapsed() >= SHORT + GRACE);
    assert_eq!(
        rig.value("select count(*) from pg_stat_activity where state = 'active' and datname = current_database()").await,
        "1"
    );
}

#[tokio::test]
async fn a_text_that_outruns_its_cancel_has_succeeded() {
    let mut rig = Rig::new(1).await;
    let quick = "do $$ begin perform pg_sleep(60); exception when query_canceled then null; end $$";
    assert!(matches!(
        rig.run(limited(quick, SHORT)).await,
        Report::Succeeded(_)
    ));
    let open =
        "begin; do $$ begin perform pg_sleep(60); exception when query_canceled then null; end $$";
    assert_eq!(timed_out(rig.run(limited(open, SHORT)).await), "TIMEOUT");
    assert_eq!(rig.value("select 1").await, "1");
}

#[tokio::test]
async fn a_running_task_is_stopped_and_another_attempt_is_not() {
    let mut rig = Rig::new(1).await;
    let seq = rig.start(sql("select pg_sleep(60)"));
    let pid = rig.asleep().await;
    let row = rig.executor.executions().remove(0);
    assert_eq!(
        (
            row.backend_pid,
            row.running.map(|(assignment, _)| assignment.first)
        ),
        (pid, Some(seq))
    );
    rig.executor.stop(token(Seq(99)));
    rig.executor.stop(token(seq));
    assert_eq!(rig.ended(seq).await.report, Report::Stopped);
    assert_ne!(
        rig.value("select pg_backend_pid()").await,
        pid.to_string(),
        "a late cancel must not hit the next task"
    );
}

#[tokio::test]
async fn a_backend_ended_by_somebody_else_is_a_transient_failure() {
    let mut rig = Rig::new(1).await;
    let seq = rig.start(sql("select pg_sleep(60)"));
    let pid = rig.asleep().await;
    let mut session = rig.session().await;
    sqlx::query("select pg_terminate_backend($1)")
        .bind(pid)
        .execute(&mut session)
        .await
        .expect("terminated");
    assert_eq!(failed(rig.ended(seq).await.report), ("57P01".into(), true));
    assert_eq!(rig.value("select 1").await, "1");
}

#[tokio::test]
async fn a_shutdown_lets_tasks_finish_and_stops_the_rest() {
    let mut rig = Rig::new(2).await;
    let quick = rig.start(sql("select pg_sleep(0.2)"));
    let slow = rig.start(sql("select pg_sleep(60)"));
    rig.asleep().await;
    let executor = rig.executor.clone();
    let shutdown = tokio::spawn(async move { executor.shutdown(Duration::from_secs(1)).await });
    assert_eq!(rig.slots().await, 0);
    let late = rig.start(sql("select 1"));
    assert!(matches!(
        rig.ended(quick).await.report,
        Report::Succeeded(_)
    ));
    assert_eq!(rig.ended(slow).await.report, Report::Stopped);
    assert_eq!(rig.ended(late).await.report, Report::NotStarted);
    shutdown.await.expect("it ends");
    assert!(rig.executor.is_idle());
}

fn timed_out(report: Report) -> String {
    match report {
        Report::TimedOut(error) => error.code.clone(),
        other => panic!("{other:?}"),
    }
}
