//! Lists: runs over as many pages as somebody wants, and jobs without those that cannot be read.

use super::*;
use crate::harness::{cluster::Cluster, postgres::connect, process::PROGRAM};
use prost::Message;
use rallypoint::postgres::COORDINATION;
use rallypoint_client::api::{GetRunRequest, ListJobsRequest};
use serde_json::Value;
use tokio::process::Command;

/// How many due times `jobs runs` shows, and what it says besides.
async fn shown(server: &Server, limit: &str) -> (usize, String) {
    let output = Command::new(PROGRAM)
        .args(["--server", &server.url, "--json", "jobs", "runs", "busy"])
        .args(["--limit", limit])
        .output()
        .await
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let runs = answer["runs"].as_array().map_or(0, Vec::len);
    (runs, said)
}

#[tokio::test]
async fn runs_are_listed_up_to_the_limit_and_that_there_are_older_ones_is_said() {
    let server = Server::start().await;
    let settings = job(86_400, [sql("select 1").order(1)]);
    create(&server.client, "busy", settings).await;
    let mut journal = connect(&server.journal).await;
    let rows = "insert into job_run (shard, job_no, due_at, due_count, cause, state,
                    catches_up, attempt, failed, cancelled, ended_at)
                select shard, job_no, '2026-01-01Z'::timestamptz + no * interval '1 second', 1, 2,
                    4, false, 1, 0, 0, now()
                from job, generate_series(1, 2500) no";
    let written = sqlx::raw_sql(rows).execute(&mut journal).await;
    written.expect("written");
    for (limit, runs) in [("10", 10), ("1500", 1_500), ("2499", 2_499)] {
        let (shown, said) = shown(&server, limit).await;
        assert_eq!(shown, runs, "{said}");
        assert!(said.contains("older due times are not shown"), "{said}");
    }
    assert_eq!(shown(&server, "9000").await, (2_500, String::new()));
}

#[tokio::test]
async fn a_page_of_jobs_fits_into_a_message_however_many_dates_they_leave_out() {
    const JOBS: usize = 60;
    let server = Server::start().await;
    let mut settings = job(86_400, [sql("select 1").order(1)]);
    if let Some(schedule) = &mut settings.schedule {
        schedule.exclude = vec!["2100-01-01..2100-01-02".into(); 1_000];
    }
    let names: Vec<String> = (0..JOBS).map(|no| format!("job {no:02}")).collect();
    for name in &names {
        create(&server.client, name, settings.clone()).await;
    }
    let (mut listed, mut pages, mut page_token) = (Vec::new(), 0, String::new());
    loop {
        let request = ListJobsRequest {
            page_size: 1_000,
            page_token,
        };
        let page = server.client.list_jobs(request).await.expect("listed");
        assert!(page.encoded_len() < 2 << 20, "{}", page.encoded_len());
        listed.extend(page.jobs.into_iter().map(|job| job.name));
        pages += 1;
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(listed, names);
    assert!(pages > 1, "together they are larger than a page");
}

#[tokio::test]
async fn of_a_run_with_very_many_claims_the_newest_are_told() {
    let server = Server::start().await;
    let settings = job(86_400, [sql("select 1").order(1)]);
    create(&server.client, "busy", settings).await;
    let mut journal = connect(&server.journal).await;
    let rows = "insert into job_run (shard, job_no, due_at, due_count, cause, state,
                    catches_up, attempt, failed, cancelled, ended_at)
                select shard, job_no, '2026-01-01Z'::timestamptz, 1, 2, 4, false, 1, 0, 0, now()
                from job;
                insert into job_claim (shard, job_no, due_at, token, owner, caller, lease_ms,
                    claimed_at, ended_at)
                select shard, job_no, '2026-01-01Z'::timestamptz, no, convert_to(no::text, 'UTF8'),
                    ''::bytea, 15000, now(), now()
                from job, generate_series(1, 1200) no";
    let written = sqlx::raw_sql(rows).execute(&mut journal).await;
    written.expect("written");
    let request = GetRunRequest {
        name: "busy".into(),
        due: Some(prost_types::Timestamp {
            seconds: 1_767_225_600,
            nanos: 0,
        }),
    };
    let run = server.client.get_run(request).await.expect("told");
    let owners = run.claims.iter().map(|claim| claim.owner.as_str());
    let newest: Vec<String> = (701..=1_200).map(|no| no.to_string()).collect();
    assert!(owners.eq(newest.iter().map(String::as_str)));
}

#[tokio::test]
async fn a_list_of_jobs_says_that_some_cannot_be_read() {
    let mut cluster = Cluster::start(1).await;
    let client = cluster.client(0);
    for name in ["torn", "whole"] {
        create(&client, name, job(86_400, [sql("select 1").order(1)])).await;
    }
    let options = cluster.postgres.options_for(COORDINATION, COORDINATION);
    let tear = "update job set settings = '?' where name = 'torn'::bytea";
    let torn = sqlx::raw_sql(tear)
        .execute(&mut connect(&options).await)
        .await;
    torn.expect("written");
    cluster.kill_9(0);
    cluster.restart(0);
    // Whoever changes something has waited for the owner.
    let pause = PauseJobRequest {
        name: "whole".into(),
        reason: String::new(),
    };
    client.pause_job(pause).await.expect("paused");
    let list = Command::new(PROGRAM)
        .args(["--server", &cluster.url(0), "jobs", "list"])
        .output()
        .await
        .expect("it runs");
    let [listed, said] =
        [&list.stdout, &list.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(
        listed.contains("whole") && !listed.contains("torn"),
        "{listed}"
    );
    assert!(
        said.contains("a run of theirs that may go on: 1;"),
        "{said}"
    );
}
