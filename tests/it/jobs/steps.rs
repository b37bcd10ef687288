//! Steps of jobs: what they know of the run that they belong to, and where its rows are found.

use super::*;
use crate::harness::postgres::connect;
use rallypoint_client::api::GetRunRequest;
use sqlx::Executor;

#[tokio::test]
async fn a_step_knows_the_due_time_of_its_run_also_when_it_is_tried_again() {
    let server = Server::start().await;
    let mut target = connect(&server.app).await;
    let seen = "create table seen (due timestamptz, step text); create sequence tries";
    target.execute(seen).await.expect("created");
    let insert = |step: &str| {
        let due = "current_setting('rallypoint.due')::timestamptz";
        format!("insert into seen values ({due}, '{step}')")
    };
    // The first try rolls its row back, but not the sequence.
    let second = format!("{}; select 1 / (nextval('tries') - 1)", insert("second"));
    let mut steps: Vec<Task> = vec![
        sql(insert("first")).order(1).into(),
        sql(second).order(2).into(),
        sql("select 1/0").order(3).into(),
    ];
    let retry = rallypoint_client::api::RetryPolicy {
        max_attempts: Some(2),
        ..Default::default()
    };
    steps[1].options.get_or_insert_default().retry = Some(retry);
    let settings = JobSettings {
        steps,
        on_failure: vec![sql(insert("failure")).order(1).into()],
        ..job(86_400, [])
    };
    create(&server.client, "due", settings).await;
    let run = run_now(&server.client, "due").await.expect("it starts");
    let due = run.due.expect("a due time");
    let count = "select count(distinct step) from seen where due = to_timestamp($1) \
                 + $2 * interval '1 microsecond'";
    let all = async {
        loop {
            let found: i64 = sqlx::query_scalar(count)
                .bind(due.seconds as f64)
                .bind(f64::from(due.nanos / 1_000))
                .fetch_one(&mut target)
                .await
                .expect("counted");
            if found == 3 {
                return;
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    timeout(WAIT_TIMEOUT, all).await.expect("all know it");
}

#[tokio::test]
async fn a_due_time_of_a_long_pause_is_found_though_somebody_asked_for_a_run_in_between() {
    let server = Server::start().await;
    let client = &server.client;
    let settings = JobSettings {
        misfire: Misfire::Skip.into(),
        ..job(60, [sql("select 1").order(1)])
    };
    create(client, "paused", settings).await;
    let mut journal = connect(&server.journal).await;
    // A range of three hours, as a pause leaves it, with a run that somebody asked for inside.
    let row = |due: &str, last: &str, (count, cause, state, reason): (i64, i16, i16, &str)| {
        format!(
            "insert into job_run (shard, job_no, due_at, last_due_at, due_count, cause, state,
                 reason, catches_up, attempt, failed, cancelled, ended_at)
             select shard, job_no, '{due}', {last}, {count}, {cause}, {state}, {reason}, false,
                 0, 0, 0, '2026-01-01 03:00:01Z' from job;"
        )
    };
    let range = row("2026-01-01 00:00Z", "'2026-01-01 03:00Z'", (181, 1, 8, "4"));
    let asked = row("2026-01-01 01:00:00.5Z", "null", (1, 2, 4, "null"));
    let rows = sqlx::AssertSqlSafe(range + &asked);
    let written = sqlx::raw_sql(rows).execute(&mut journal).await;
    written.expect("written");
    let request = |minute: i64| GetRunRequest {
        name: "paused".into(),
        // 2026-01-01 00:00 UTC.
        due: Some(prost_types::Timestamp {
            seconds: 1_767_225_600 + 60 * minute,
            nanos: 0,
        }),
    };
    for minute in [30, 90] {
        let found = client.get_run(request(minute)).await.expect("in the range");
        let run = found.run.expect("a run");
        assert_eq!((run.state(), run.count), (RunState::Skipped, 181));
    }
    let refused = client.get_run(request(181)).await.expect_err("behind it");
    assert_eq!(reason(&refused), "RUN_NOT_FOUND");
}

#[tokio::test]
async fn a_due_time_without_a_run_is_not_found_however_many_runs_were_asked_for() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "busy", job(86_400, [sql("select 1").order(1)])).await;
    let mut journal = connect(&server.journal).await;
    let rows = "insert into job_run (shard, job_no, due_at, due_count, cause, state,
                    catches_up, attempt, failed, cancelled, ended_at)
                select shard, job_no, '2026-01-01Z'::timestamptz + no * interval '1 second', 1, 2,
                    4, false, 1, 0, 0, now()
                from job, generate_series(1, 25000) no";
    let written = sqlx::raw_sql(rows).execute(&mut journal).await;
    written.expect("written");
    // Half a second behind the last one, and the first one.
    let due = |seconds: i64, nanos: i32| GetRunRequest {
        name: "busy".into(),
        due: Some(prost_types::Timestamp {
            seconds: 1_767_225_600 + seconds,
            nanos,
        }),
    };
    let refused = client.get_run(due(25_000, 500_000_000)).await;
    assert_eq!(reason(&refused.expect_err("none")), "RUN_NOT_FOUND");
    assert!(client.get_run(due(1, 0)).await.is_ok());
}

#[tokio::test]
async fn a_run_from_an_order_on_leaves_out_the_steps_before() {
    let server = Server::start().await;
    let client = &server.client;
    let mut target = connect(&server.app).await;
    let seen = target.execute("create table seen (step int8)").await;
    seen.expect("created");
    let step = |order: i64| sql(format!("insert into seen values ({order})")).order(order);
    create(client, "night", job(86_400, [1, 2, 3].map(step))).await;
    let request = RunJobRequest {
        name: "night".into(),
        from_order: Some(2),
        ..RunJobRequest::default()
    };
    client.run_job(request).await.expect("it starts");
    let ended = |runs: &[JobRun]| count(runs, RunState::Succeeded) == 1;
    runs_until(client, "night", ended).await;
    let steps: Vec<i64> = sqlx::query_scalar("select step from seen order by step")
        .fetch_all(&mut target)
        .await
        .expect("read");
    assert_eq!(steps, [2, 3]);
}
