//! Schedulers by name: several runs of `exec` share one, and other verbs find it.

use super::{code, lines, text};
use crate::harness::{process::PROGRAM, standalone::Standalone};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// What a verb prints, which must end with this code.
fn said(server: &Standalone, arguments: &[&str], expected: i32) -> String {
    let output = server.run(arguments);
    assert_eq!(
        code(&output),
        expected,
        "{arguments:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

#[test]
fn runs_of_one_name_share_a_scheduler_and_follow_their_own_tasks() {
    let server = Standalone::start();
    let detached = [
        "exec",
        "--detach",
        "--name",
        "nightly",
        "select pg_sleep(600)",
    ];
    let handle = said(&server, &detached, 0).trim().to_owned();
    // Another run does not wait for that task, nor count how it ends.
    let run = [
        "exec", "--name", "nightly", "--json", "select 1", "select 2",
    ];
    let output = server.run(&run);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let done = lines(&output);
    let mut seqs: Vec<_> = done.iter().map(|one| one["seq"].as_i64()).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, [Some(2), Some(3)]);
    assert!(done.iter().all(|one| one["handle"] == *handle));
    let failed = ["exec", "--name", "nightly", "select 1/0"];
    said(&server, &failed, 3);
    let again = ["exec", "--name", "nightly", "select 3"];
    said(&server, &again, 0);
    // Verbs find it by its name, too.
    let listed = said(&server, &["list", "--name", "nightly"], 0);
    assert!(listed.contains(&handle) && listed.contains("nightly"));
    let tasks = said(&server, &["tasks", "nightly"], 0);
    assert!(tasks.contains("running") && tasks.contains("failed"));
    let second = said(&server, &["get", "nightly/2"], 0);
    assert!(
        second.contains(&handle) && second.contains("select 1"),
        "{second}"
    );
    said(&server, &["cancel", "nightly", "1"], 0);
    said(&server, &["retry", "nightly", "4"], 0);
    said(&server, &["wait", "nightly", "--quiet"], 3);
    said(&server, &["release", "nightly", "--wait"], 0);
    // The name is free for the next night.
    let next = said(
        &server,
        &["exec", "--name", "nightly", "--detach", "select 1"],
        0,
    );
    assert_ne!(next.trim(), handle);
    let newest = said(&server, &["get", "nightly"], 0);
    assert!(newest.contains(next.trim()), "{newest}");
}

#[test]
fn a_signal_cancels_the_tasks_of_its_own_run_only() {
    let server = Standalone::start();
    let sleep = "select pg_sleep(600)";
    let others = ["exec", "--detach", "--name", "shared", sleep];
    said(&server, &others, 0);
    let child = Command::new(PROGRAM)
        .args(["--server", &server.url, "exec", "--name", "shared"])
        .args([sleep, sleep])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let begun = Instant::now();
    while said(&server, &["tasks", "shared"], 0)
        .matches("running")
        .count()
        < 3
    {
        assert!(begun.elapsed() < Duration::from_secs(60), "they never run");
    }
    let pid = Pid::from_raw(child.id().try_into().expect("a pid"));
    kill(pid, Signal::SIGINT).expect("our own child");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(code(&output), 3, "{}", text(&output.stderr));
    let tasks = said(&server, &["tasks", "shared"], 0);
    let count = |word: &str| tasks.matches(word).count();
    assert_eq!((count("running"), count("cancelled")), (1, 2), "{tasks}");
    assert!(said(&server, &["list", "--state", "open"], 0).contains("shared"));
    said(&server, &["release", "shared", "--cancel", "--wait"], 0);
}

#[test]
fn what_a_failure_does_is_not_left_to_chance() {
    let server = Standalone::start();
    let opens = ["exec", "--name", "n", "--on-failure", "halt", "select 1"];
    said(&server, &opens, 0);
    let refused = server.run(&["exec", "--name", "n", "select 2"]);
    assert_eq!(code(&refused), 1);
    let why = text(&refused.stderr);
    assert!(why.contains("--on-failure halt"), "{why}");
    let agrees = ["exec", "--name", "n", "--on-failure", "halt", "select 3"];
    said(&server, &agrees, 0);
    let ignored = [&agrees[..], &["--weight", "3"]].concat();
    let noted = text(&server.run(&ignored).stderr);
    assert!(noted.contains("does not count"), "{noted}");
}

#[test]
fn what_is_neither_handle_nor_name_is_named_as_such() {
    let server = Standalone::start();
    let output = server.run(&["--json", "tasks", "nobody"]);
    assert_eq!(code(&output), 1);
    let error = text(&output.stderr);
    assert!(
        error.contains("ID_MALFORMED") && error.contains("or the name"),
        "{error}"
    );
    let wrong = server.run(&["exec", "--name", "two words", "select 1"]);
    assert_eq!(code(&wrong), 1);
    assert!(text(&wrong.stderr).contains("NAME_INVALID"));
    let released = text(&server.run(&["exec", "--detach", "select 1/0"]).stdout);
    said(&server, &["wait", released.trim()], 3);
    let retried = server.run(&["retry", released.trim(), "1"]);
    let why = text(&retried.stderr);
    assert!(
        why.contains("HANDLE_RELEASED") && why.contains("--keep"),
        "{why}"
    );
}
