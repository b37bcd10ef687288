//! What is read for a handle of another namespace is what is read for one that nobody has: neither
//! the answer nor the work behind it says that somebody has it.

use crate::harness::{
    postgres::{connect, durable},
    server::{Server, Setup},
    work::noop,
};
use rallypoint::postgres::SUPERUSER;
use rallypoint_client::{
    Error, Scheduler,
    api::{CancelTasksRequest, ListTasksRequest, ReleaseMode, SchedulerSettings, TaskFilter},
};
use sqlx::PgConnection;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Calls of each kind that are counted together.
const CALLS: usize = 5;
const NOBODYS: &str = "01890000-0000-7000-8000-000000000000";
/// Names of statements that read schedulers and tasks. Others are sent all the time, whoever calls.
const FOR_CALLERS: &str = "^-- (scheduler|submission|task|attempt|bod|ends|event|outcome|retr|row|count_|first_|last_submitted|\
                           last_task|look_|find_|floor_|oldest_|requests|claim|job|run)";

/// Statements by their names: how often, and how many rows.
type Reads = BTreeMap<String, (i64, i64)>;

/// Every call that names a handle.
const PATHS: [&str; 12] = [
    "describe",
    "exec",
    "pause",
    "resume",
    "update",
    "task",
    "explain",
    "tasks",
    "cancel",
    "cancel_tasks",
    "retry",
    "retry_failed",
];

async fn call(scheduler: &Scheduler, path: &str) -> Error {
    let refused = match path {
        "describe" => scheduler.describe().await.map(drop),
        "exec" => scheduler.exec(vec![noop().into()]).await.map(drop),
        "pause" => scheduler.pause().await.map(drop),
        "resume" => scheduler.resume(false).await.map(drop),
        "update" => {
            let settings = SchedulerSettings::default();
            let changed = scheduler.update(settings, &["max_parallelism"]).await;
            changed.map(drop)
        }
        "task" => scheduler.task(1).await.map(drop),
        "explain" => scheduler.explain(1).await.map(drop),
        "tasks" => scheduler.tasks(ListTasksRequest::default()).await.map(drop),
        "cancel" => scheduler.cancel(1).await.map(drop),
        "cancel_tasks" => {
            let request = CancelTasksRequest {
                filter: Some(TaskFilter::default()),
                ..Default::default()
            };
            scheduler.cancel_tasks(request).await.map(drop)
        }
        "retry" => scheduler.retry(1).await.map(drop),
        "retry_failed" => scheduler.retry_failed(None, String::new()).await.map(drop),
        other => panic!("no call {other}"),
    };
    refused.expect_err("it is not there")
}

async fn reset(admin: &mut PgConnection) {
    sqlx::raw_sql("select pg_stat_statements_reset()")
        .execute(admin)
        .await
        .expect("reset");
}

/// What has been read since, for callers.
async fn reads(admin: &mut PgConnection) -> Reads {
    let query = "select split_part(query, e'\\n', 1), calls, rows from pg_stat_statements
        where query like '-- %' and split_part(query, e'\\n', 1) ~ $1";
    let rows: Vec<(String, i64, i64)> = sqlx::query_as(query)
        .bind(FOR_CALLERS)
        .fetch_all(admin)
        .await
        .expect("counted");
    rows.into_iter()
        .map(|(name, calls, rows)| (name, (calls, rows)))
        .collect()
}

/// What a caller learns of a handle, and what was read and how long it took for that.
async fn outcome_of(
    admin: &mut PgConnection,
    one: &Scheduler,
    path: &str,
) -> (String, Reads, Duration) {
    reset(admin).await;
    let (begun, mut said) = (Instant::now(), String::new());
    for _ in 0..CALLS {
        let error = call(one, path).await;
        said = format!("{:?} {:?} {}", error.code, error.reason, error.message);
    }
    let took = begun.elapsed() / CALLS as u32;
    // The handle is the caller's own word.
    let said = said.replace(one.handle(), "HANDLE");
    (said, reads(admin).await, took)
}

#[tokio::test]
async fn a_handle_of_others_costs_the_reads_of_one_that_nobody_has() {
    let settings = ("shared_preload_libraries", "pg_stat_statements");
    let postgres = durable(vec![(settings.0.into(), settings.1.into())]);
    let mut admin = connect(&postgres.options_for("postgres", SUPERUSER)).await;
    sqlx::raw_sql("create extension pg_stat_statements")
        .execute(&mut admin)
        .await
        .expect("it is there");
    let server = Server::with(Setup {
        postgres: Some(&postgres),
        trusted: true,
        ..Setup::default()
    })
    .await;
    let (etl, sales) = (server.of_namespace("etl"), server.of_namespace("sales"));
    let sales = sales.with_retry_timeout(Duration::ZERO);
    let open = server.open_as(&etl, SchedulerSettings::default()).await;
    let over = server.open_as(&etl, SchedulerSettings::default()).await;
    for one in [&open, &over] {
        one.submit(noop().times(3)).await;
        one.all_done().await;
    }
    over.scheduler
        .release(ReleaseMode::Finish, true)
        .await
        .expect("released");
    for path in PATHS {
        let (nothing, reads, took) = outcome_of(&mut admin, &sales.scheduler(NOBODYS), path).await;
        assert!(!reads.is_empty(), "{path}: the journal is asked");
        for theirs in [&open, &over] {
            let theirs = sales.scheduler(theirs.handle());
            let (said, of_theirs, theirs_took) = outcome_of(&mut admin, &theirs, path).await;
            assert_eq!(said, nothing, "{path}");
            assert_eq!(of_theirs, reads, "{path}");
            println!("{path}: {theirs_took:?} beside {took:?} of one nobody has; {reads:?}");
        }
    }
}
