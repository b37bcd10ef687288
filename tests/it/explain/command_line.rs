//! `rallypoint explain`: the same sentences for people, and all numbers in the JSON.

use crate::harness::{conversation::WAIT_TIMEOUT, process::PROGRAM, server::Server, work::noop};
use rallypoint_client::api::SchedulerSettings;
use serde_json::{Value, json};
use std::process::{Command, Output};
use tokio::time::timeout;

/// Runs `explain` with these arguments against a server.
async fn run(url: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(["--server", url, "explain"]).args(arguments);
    let output = tokio::task::spawn_blocking(move || command.output());
    output.await.expect("it ends").expect("it starts")
}

#[tokio::test]
async fn the_command_says_what_the_server_says() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler.scheduler.pause().await.expect("paused");
    scheduler.submit([noop().order(1), noop().order(2)]).await;
    let handle = scheduler.handle();
    let as_json = run(&server.url, &[handle, "2", "-o", "json"]).await;
    let answer: Value = serde_json::from_slice(&as_json.stdout).expect("JSON");
    assert_eq!(
        (&answer["id"], &answer["state"]),
        (
            &json!({ "handle": handle, "seq": 2 }),
            &"TASK_STATE_BLOCKED".into()
        )
    );
    let blockers = answer["blockers"].as_array().expect("reasons");
    assert_eq!(blockers[0]["paused"], json!({}));
    assert_eq!(
        blockers[1]["lower_order"],
        json!({ "order": 1, "unfinished": 1, "seqs": [1] })
    );
    assert_eq!(answer["place"]["in_lower_orders"], 1);
    let for_people = run(&server.url, &[&format!("{handle}/2")]).await;
    let said = String::from_utf8_lossy(&for_people.stdout).into_owned();
    for blocker in blockers {
        let text = blocker["text"].as_str().expect("a text");
        let resume = format!("`rallypoint resume {handle}`");
        let text = text.replace("ResumeScheduler", &resume);
        assert!(said.contains(&text), "{said}");
    }
    assert!(for_people.status.success());
}

#[tokio::test]
async fn of_a_running_task_the_command_says_who_is_in_the_way() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let mut gate = server.gate().await;
    let pid = gate.pid().await;
    scheduler.submit([gate.task()]).await;
    gate.reached_by(1).await;
    let handle = scheduler.handle();
    // A target that is busy may not say in time what a session waits for.
    let asked = async {
        loop {
            let as_json = run(&server.url, &[handle, "1", "-o", "json"]).await;
            let answer: Value = serde_json::from_slice(&as_json.stdout).expect("JSON");
            if !answer["running"]["wait"].is_null() {
                return answer;
            }
        }
    };
    let answer = timeout(WAIT_TIMEOUT, asked).await.expect("it is said");
    assert_eq!(answer["running"]["wait"]["lock_type"], "advisory");
    assert_eq!(answer["blockers"][0]["session"]["backend_pid"], pid);
    let for_people = run(&server.url, &[handle, "1"]).await;
    let said = String::from_utf8_lossy(&for_people.stdout).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    let in_the_way = format!("  1. session {pid} of");
    assert!(
        lines[1].ends_with("  select pg_advisory_xact_lock_shared(1)")
            && lines[2].contains("it waits for the lock")
            && lines[3].starts_with(&in_the_way),
        "{said}"
    );
    gate.open().await;
    scheduler.all_done().await;
}

#[tokio::test]
async fn a_task_that_is_none_is_named_as_such() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let missing = run(&server.url, &[scheduler.handle(), "7"]).await;
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert_eq!(missing.status.code(), Some(1));
    assert!(said.contains("TASK_NOT_FOUND"), "{said}");
    let wrong = run(&server.url, &[scheduler.handle(), "seven"]).await;
    assert_eq!(wrong.status.code(), Some(2));
}
