//! Runs for due times in the past.

use super::*;
use rallypoint_client::api::BackfillJobRequest;

#[tokio::test]
async fn due_times_from_before_the_job_have_a_run_each_and_no_second_one() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "hourly", job(3_600, [sql("select 1").order(1)])).await;
    let time = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
    let request = |dry_run| BackfillJobRequest {
        name: "hourly".into(),
        from: time(1_767_225_600),
        until: time(1_767_225_600 + 5 * 3_600),
        dry_run,
    };
    let planned = client.backfill_job(request(true)).await.expect("planned");
    assert_eq!(planned.due.len(), 5);
    assert!(runs(client, "hourly").await.is_empty());
    let asked = client.backfill_job(request(false)).await.expect("asked");
    assert_eq!(asked, planned);
    let done = runs_until(client, "hourly", |runs| {
        count(runs, RunState::Succeeded) == 5
    })
    .await;
    assert!(done.iter().all(|run| run.cause() == RunCause::Backfilled));
    let again = client.backfill_job(request(false)).await.expect("asked");
    assert_eq!((again.due.len(), again.left_out), (0, 5));
    let long = BackfillJobRequest {
        until: None,
        ..request(false)
    };
    let error = client.backfill_job(long).await.unwrap_err();
    assert_eq!(reason(&error), "BACKFILL_TOO_LARGE");
}

#[tokio::test]
async fn backfills_at_the_same_time_give_each_due_time_one_run() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "hourly", job(3_600, [sql("select 1").order(1)])).await;
    let hour = |number: i64| {
        Some(prost_types::Timestamp {
            seconds: 1_767_225_600 + number * 3_600,
            nanos: 0,
        })
    };
    let calls = [(0, 3), (2, 5), (1, 4), (0, 5)].map(|(from, until)| {
        let request = BackfillJobRequest {
            name: "hourly".into(),
            from: hour(from),
            until: hour(until),
            dry_run: false,
        };
        client.backfill_job(request)
    });
    let [a, b, c, d] = calls;
    let answers = tokio::join!(a, b, c, d);
    let mut given: Vec<i64> = [answers.0, answers.1, answers.2, answers.3]
        .into_iter()
        .flat_map(|answer| answer.expect("asked").due)
        .map(|due| due.seconds)
        .collect();
    given.sort_unstable();
    let all: Vec<i64> = (0..5).map(|at| 1_767_225_600 + at * 3_600).collect();
    assert_eq!(given, all, "each once, whoever was first");
    runs_until(client, "hourly", |runs| {
        count(runs, RunState::Succeeded) == 5 && runs.len() == 5
    })
    .await;
}
