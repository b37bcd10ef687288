//! `list`, `tasks` and `attempts`: what they show, and how they end.

use super::{code, exec_file, text};
use crate::harness::{screen::Screen, standalone::Standalone, terminal::wait_for};
use serde_json::Value;
use std::fs;

/// What a command lists, which must succeed.
fn shown(server: &Standalone, arguments: &[&str]) -> Vec<Value> {
    let output = server.run(&[arguments, &["--json"]].concat());
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let list: Value = serde_json::from_slice(&output.stdout).expect("a list");
    let lists = ["schedulers", "tasks", "attempts"].iter();
    let list = lists.filter_map(|name| list[name].as_array()).next();
    list.expect("one of the lists").clone()
}

fn seqs(tasks: &[Value]) -> Vec<i64> {
    let number = |task: &Value| task["id"]["seq"].as_i64().expect("a number");
    tasks.iter().map(number).collect()
}

#[test]
fn a_narrow_terminal_shows_the_columns_by_which_people_find_things() {
    let server = Standalone::start();
    let long = format!("select '{}'::int", "x".repeat(90));
    let run = ["exec", "--name", "nightly", "--json", "select 1", &long];
    assert_eq!(code(&server.run(&run)), 3);
    for (verb, shown) in [
        (&["tasks", "nightly"][..], ["REMARK", "STATEMENT", "22P02 "]),
        (&["list"], [" NAME", " nightly", "SCHEDULER"]),
    ] {
        let arguments = [&["--server", &server.url], verb].concat();
        let mut screen = Screen::start((80, 24), &arguments, &[]);
        assert!(screen.wait().success(), "{}", screen.text());
        screen.wait_for(shown[0]);
        let seen = screen.text();
        for words in shown {
            assert!(seen.contains(words), "no `{words}` in\n{seen}");
        }
        let piped = text(&server.run(verb).stdout);
        assert!(!piped.contains('…'), "{piped}");
    }
}

#[test]
fn runs_of_a_job_and_the_status_fit_a_terminal_of_80_columns() {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("jobs.toml");
    let long = "x".repeat(80);
    let job = format!(
        "[jobs.a]\nschedule.cron = \"@yearly\"\nrerun = {{ max = 1, delay = \"1h\" }}\n\
         steps = [{{ statement = \"select '{long}'::int\" }}]\n"
    );
    std::fs::write(&file, job).expect("written");
    server.run(&["jobs", "apply", &file.display().to_string()]);
    server.run(&["jobs", "run", "a"]);
    wait_for("it has failed", || {
        text(&server.run(&["jobs", "runs", "a"]).stdout).contains("retrying")
    });
    for (verb, shown) in [
        (
            &["jobs", "runs", "a"][..],
            ["DUE", "retrying", "1 task failed"],
        ),
        (&["status"], ["REPLICA", "next due", "journal  batch"]),
    ] {
        let arguments = [&["--server", &server.url], verb].concat();
        let mut screen = Screen::start((80, 40), &arguments, &[]);
        assert!(screen.wait().success(), "{}", screen.text());
        screen.wait_for(shown[2]);
        let seen = screen.text();
        for words in shown {
            assert!(seen.contains(words), "no `{words}` in\n{seen}");
        }
        // A line that wraps begins in the first column, with anything.
        let begins = |line: &&str| line.starts_with(|c: char| c.is_ascii_digit());
        let due = seen.lines().filter(begins).count();
        assert_eq!(due, usize::from(verb.len() == 3), "{seen}");
    }
}

#[test]
fn what_was_run_is_listed_by_what_is_known_of_it() {
    let server = Standalone::start();
    let file = "100, select 1\n100, select 1/0\n200, select 2\n";
    let output = exec_file(&server, file, &[]);
    assert_eq!(code(&output), 3, "{}", text(&output.stderr));
    let released = ["list", "--state", "released", "--since", "1h"];
    let schedulers = shown(&server, &released);
    let handle = schedulers[0]["handle"].as_str().expect("a handle");
    assert_eq!((schedulers.len(), &schedulers[0]["done"]), (1, &3.into()));
    for nothing in [
        ["--state", "open,releasing"],
        ["--label", "team=a"],
        ["--display-name", "nobody"],
        ["--since", "9000-01-01T00:00:00Z"],
    ] {
        let none = shown(&server, &[&["list"], &nothing[..]].concat());
        assert_eq!(none.len(), 0, "{nothing:?}");
    }
    let table = server.run(&["list"]);
    assert!(text(&table.stdout).contains(handle), "{table:?}");
    let tasks = |conditions: &[&str]| {
        let command = [&["tasks", handle], conditions].concat();
        seqs(&shown(&server, &command))
    };
    assert_eq!(tasks(&[]), [1, 2, 3]);
    assert_eq!(tasks(&["--outcome", "failed"]), [2]);
    assert_eq!(
        tasks(&["--outcome", "failed,timed-out", "--order", "200"]),
        [0; 0]
    );
    assert_eq!(tasks(&["--error-code", "22012"]), [2]);
    assert_eq!(tasks(&["--order", "200", "--state", "done"]), [3]);
    assert_eq!(tasks(&["--label", "team=a"]), [0; 0]);
    assert_eq!(tasks(&["--since", "1h", "--ended-since", "1h"]).len(), 3);
    let attempts = shown(&server, &["attempts", handle, "2"]);
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0]["state"], "ATTEMPT_STATE_FAILED");
    assert_eq!(attempts[0]["error"]["code"], "22012");
    let table = server.run(&["attempts", handle, "2"]);
    assert!(
        text(&table.stdout).contains("division by zero"),
        "{table:?}"
    );
}

#[test]
fn conditions_that_make_no_sense_are_refused() {
    let server = Standalone::start();
    let handle = "01890000-0000-7000-8000-000000000000";
    for (command, status, word) in [
        (&["list", "--state", "sleeping"][..], 2, "--state"),
        (&["list", "--label", "team"], 2, "KEY=VALUE"),
        (&["list", "--since", "yesterday"], 2, "--since"),
        (&["tasks", handle, "--outcome", "well"], 2, "--outcome"),
        (&["tasks", handle, "--order=-1"], 2, "--order"),
        (&["tasks", handle], 1, "HANDLE_NOT_FOUND"),
        (&["attempts", handle], 2, "SEQ"),
        (&["attempts", handle, "0"], 1, "id.seq"),
        (&["attempts", handle, "1"], 1, "HANDLE_NOT_FOUND"),
    ] {
        let output = server.run(command);
        let said = text(&output.stderr);
        assert_eq!(code(&output), status, "{command:?}: {said}");
        assert!(said.contains(word), "{command:?}: {said}");
    }
}

#[test]
fn tables_say_whose_tasks_are_and_what_they_are_to_do() {
    let server = Standalone::start();
    let kept = server.run(&["exec", "--keep", "select 1/0", "select 2"]);
    assert_eq!(code(&kept), 3, "{}", text(&kept.stderr));
    let schedulers = shown(&server, &["list", "--state", "open"]);
    let handle = schedulers[0]["handle"].as_str().expect("a handle");
    let paused = ["pause-target", "app", "--reason", "new disk"];
    assert_eq!(code(&server.run(&paused)), 0);
    for (arguments, parts) in [
        (
            &["tasks", handle][..],
            &["SUBMITTED BY", "select 1/0", "22012"][..],
        ),
        (&["wait", handle], &["select 1/0", "select 2"]),
        (
            &["explain", handle, "1"],
            &[
                "/1: failed\nsubmitted by ",
                "  select 1/0\nit failed, in attempt 1, ",
                ": 22012 division by zero",
            ],
        ),
        (
            &["status", "--executions"],
            &["STATE", "idle", "NAMESPACE", "STATEMENT"],
        ),
        (
            &["status"],
            &[
                "paused: nothing starts there",
                "new disk",
                "backlog  1 scheduler;",
            ],
        ),
    ] {
        let output = server.run(arguments);
        let said = text(&output.stdout);
        for part in parts {
            assert!(said.contains(part), "{arguments:?}, {part}: {said}");
        }
    }
    let status = text(&server.run(&["status"]).stdout);
    let is_paused = |line: &str| line.starts_with("app ") && line.contains("  paused  ");
    assert!(status.lines().any(is_paused), "{status}");
    let tasks = text(&server.run(&["tasks", handle]).stdout);
    assert!(!tasks.contains("unknown"), "{tasks}");
}

#[test]
fn a_narrow_terminal_shows_failures_in_full() {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("night.sql");
    let select = "select 1 as one, 2 as two, 3 as three, 4 as four, 5 as five, 6 as six";
    let failing = "select * from a_relation_that_nobody_has_ever_made_here";
    fs::write(&file, format!("{select};\n{failing};\n")).expect("written");
    let file = file.display().to_string();
    let mut screen = Screen::start((80, 40), &["--server", &server.url, "exec", &file], &[]);
    screen.wait();
    screen.wait_for("1 of 2 tasks succeeded");
    let seen = screen.text();
    assert!(seen.contains('…') && !seen.contains("6 as six"), "{seen}");
    let words: Vec<&str> = seen.split_whitespace().collect();
    let words = words.join(" ");
    for part in [
        "42P01 relation \"a_relation_that_nobody_has_ever_made_here\" does not exist",
        &format!("line 2: {failing}"),
    ] {
        assert!(words.contains(part), "no `{part}` in\n{seen}");
    }
}

#[test]
fn what_a_task_says_does_nothing_to_a_terminal() {
    let server = Standalone::start();
    let hostile = "do $$ begin raise exception '\x1b[2J\u{202e}bad\u{9b}m'; end $$";
    for command in [
        &["exec", "--keep", "--name", "hostile", hostile][..],
        &["tasks", "hostile"],
        &["attempts", "hostile", "1"],
        &["get", "hostile", "1"],
        &["explain", "hostile", "1"],
        &["wait", "hostile"],
    ] {
        let output = server.run(command);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(said.contains("bad"), "{command:?}: {said:?}");
        for control in ['\x1b', '\u{202e}', '\u{9b}'] {
            assert!(!said.contains(control), "{command:?}: {said:?}");
        }
    }
    let unknown = text(&server.run(&["tasks", "no\u{202e}name"]).stderr);
    assert!(unknown.contains("no\u{fffd}name"), "{unknown:?}");
}
