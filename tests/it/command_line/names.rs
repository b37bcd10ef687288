//! Schedulers by name: several runs of `exec` share one, and other verbs find it.

use super::{begin, code, exec_file, lines, run, signal, text};
use crate::harness::{process::PROGRAM, standalone::Standalone};
use nix::{
    fcntl::{FcntlArg, fcntl},
    sys::signal::Signal,
};
use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write, pipe},
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
    let ended = server.run(&failed);
    assert_eq!(code(&ended), 3, "{ended:?}");
    // The next commands call it by its name.
    for next in [
        "`rallypoint retry nightly --failed` repeats what failed",
        "stays open until `rallypoint release nightly`",
    ] {
        assert!(text(&ended.stderr).contains(next), "{ended:?}");
    }
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
fn a_task_that_joins_a_later_order_counts_in_its_own() {
    let server = Standalone::start();
    let name = ["exec", "--name", "n"];
    let later = ["--detach", "--late-order", "join", "--order", "5"];
    said(
        &server,
        &[&name[..], &later, &["select pg_sleep(600)"]].concat(),
        0,
    );
    let late = server.run(&[&name[..], &["--order", "1", "select 1"]].concat());
    assert_eq!(code(&late), 0, "{late:?}");
    let printed = (text(&late.stdout), text(&late.stderr));
    assert!(printed.0.contains("order 5"), "{printed:?}");
    let counted = "order 1: 1 of 1 done, 0 not succeeded\n";
    assert!(printed.1.contains(counted), "{printed:?}");
    assert!(!printed.1.contains("not begun"), "{printed:?}");
    said(&server, &["cancel", "n", "1"], 0);
}

#[test]
fn a_resource_that_a_step_needs_and_nobody_has_made_is_named_before_a_run_fails() {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("jobs.toml");
    let task = "[{ statement = \"select 1\", resources = [{ name = \"a b\" }] }]";
    let job =
        format!("[jobs.n]\nschedule.cron = \"@daily\"\nsteps = {task}\non_failure = {task}\n");
    std::fs::write(&file, job).expect("written");
    let file = file.display().to_string();
    let apply = |more: &[&str]| {
        let output = server.run(&[&["jobs", "apply", "-f", &file], more].concat());
        assert_eq!(code(&output), 0, "{output:?}");
        text(&output.stderr)
    };
    for more in [&["--dry-run"][..], &[]] {
        let noted = apply(more);
        let missing = "there is no resource a b, which jobs.n.steps[1] (and 1 more) needs";
        assert!(noted.contains(missing), "{noted}");
        assert!(noted.contains("resource create 'a b'"), "{noted}");
    }
    said(&server, &["resource", "create", "a b"], 0);
    assert_eq!(apply(&[]), "");
}

#[test]
fn a_signal_cancels_the_tasks_of_its_own_run_only() {
    let server = Standalone::start();
    let sleep = "select pg_sleep(600)";
    let others = ["exec", "--detach", "--name", "shared", sleep];
    said(&server, &others, 0);
    let child = begin(&server.url, &["exec", "--name", "shared", sleep, sleep]);
    let begun = Instant::now();
    while said(&server, &["tasks", "shared"], 0)
        .matches("running")
        .count()
        < 3
    {
        assert!(begun.elapsed() < Duration::from_secs(60), "they never run");
    }
    signal(&child, Signal::SIGINT);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(code(&output), 3, "{}", text(&output.stderr));
    let tasks = said(&server, &["tasks", "shared"], 0);
    let count = |word: &str| tasks.matches(word).count();
    assert_eq!((count("running"), count("cancelled  ")), (1, 2), "{tasks}");
    assert!(said(&server, &["list", "--state", "open"], 0).contains("shared"));
    said(&server, &["release", "shared", "--cancel", "--wait"], 0);
}

#[test]
fn what_a_failure_does_is_not_left_to_chance() {
    let server = Standalone::start();
    let opens = ["exec", "--name", "n", "--on-failure", "halt", "select 1"];
    said(&server, &opens, 0);
    said(&server, &["exec", "--name", "n", "select 2"], 0);
    let otherwise = [
        "exec",
        "--name",
        "n",
        "--on-failure",
        "continue",
        "select 2",
    ];
    let refused = server.run(&otherwise);
    assert_eq!(code(&refused), 1);
    let why = text(&refused.stderr);
    assert!(why.contains("--on-failure halt"), "{why}");
    let agrees = ["exec", "--name", "n", "--on-failure", "halt", "select 3"];
    said(&server, &agrees, 0);
    let noted = |more: &[&str]| text(&server.run(&[&agrees[..], more].concat()).stderr);
    let ignored = noted(&["--weight", "3", "--label", "a=b"]);
    let what = "other settings: what is said by --weight, --label does not count";
    assert!(ignored.contains(what), "{ignored}");
    // What it has in any case may be said again.
    let shown = said(&server, &["--json", "get", "n"], 0);
    let settings = ["--weight=1", "--late-order=reject", "--on-abandon=finish"];
    let alike = noted(&settings);
    assert!(!alike.contains("does not count"), "{alike}: {shown}");
}

#[test]
fn what_is_neither_handle_nor_name_is_named_as_such() {
    let server = Standalone::start();
    let output = server.run(&["--json", "tasks", "nobody"]);
    assert_eq!(code(&output), 1);
    let error = text(&output.stderr);
    assert!(
        error.contains("HANDLE_NOT_FOUND") && error.contains("has the name nobody"),
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

/// Calls of every verb that is about a scheduler, each by the name of one that a failure halts.
const BY_NAME: &[(&str, i32)] = &[
    ("wait night --quiet", 3),
    ("tasks night", 0),
    ("attempts night 1", 0),
    ("attempts night/1", 0),
    ("get night", 0),
    ("get night 1", 0),
    ("explain night 2", 0),
    ("forecast night", 0),
    ("forecast night 2", 0),
    ("retry night 1", 0),
    ("retry night --failed", 0),
    ("cancel night 2", 0),
    ("cancel night --order 3 --dry-run", 0),
    ("cancel night --all --yes", 0),
    ("pause night", 0),
    ("update night --weight 2", 0),
    ("resume night --ignore-failures", 0),
    ("release night --cancel --wait", 0),
];

#[test]
fn every_verb_that_is_about_a_scheduler_finds_it_by_its_name() {
    let server = Standalone::start();
    let file = "1, select 1/0\n2, select 2\n3, select 3\n";
    let options = ["--name", "night", "--on-failure", "halt"];
    assert_eq!(code(&exec_file(&server, file, &options)), 3);
    for (call, expected) in BY_NAME {
        let words: Vec<&str> = call.split(' ').collect();
        said(&server, &words, *expected);
    }
    let called: BTreeSet<&str> = BY_NAME
        .iter()
        .filter_map(|(call, _)| call.split(' ').next())
        .collect();
    let help = text(&run(&["--help"]).stdout);
    let commands = help.split("Commands:\n").nth(1).expect("the verbs");
    let verbs = commands.lines().take_while(|line| !line.is_empty());
    let verbs = verbs.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let about_schedulers = verbs.filter(|verb| {
        let help = text(&run(&[verb, "--help"]).stdout);
        !verb.is_empty()
            && help
                .lines()
                .any(|line| line.starts_with("Usage:") && line.contains("<HANDLE>"))
    });
    assert_eq!(about_schedulers.collect::<BTreeSet<_>>(), called);
}

#[test]
fn a_name_has_no_slash_which_stands_before_the_number_of_a_task() {
    let server = Standalone::start();
    let wrong = server.run(&["exec", "--name", "etl/2026", "select 1"]);
    assert_eq!(code(&wrong), 1);
    let why = text(&wrong.stderr);
    assert!(why.contains("NAME_INVALID") && why.contains('/'), "{why}");
    said(&server, &["exec", "--name", "etl.2026", "select 1"], 0);
}

#[test]
fn a_run_whose_scheduler_is_released_before_it_submits_takes_the_next_one() {
    let server = Standalone::start();
    // It says which scheduler it has found before it submits, and waits until somebody reads that.
    let (mut read, mut stderr) = pipe().expect("a pipe");
    let size = fcntl(&stderr, FcntlArg::F_GETPIPE_SZ).expect("its size");
    let full = vec![b'.'; size.try_into().expect("a size")];
    stderr.write_all(&full).expect("it fits");
    let child = Command::new(PROGRAM)
        .args(["--server", &server.url])
        .args(["exec", "--name", "nightly", "select 1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::from(stderr))
        .spawn()
        .expect("the program starts");
    let begun = Instant::now();
    let open = ["list", "--name", "nightly", "--state", "open"];
    while !said(&server, &open, 0).contains("nightly") {
        assert!(begun.elapsed() < Duration::from_secs(60), "it never opens");
    }
    said(&server, &["release", "nightly", "--wait"], 0);
    let reading = std::thread::spawn(move || {
        let mut said = String::new();
        read.read_to_string(&mut said).map(|_| said)
    });
    let output = child.wait_with_output().expect("it ends");
    let noted = reading.join().expect("read").expect("text");
    let noted = noted.trim_start_matches('.');
    assert_eq!(code(&output), 0, "{noted}");
    let found = noted.lines().filter(|line| line.starts_with("scheduler "));
    assert_eq!(found.count(), 2, "{noted}");
    assert!(said(&server, &open, 0).contains("nightly"));
}

#[test]
fn a_task_that_says_its_name_has_that_one_and_another_that_of_the_command_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let json = r#"{"statement": "select 1", "name": "y"}
                  {"statement": "select 2"}"#;
    let sql = "-- @name y\nselect 1;\n-- @read_only\nselect 2;\n";
    for (file, tasks) in [("a.json", json), ("a.sql", sql)] {
        let path = folder.path().join(file);
        fs::write(&path, tasks).expect("written");
        let path = path.display().to_string();
        let explain = ["exec", "--explain", "--json", "--option", "name=x", "-f"];
        let output = run(&[&explain[..], &[&path]].concat());
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        let tasks = lines(&output);
        let names: Vec<_> = tasks.iter().map(|task| task["name"].as_str()).collect();
        assert_eq!(names, [Some("y"), Some("x")], "{file}");
    }
}

#[test]
fn a_name_that_a_refused_run_has_opened_is_free_again() {
    let server = Standalone::start();
    let refused = ["exec", "--name", "n", "--target", "nowhere", "select 1"];
    said(&server, &refused, 1);
    assert!(!said(&server, &["list", "--state", "open"], 0).contains(" n "));
    // One that others have opened stays open.
    said(&server, &["exec", "--name", "n", "select 1"], 0);
    said(&server, &refused, 1);
    assert!(said(&server, &["list", "--state", "open"], 0).contains(" n "));
}

#[test]
fn a_name_that_is_not_there_is_answered_by_one_that_is_like_it() {
    let server = Standalone::start();
    said(&server, &["exec", "--name", "nightly", "select 1"], 0);
    said(&server, &["resource", "create", "deploy"], 0);
    for (line, meant) in [
        ("tasks nihgtly", "did you mean `nightly`? check the name"),
        ("resource get depoly", "did you mean `deploy`?"),
        ("lock run deplyo -- true", "did you mean `deploy`?"),
    ] {
        let output = server.run(&line.split(' ').collect::<Vec<_>>());
        let said = text(&output.stderr);
        assert_eq!(code(&output), 1, "{line}: {said}");
        assert!(said.contains(meant), "{line}: {said}");
    }
    let unlike = text(&server.run(&["tasks", "zzz"]).stderr);
    assert!(!unlike.contains("did you mean"), "{unlike}");
}

#[test]
fn a_handle_that_was_cut_is_told_from_a_name() {
    let server = Standalone::start();
    let commented = ["exec", "--detach", "-- a comment\nselect 1"];
    let handle = said(&server, &commented, 0).trim().to_owned();
    let output = server.run(&["wait", &handle[..35]]);
    let error = text(&output.stderr);
    for part in [
        "it has 35 characters, and a handle has 36",
        &format!("did you mean `{handle}`?"),
    ] {
        assert!(error.contains(part), "{error}");
    }
    said(&server, &["wait", &handle], 0);
}
