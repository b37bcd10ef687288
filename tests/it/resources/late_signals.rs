//! A signal that comes when the command of `lock run` has just ended was for the command.

use super::lock_run::{is_gone, number, queue, said, start, waiting_for};
use crate::harness::{standalone::Standalone, terminal::wait_for};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::fs;

#[test]
fn a_signal_behind_the_end_of_a_command_does_not_cut_off_the_release() {
    let server = Standalone::start();
    server.run(&["resource", "create", "deploy"]);
    let folder = tempfile::tempdir().expect("a folder");
    let (begun, go) = (folder.path().join("begun"), folder.path().join("go"));
    let script = waiting_for(&go, &begun);
    let run = start(&server, &["deploy", "--", "sh", "-c", &script]);
    wait_for("the command begins", || number(&begun) > 0);
    let command = Pid::from_raw(number(&begun) as i32);
    let program = Pid::from_raw(run.id() as i32);
    // When it goes on, it hears of both, and takes the end first.
    kill(program, Signal::SIGSTOP).expect("it runs");
    fs::write(&go, "").expect("written");
    wait_for("the command ends", || is_gone(command));
    for signal in [Signal::SIGTERM, Signal::SIGCONT] {
        kill(program, signal).expect("it is there");
    }
    let output = run.wait_with_output().expect("it ends");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(!said.contains("could not be released"), "{said}");
    assert_eq!(queue(&server, "deploy")["resource"]["holds"], 0);
}
