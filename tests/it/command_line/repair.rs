//! A night that a failure halted is repaired: retried until all is well, which `wait` then says.

use super::{begin, code, exec_file, signal, text};
use crate::harness::standalone::Standalone;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    thread::sleep,
    time::Duration,
};

/// Fails until there is a table of the name `repaired`.
const BROKEN: &str = "select 1 / count(*) from pg_class where relname = 'repaired'";

#[test]
fn a_failure_whose_retry_succeeded_does_not_count() {
    let server = Standalone::start();
    let file = format!("1, {BROKEN}\n2, select 2\n");
    let halted = exec_file(&server, &file, &["--keep", "--on-failure", "halt"]);
    let said = text(&halted.stderr);
    assert_eq!(code(&halted), 3, "{said}");
    let handle = said
        .lines()
        .find_map(|line| line.strip_prefix("scheduler "));
    let handle = handle.expect("it names its scheduler");
    assert!(
        said.contains(&format!("rallypoint retry {handle} --failed")),
        "{said}"
    );
    for (list, named) in [
        (&["list", "--halted"][..], true),
        (&["list", "--halted", "--state", "released"], false),
    ] {
        let listed = text(&server.run(list).stdout);
        assert_eq!(listed.contains(handle), named, "{listed}");
    }
    let explained = text(&server.run(&["explain", &format!("{handle}/2")]).stdout);
    let retry = format!("`rallypoint retry {handle}") + " --failed`";
    assert!(explained.contains(&retry), "{explained}");
    assert!(!explained.contains("RetryFailed"), "{explained}");

    // A retry that fails as well takes the place of its task.
    let named = format!("{handle}/1");
    let retried = server.run(&["retry", &named]);
    assert_eq!(code(&retried), 0, "{}", text(&retried.stderr));
    let failed = server.run(&["wait", handle]);
    assert_eq!(code(&failed), 3, "{}", text(&failed.stderr));
    assert!(text(&failed.stderr).contains("0 of 1 ended tasks succeeded"));

    assert_eq!(code(&server.run(&["exec", "create table repaired ()"])), 0);
    assert_eq!(code(&server.run(&["retry", handle, "--failed"])), 0);
    let waited = server.run(&["wait", handle]);
    let said = text(&waited.stderr);
    assert_eq!(code(&waited), 0, "{said}");
    assert!(
        said.contains("2 of 2 ended tasks succeeded, 1 of them when retried\n"),
        "{said}"
    );
    let words = ["retry", handle, "01890000-0000-7000-8000-000000000000/1"];
    assert_eq!(code(&server.run(&words)), 2);
}

#[test]
fn a_run_that_an_earlier_one_halts_is_told_its_failure_and_what_can_be_done() {
    let server = Standalone::start();
    let run = |order: &str| {
        let options = ["--name", "night", "--on-failure", "halt", "--order", order];
        let ended = server.run(&[&["exec"], &options[..], &["select 1/0", "select 2"]].concat());
        (code(&ended), text(&ended.stderr))
    };
    let failure = "task 1 has failed before: 22012 division by zero  — select 1/0\n";
    assert_eq!(run("1").0, 3);
    let (ended, said) = run("2");
    assert_eq!(ended, 3, "{said}");
    assert!(said.contains(failure), "{said}");
    let (refused, said) = run("1");
    assert_eq!(refused, 1, "{said}");
    assert!(said.contains("ORDER_CLOSED"), "{said}");
    assert!(said.contains(&format!("  why:  {failure}")), "{said}");
    assert!(
        said.contains("  next: `rallypoint retry night --failed`"),
        "{said}"
    );
    assert!(said.contains("`rallypoint release night`"), "{said}");
}

#[test]
fn a_run_whose_order_has_passed_is_told_to_wait_by_the_name_of_the_scheduler() {
    let server = Standalone::start();
    let name = ["exec", "--name", "n", "--order"];
    let begun = server.run(&[&name, &["2", "--detach", "select pg_sleep(600)"][..]].concat());
    assert_eq!(code(&begun), 0, "{}", text(&begun.stderr));
    let refused = server.run(&[&name, &["1", "select 1"][..]].concat());
    let said = text(&refused.stderr);
    assert!(said.contains("ORDER_CLOSED"), "{said}");
    assert!(said.contains("(`rallypoint wait n`)"), "{said}");
}

#[test]
fn a_halt_that_was_released_with_its_run_is_not_listed_as_one() {
    let server = Standalone::start();
    let run = ["exec", "--on-failure", "halt", "--order", "1", "select 1/0"];
    assert_eq!(code(&server.run(&run)), 3);
    let halted = |more: &[&str]| {
        let listed = server.run(&[&["list", "--halted", "--json"], more].concat());
        let listed: Value = serde_json::from_slice(&listed.stdout).expect("a list");
        listed["schedulers"].as_array().expect("an array").len()
    };
    assert_eq!((halted(&[]), halted(&["--state", "released"])), (0, 1));
}

#[test]
fn what_a_released_scheduler_cannot_do_is_said_in_words_of_the_command_line() {
    let server = Standalone::start();
    let output = server.run(&["exec", "--detach", "select 1/0"]);
    let handle = text(&output.stdout).trim().to_owned();
    assert_eq!(code(&server.run(&["wait", &handle])), 3);
    let refused = server.run(&["retry", &handle, "1"]);
    let said = text(&refused.stderr);
    assert!(
        said.contains("HANDLE_RELEASED") && said.contains("exec --keep"),
        "{said}"
    );
}

#[test]
fn exec_says_that_its_scheduler_stays_open_only_when_it_does() {
    let server = Standalone::start();
    let kept = server.run(&["exec", "--keep", "select 1"]);
    assert!(
        text(&kept.stderr).contains("stays open"),
        "{}",
        text(&kept.stderr)
    );
    let exec = ["exec", "--keep", "--json"];
    let tasks = ["select 1", "select pg_sleep(600)"];
    let mut child = begin(&server.url, &[&exec[..], &tasks].concat());
    let mut events = BufReader::new(child.stdout.take().expect("stdout is piped"));
    let mut line = String::new();
    events.read_line(&mut line).expect("an event");
    let event: Value = serde_json::from_str(&line).expect("JSON");
    signal(&child, Signal::SIGINT);
    events.read_line(&mut line).expect("the last event");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(code(&output), 3);
    let said = text(&output.stderr);
    assert!(
        said.contains("cancelling") && !said.contains("stays open"),
        "{said}"
    );
    let handle = event["handle"].as_str().expect("a handle");
    let released = text(&server.run(&["release", handle]).stdout);
    assert!(released.contains("released before"), "{released}");
}

#[test]
fn what_was_cancelled_is_not_offered_for_a_retry() {
    let server = Standalone::start();
    let exec = ["exec", "--name", "night", "select pg_sleep(600)"];
    let child = begin(&server.url, &exec);
    while code(&server.run(&["cancel", "night", "1"])) != 0 {
        sleep(Duration::from_millis(50));
    }
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(code(&output), 3);
    let said = text(&output.stderr);
    assert!(said.contains("stays open"), "{said}");
    assert!(!said.contains("retry"), "{said}");
}
