//! What `exec` says of a run that it cannot follow to its end: which scheduler it leaves behind,
//! and what to do with it. Repeating the command would do everything once more.

use super::{code, exec_file, text};
use crate::harness::standalone::Standalone;
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Output, Stdio},
};

/// The objects on stderr.
fn notes(output: &Output) -> Vec<Value> {
    let said = text(&output.stderr);
    let notes = said.lines().map(serde_json::from_str::<Value>);
    notes.map(|note| note.expect("an object")).collect()
}

/// The handle of the scheduler that was opened, and the error in the end.
fn opened_and_error(output: &Output) -> (String, Value) {
    let notes = notes(output);
    let named = notes.iter().filter_map(|note| note["note"].as_str());
    let mut handles = named.filter_map(|note| note.strip_prefix("scheduler "));
    let handle = handles.next().expect("it names its scheduler").to_owned();
    (handle, notes.last().expect("an error").clone())
}

#[test]
fn a_run_whose_stream_is_refused_goes_on_and_is_not_to_be_repeated() {
    let server = Standalone::with(&["--max-streams", "1"].map(Path::new));
    // Its event has come on the only stream there may be.
    let mut first = Command::new(crate::harness::process::PROGRAM)
        .args(["--server", &server.url, "exec", "--json"])
        .args(["select 1", "select pg_sleep(600)"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut events = BufReader::new(first.stdout.take().expect("stdout is piped"));
    let mut line = String::new();
    events.read_line(&mut line).expect("an event");
    let event: Value = serde_json::from_str(&line).expect("JSON");

    let output = server.run(&["--json", "exec", "select 2"]);
    assert_eq!(code(&output), 1);
    let (handle, error) = opened_and_error(&output);
    assert_eq!(error["reason"], "TOO_MANY_STREAMS");
    assert_eq!(
        (&error["effect"], &error["handle"]),
        (&"unknown".into(), &handle.clone().into())
    );
    let next = error["next"].as_str().expect("advice");
    assert!(
        next.contains(&format!("rallypoint wait {handle}")),
        "{next}"
    );

    let other = event["handle"].as_str().expect("a handle");
    server.run(&["release", other, "--cancel", "--wait"]);
    first.wait().expect("it ends");
    let followed = server.run(&["wait", &handle]);
    assert_eq!(code(&followed), 0, "{}", text(&followed.stderr));
}

#[test]
fn a_run_of_which_nothing_was_submitted_leaves_nothing_behind() {
    let server = Standalone::start();
    let output = server.run(&["--json", "exec", "--target", "nowhere", "select 1"]);
    assert_eq!(code(&output), 1);
    let (_, error) = opened_and_error(&output);
    assert_eq!(error["reason"], "TARGET_UNKNOWN");
    assert_eq!(
        (&error["effect"], &error["handle"]),
        (&"none".into(), &Value::Null)
    );
    assert_eq!(notes(&output).len(), 2, "{}", text(&output.stderr));
    let open = text(&server.run(&["--json", "list", "--state", "open"]).stdout);
    let open: Value = serde_json::from_str(&open).expect("JSON");
    assert_eq!(open["schedulers"], Value::Array(Vec::new()));
}

#[test]
fn a_run_of_which_only_a_part_was_submitted_is_cancelled_and_says_so() {
    let server = Standalone::start();
    // One call takes 10 000 tasks.
    let mut file = "{\"order\": 1, \"statement\": \"select 1\"}\n".repeat(10_000);
    file += "{\"order\": 2, \"statement\": \"select 2\", \"target\": \"nowhere\"}\n";
    let output = exec_file(&server, &file, &["--json"]);
    assert_eq!(code(&output), 1, "{}", text(&output.stderr));
    let (handle, error) = opened_and_error(&output);
    assert_eq!(error["reason"], "TARGET_UNKNOWN");
    assert_eq!(
        (&error["effect"], &error["handle"]),
        (&"unknown".into(), &handle.clone().into())
    );
    let why = error["why"].to_string();
    assert!(why.contains("line 10001"), "{why}");
    let released = text(&server.run(&["release", &handle, "--wait"]).stdout);
    assert!(released.contains("released before"), "{released}");
}
