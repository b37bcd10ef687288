//! The command line as people and scripts use it: exit codes, data on stdout, JSON that can be
//! parsed.

mod cancel;
mod claims;
mod doctor;
mod endings;
mod failed_night;
mod health;
mod imports;
mod jobs;
mod left_behind;
mod lists;
mod names;
mod next_steps;
mod outages;
mod repair;
mod retry;
mod sql_file;
mod unread;
mod usage;
mod variables;
mod verbs;

use crate::harness::{process::PROGRAM, standalone::Standalone};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use std::{
    io::Write,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

#[test]
fn exec_prints_every_event_and_exits_0_when_all_succeeded() {
    let server = Standalone::start();
    let output = server.run(&[
        "exec", "-o", "json", "--order", "100", "select 1", "select 2",
    ]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let done = lines(&output);
    assert_eq!(
        done.iter()
            .map(|done| done["done_no"].as_i64())
            .collect::<Vec<_>>(),
        [Some(1), Some(2)]
    );
    assert!(
        done.iter()
            .all(|done| done["outcome"] == "OUTCOME_SUCCEEDED" && done["effective_order"] == 100)
    );
}

#[test]
fn exec_exits_3_when_a_task_did_not_succeed_and_the_next_order_runs() {
    let server = Standalone::start();
    let output = exec_file(
        &server,
        "# two orders\n100, select 1/0\n200, select 'a, b'\n",
        &["-o", "json"],
    );
    assert_eq!(code(&output), 3, "{}", text(&output.stderr));
    let done = lines(&output);
    assert_eq!(done[0]["error"]["code"], "22012");
    assert_eq!(
        (&done[1]["effective_order"], &done[1]["outcome"]),
        (&200.into(), &"OUTCOME_SUCCEEDED".into())
    );
}

#[test]
fn a_halt_cancels_what_it_blocks_and_exec_ends() {
    let server = Standalone::start();
    let output = exec_file(
        &server,
        "100, select 1/0\n200, select 1\n",
        &["-o", "json", "--on-failure", "halt"],
    );
    assert_eq!(code(&output), 3, "{}", text(&output.stderr));
    assert_eq!(lines(&output)[1]["outcome"], "OUTCOME_CANCELLED");
}

#[test]
fn the_log_shows_every_task_of_a_scheduler() {
    let server = Standalone::start();
    let output = server.run(&["exec", "--order", "7", "select pg_sleep(0.01)"]);
    let said = text(&output.stderr);
    let handle = said
        .lines()
        .find_map(|line| line.strip_prefix("scheduler "))
        .expect("exec names its scheduler");
    let log: Value =
        serde_json::from_slice(&server.run(&["tasks", handle, "-o", "json"]).stdout).unwrap();
    let task = &log["tasks"][0];
    assert_eq!(
        (&task["state"], &task["effective_order"]),
        (&"TASK_STATE_DONE".into(), &7.into())
    );
    assert_eq!(task["done"]["outcome"], "OUTCOME_SUCCEEDED");
    let table = text(&server.run(&["tasks", handle]).stdout);
    assert!(
        table.contains("succeeded") && table.contains("TASK"),
        "{table}"
    );
    let released = server.run(&["release", handle, "--wait"]);
    assert!(
        text(&released.stdout).contains("released before"),
        "{}",
        text(&released.stdout)
    );
}

#[test]
fn status_names_replica_slots_target_and_journal() {
    let server = Standalone::start();
    // The slots of a target appear a moment after the start, when no earlier session is left.
    let begun = Instant::now();
    let status = loop {
        let status: Value =
            serde_json::from_slice(&server.run(&["status", "-o", "json"]).stdout).unwrap();
        if status["slots"]
            .as_array()
            .is_some_and(|slots| slots.iter().any(|slot| slot["kind"]["sql_target"] == "app"))
        {
            break status;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{status}");
    };
    assert_eq!(status["replicas"][0]["owner"], true);
    assert_eq!(status["journal"]["available"], true);
    let executions: Value =
        serde_json::from_slice(&server.run(&["status", "--executions", "-o", "json"]).stdout)
            .unwrap();
    assert!(
        executions["executions"]
            .as_array()
            .is_some_and(|slots| slots.iter().any(|slot| slot["handle"] == ""))
    );
}

#[test]
fn the_demo_proves_that_no_two_orders_overlap() {
    let output = run(&["demo", "--scale", "0.02", "-o", "json"]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let demo: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&demo["overlaps"], &demo["failed"]), (&0.into(), &0.into()));
    assert_eq!(demo["expected_s"], 0.83);
    assert!(
        demo["total_s"].as_f64().is_some_and(|total| total >= 0.83),
        "{demo}"
    );
    let last = &demo["tasks"][9];
    assert_eq!(
        (&last["state"], &last["done"]["outcome"], &last["id"]["seq"]),
        (
            &"TASK_STATE_DONE".into(),
            &"OUTCOME_SUCCEEDED".into(),
            &10.into()
        )
    );
    let said = text(&output.stderr);
    assert!(
        said.contains("order 500: 1 of 1 done, 0 not succeeded"),
        "{said}"
    );
}

#[test]
fn a_wrong_command_line_exits_2() {
    assert_eq!(code(&run(&["exec"])), 2);
    assert_eq!(code(&run(&["cancel", "no-number"])), 2);
    assert_eq!(code(&run(&["demo", "--scale", "-1"])), 2);
}

#[test]
fn an_error_says_what_why_and_what_next() {
    let output = run(&["--server", "http://127.0.0.1:1", "status"]);
    assert_eq!(code(&output), 1);
    let said = text(&output.stderr);
    assert!(
        ["error: cannot reach", "why:", "next:"]
            .iter()
            .all(|part| said.contains(part)),
        "{said}"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn an_unknown_handle_is_named_as_such() {
    let server = Standalone::start();
    let output = server.run(&["tasks", "01890000-0000-7000-8000-000000000000"]);
    assert_eq!(code(&output), 1);
    assert!(
        text(&output.stderr).contains("HANDLE_NOT_FOUND"),
        "{}",
        text(&output.stderr)
    );
}

fn run(arguments: &[&str]) -> Output {
    Command::new(PROGRAM)
        .args(arguments)
        .output()
        .expect("the program runs")
}

/// Begins to run the program as a caller of the server at this address.
fn begin(url: &str, arguments: &[&str]) -> Child {
    Command::new(PROGRAM)
        .args(["--server", url])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().try_into().expect("a pid"));
    kill(pid, signal).expect("our own child");
}

/// Runs a file of tasks that stands on stdin.
fn exec_file(server: &Standalone, file: &str, arguments: &[&str]) -> Output {
    let mut child = Command::new(PROGRAM)
        .args(["--server", &server.url, "exec", "-f", "-"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    child
        .stdin
        .take()
        .expect("stdin is piped")
        .write_all(file.as_bytes())
        .expect("it reads stdin");
    child.wait_with_output().expect("it ends")
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The JSON objects of stdout, one a line.
fn lines(output: &Output) -> Vec<Value> {
    text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a JSON object a line"))
        .collect()
}
