//! How commands end: in time, in order when a signal asks for it, and with an exit code that tells
//! what has become of the tasks.

use super::{code, run, text};
use crate::harness::{process::PROGRAM, standalone::Standalone};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    process::{Child, ChildStderr, Command, Stdio},
};

/// Begins to run statements; returns once there is a scheduler, with what is said after that.
fn exec(server: &Standalone, statements: &[&str]) -> (Child, BufReader<ChildStderr>, String) {
    let mut child = Command::new(PROGRAM)
        .args(["--server", &server.url, "exec"])
        .args(statements)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut said = BufReader::new(child.stderr.take().expect("stderr is piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("it names its scheduler");
    let handle = line.trim().strip_prefix("scheduler ").map(str::to_owned);
    (child, said, handle.expect("a handle"))
}

#[test]
fn a_signal_has_exec_cancel_its_tasks_and_tell_how_they_ended() {
    let server = Standalone::start();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let (child, _said, handle) = exec(&server, &["select pg_sleep(600)"]);
        let pid = Pid::from_raw(child.id().try_into().expect("a pid"));
        kill(pid, signal).expect("our own child");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(code(&output), 3, "{signal}: {}", text(&output.stdout));
        let released = text(&server.run(&["release", &handle]).stdout);
        assert!(
            released.contains("released before") && released.contains(" 0 tasks"),
            "{released}"
        );
    }
}

#[test]
fn exec_tells_how_its_tasks_ended_though_nobody_reads_what_it_prints() {
    let server = Standalone::start();
    let (mut child, _said, _) = exec(&server, &["select pg_sleep(1)", "select 1/0"]);
    drop(child.stdout.take());
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(3));
}

#[test]
fn health_takes_the_addresses_that_every_command_takes() {
    let server = Standalone::start();
    let address = server.url.trim_start_matches("http://");
    for address in [address.to_owned(), format!("127.0.0.1:1,{address}")] {
        let output = run(&["--server", &address, "health"]);
        assert_eq!(code(&output), 0, "{address}: {}", text(&output.stderr));
    }
}

#[test]
fn health_does_not_wait_for_ever() {
    // Connections are established and nobody accepts them.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address").to_string();
    let output = run(&["--server", &address, "health"]);
    assert_eq!(code(&output), 1);
    assert!(text(&output.stderr).contains("within 5 s"));
}
