//! Lists: runs over as many pages as somebody wants, and jobs without those that cannot be read.

use super::*;
use crate::harness::{cluster::Cluster, postgres::connect, process::PROGRAM};
use rallypoint::postgres::COORDINATION;
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
        said.contains("this version cannot read, and does not fire: 1;"),
        "{said}"
    );
}
