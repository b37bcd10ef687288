//! How commands end: in time, in order when a signal asks for it, and with an exit code that tells
//! what has become of the tasks.

use super::{begin, code, run, signal, text};
use crate::harness::{
    process::{PROGRAM, Process, free_address},
    standalone::{Standalone, folder},
    terminal::{on_terminal, wait_for},
};
use nix::sys::signal::Signal;
use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Begins to run statements; returns once there is a scheduler, with what is said after that.
fn exec(server: &Standalone, statements: &[&str]) -> (Child, BufReader<ChildStderr>, String) {
    let mut child = begin(&server.url, &[&["exec"][..], statements].concat());
    let mut said = BufReader::new(child.stderr.take().expect("stderr is piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("it names its scheduler");
    let handle = line.trim().strip_prefix("scheduler ").map(str::to_owned);
    (child, said, handle.expect("a handle"))
}

#[test]
fn a_signal_has_exec_cancel_its_tasks_and_tell_how_they_ended() {
    let server = Standalone::start();
    for sent in [Signal::SIGTERM, Signal::SIGINT] {
        let (child, _said, handle) = exec(&server, &["select pg_sleep(600)"]);
        signal(&child, sent);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(code(&output), 3, "{sent}: {}", text(&output.stdout));
        let released = text(&server.run(&["release", &handle]).stdout);
        assert!(
            released.contains("released before") && released.contains("tasks: 0"),
            "{released}"
        );
    }
}

#[test]
fn a_signal_behind_the_end_of_its_tasks_does_not_change_what_exec_tells_of_them() {
    let server = Standalone::start();
    let scope = ["app", "--reason", "a new disk"];
    let on_target = |verb| assert_eq!(code(&server.run(&[&[verb][..], &scope].concat())), 0);
    on_target("pause-target");
    let (child, _said, handle) = exec(&server, &["select 1"]);
    let tasks = || text(&server.run(&["tasks", &handle]).stdout);
    wait_for("the task", || tasks().contains("queued"));
    // When it goes on, it hears of both.
    signal(&child, Signal::SIGSTOP);
    on_target("resume-target");
    wait_for("its end", || tasks().contains("succeeded"));
    signal(&child, Signal::SIGTERM);
    signal(&child, Signal::SIGCONT);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(code(&output), 0, "{}", text(&output.stdout));
}

#[test]
fn a_failure_cancels_the_rest_of_tasks_that_take_several_calls() {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("many.txt");
    let rest = "2, select pg_sleep(0)\n".repeat(10_000);
    fs::write(&file, format!("1, select 1/0\n{rest}3, select 1\n")).expect("a file");
    let file = file.display().to_string();
    let asks = [
        "exec",
        "--quiet",
        "--on-failure",
        "cancel-rest",
        "-f",
        &file,
    ];
    let ended = server.run(&asks);
    let said = text(&ended.stdout) + &text(&ended.stderr);
    assert_eq!(code(&ended), 3, "{said}");
    assert!(said.contains("0 of 10002 tasks succeeded"), "{said}");
    for kept in [&["--keep"][..], &["--name", "many"]] {
        let refused = server.run(&[&asks[..], kept].concat());
        assert_eq!(code(&refused), 2, "{}", text(&refused.stderr));
    }
}

#[test]
fn a_signal_ends_exec_though_its_tasks_wait_for_room() {
    let server = Standalone::with(&["--max-queued-tasks", "1"].map(Path::new));
    let (first, _said, handle) = exec(&server, &["select pg_sleep(600)"]);
    let is_empty = |handle: &str| text(&server.run(&["tasks", handle]).stdout).trim() == "no tasks";
    let begun = Instant::now();
    while is_empty(&handle) {
        let waited = begun.elapsed();
        assert!(waited < Duration::from_secs(60), "it is never submitted");
    }
    let (second, _said, handle) = exec(&server, &["select 1"]);
    interrupt(&second);
    assert_eq!(code(&second.wait_with_output().expect("it ends")), 3);
    assert!(is_empty(&handle), "it has been submitted");
    interrupt(&first);
    assert_eq!(code(&first.wait_with_output().expect("it ends")), 3);
}

#[test]
fn exec_waits_for_room_longer_than_a_call_may_take_and_says_so() {
    let server = Standalone::with(&["--max-queued-tasks", "1"].map(Path::new));
    let (first, _said, handle) = exec(&server, &["select pg_sleep(600)"]);
    let begun = Instant::now();
    while text(&server.run(&["tasks", &handle]).stdout).trim() == "no tasks" {
        let waited = begun.elapsed();
        assert!(waited < Duration::from_secs(60), "it is never submitted");
    }
    let limited = ["exec", "--request-timeout", "1s", "select 1"];
    let mut second = begin(&server.url, &limited);
    let said = BufReader::new(second.stderr.take().expect("piped"));
    let mut lines = said.lines().map(|line| line.expect("text"));
    let waits = lines.find(|line| line.contains("has not taken the call since"));
    assert!(waits.expect("it is said").contains("QUEUE_FULL"));
    interrupt(&first);
    assert_eq!(code(&first.wait_with_output().expect("it ends")), 3);
    let output = second.wait_with_output().expect("it ends");
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
}

#[test]
fn a_second_signal_ends_exec_though_the_server_does_not_answer() {
    let server = Standalone::start();
    let (mut child, said, _) = exec(&server, &["select pg_sleep(600)"]);
    server.freeze();
    interrupt(&child);
    let mut lines = said.lines().map(|line| line.expect("text"));
    assert!(lines.any(|line| line.starts_with("cancelling")));
    // One that comes with the first is the same.
    let ended = loop {
        interrupt(&child);
        if let Some(ended) = child.try_wait().expect("our own child") {
            break ended;
        }
        thread::sleep(Duration::from_millis(200));
    };
    server.thaw();
    assert_eq!(ended.code(), Some(130));
}

#[test]
fn exec_says_why_nothing_runs() {
    let server = Standalone::start();
    let paused = server.run(&["pause-target", "app", "--reason", "a new disk"]);
    assert_eq!(code(&paused), 0);
    let (child, said, handle) = exec(&server, &["select 1"]);
    let mut lines = said.lines().map(|line| line.expect("text"));
    let line = lines.find(|line| line.starts_with("nothing runs"));
    let line = line.expect("it is said");
    assert!(
        line.contains("task 1 waits") && line.contains("a new disk"),
        "{line}"
    );
    assert!(
        line.contains(&format!("`rallypoint explain {handle} 1`")),
        "{line}"
    );
    interrupt(&child);
    assert_eq!(code(&child.wait_with_output().expect("it ends")), 3);
}

#[test]
fn exec_tells_how_its_tasks_ended_though_nobody_reads_what_it_prints() {
    let server = Standalone::start();
    let (mut child, said, _) = exec(&server, &["select pg_sleep(1)", "select 1/0"]);
    drop((child.stdout.take(), said));
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(3));
}

#[test]
fn a_server_serves_and_stops_in_order_though_nobody_reads_what_it_prints() {
    let (folder, address) = (folder(), free_address().to_string());
    let (nobody, stderr) = std::io::pipe().expect("a pipe");
    drop(nobody);
    let options = ["--listen", &address, "--data-dir"];
    let mut server = Process::serve(options.map(Path::new).into_iter().chain([&*folder]));
    server.command().stderr(stderr);
    server.start();
    let begun = Instant::now();
    while code(&run(&["--server", &address, "health"])) != 0 {
        let ends = server.has_ended() || begun.elapsed() > Duration::from_secs(60);
        assert!(!ends, "it never gets ready");
    }
    assert_eq!(code(&run(&["--server", &address, "exec", "select 1"])), 0);
    server.signal(Signal::SIGTERM);
    let status = loop {
        if let Some(status) = server.exited() {
            break status;
        }
        assert!(begun.elapsed() < Duration::from_secs(180), "it never ends");
        thread::sleep(Duration::from_millis(20));
    };
    fs::remove_dir_all(&folder).ok();
    assert_eq!(status.code(), Some(0));
}

fn interrupt(child: &Child) {
    signal(child, Signal::SIGINT);
}

#[test]
fn a_signal_ends_wait_and_the_tasks_go_on() {
    let server = Standalone::start();
    let detached = ["exec", "--detach", "select pg_sleep(600)"];
    let handle = text(&server.run(&detached).stdout).trim().to_owned();
    for (sent, expected) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let waiting = ["wait", &handle];
        let releasing = ["release", &handle, "--wait"];
        for verb in [waiting.as_slice(), releasing.as_slice()] {
            let child = begin(&server.url, verb);
            // Until then the signal would find a process that has not begun to listen.
            wait_for("it listens", || catches(&child, sent));
            // By then it waits, as a rule.
            thread::sleep(Duration::from_secs(1));
            signal(&child, sent);
            let output = child.wait_with_output().expect("it ends");
            assert_eq!(
                code(&output),
                expected,
                "{verb:?}: {}",
                text(&output.stderr)
            );
        }
    }
    let running = text(&server.run(&["tasks", &handle]).stdout);
    assert!(running.contains("running"), "{running}");
    let cancelled = server.run(&["release", &handle, "--cancel", "--wait"]);
    assert_eq!(code(&cancelled), 0, "{}", text(&cancelled.stderr));
    assert_eq!(code(&server.run(&["wait", &handle])), 3);
}

/// Whether a process handles this signal.
fn catches(child: &Child, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("Linux");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.expect("a mask").trim(), 16).expect("a mask");
    caught & 1 << (signal as i32 - 1) != 0
}

#[test]
fn a_demo_that_is_interrupted_leaves_nothing_behind() {
    let child = Command::new(PROGRAM)
        .args(["demo", "--scale", "10"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.expect("the program starts");
    let said = BufReader::new(child.stderr.take().expect("stderr is piped"));
    let mut lines = said.lines().map(|line| line.expect("text"));
    assert!(lines.any(|line| line.starts_with("Ten tasks")));
    let folder = std::env::temp_dir().join(format!("rallypoint-demo-{}", child.id()));
    assert!(folder.exists());
    interrupt(&child);
    let status = child.wait().expect("it ends");
    assert_eq!((status.code(), folder.exists()), (Some(130), false));
}

#[test]
fn a_call_that_is_not_answered_ends_after_the_request_timeout() {
    let server = Standalone::start();
    server.freeze();
    let begun = Instant::now();
    let output = server.run(&["--request-timeout", "1s", "status"]);
    server.thaw();
    assert_eq!(code(&output), 1);
    assert!(text(&output.stderr).contains("no answer within 1s"));
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_closed_pipe_ends_a_verb_quietly() {
    let server = Standalone::start();
    for verb in [["status", "--watch"], ["status", "--executions"]] {
        let mut child = begin(&server.url, &verb);
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!((code(&output), text(&output.stderr)), (0, String::new()));
    }
}

#[test]
fn a_terminal_that_goes_away_cancels_what_was_begun_on_it() {
    let server = Standalone::start();
    let script = format!(
        "{PROGRAM} --server {} exec --name night 'select pg_sleep(600)' 'select pg_sleep(601)'",
        server.url
    );
    let mut terminal = on_terminal(&script);
    let tasks = || text(&server.run(&["tasks", "night"]).stdout);
    wait_for("the tasks", || tasks().matches("running").count() == 2);
    terminal.kill().expect("it runs");
    terminal.wait().expect("it ends");
    wait_for("their end", || tasks().matches("cancelled").count() >= 2);
}

#[test]
fn a_verb_with_nothing_to_say_ends_when_its_reader_does() {
    let server = Standalone::start();
    assert_eq!(code(&server.run(&["resource", "create", "dock"])), 0);
    for verb in [
        &["resource", "watch", "dock"][..],
        &["status", "--executions", "--watch"],
    ] {
        let mut child = begin(&server.url, verb);
        let stdout = child.stdout.take().expect("a pipe");
        let mut first = String::new();
        BufReader::new(stdout).read_line(&mut first).expect("read");
        assert!(!first.is_empty());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!((code(&output), text(&output.stderr)), (0, String::new()));
    }
}

#[test]
fn what_cannot_be_written_is_no_success() {
    let server = Standalone::start();
    let verbs: [&[&str]; 4] = [
        &["list"],
        &["list", "--json"],
        &["completions", "bash"],
        &["exec", "select 1", "select 2"],
    ];
    for verb in verbs {
        let full = fs::File::create("/dev/full").expect("it is there");
        let output = Command::new(PROGRAM)
            .args(["--server", &server.url])
            .args(verb)
            .stdout(full)
            .output()
            .expect("the program runs");
        let said = text(&output.stderr);
        assert_eq!(code(&output), 1, "{verb:?}: {said}");
        let times = said.matches("cannot write to stdout").count();
        assert_eq!(times, 1, "{verb:?}: {said}");
    }
}
