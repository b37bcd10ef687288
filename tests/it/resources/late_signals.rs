//! A signal that comes when the command of `lock run` or `jobs claim` has just ended was for the
//! command.

use super::lock_run::{begin, is_gone, number, queue, said, start, waiting_for};
use crate::harness::{standalone::Standalone, terminal::wait_for};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs,
    process::{Child, Output},
};

/// Lets a program run a script, and signals the program when it has not yet heard that the script
/// has ended.
fn signalled_late(begin: impl FnOnce(&str) -> Child) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let (begun, go) = (folder.path().join("begun"), folder.path().join("go"));
    let run = begin(&waiting_for(&go, &begun));
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
    run.wait_with_output().expect("it ends")
}

#[test]
fn a_signal_behind_the_end_of_a_command_does_not_cut_off_the_release() {
    let server = Standalone::start();
    server.run(&["resource", "create", "deploy"]);
    let output = signalled_late(|script| start(&server, &["deploy", "--", "sh", "-c", script]));
    let said = said(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(!said.contains("could not be released"), "{said}");
    assert_eq!(queue(&server, "deploy")["resource"]["holds"], 0);
}

#[test]
fn a_signal_behind_the_end_of_a_command_does_not_cut_off_how_its_run_has_ended() {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("jobs.toml");
    let job = "[jobs.nightly]\nschedule.cron = \"@yearly\"\nclaimed = true\n";
    fs::write(&file, job).expect("written");
    let file = file.display().to_string();
    for arguments in [
        &["jobs", "apply", "-f", &file][..],
        &["jobs", "run", "nightly"],
    ] {
        let output = server.run(arguments);
        assert!(output.status.success(), "{}", said(&output));
    }
    let claim = ["jobs", "claim", "nightly", "--", "sh", "-c"];
    let output = signalled_late(|script| begin(&server, &[&claim[..], &[script]].concat()));
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let runs = server.run(&["jobs", "runs", "nightly"]);
    let runs = String::from_utf8_lossy(&runs.stdout);
    assert!(runs.contains("succeeded"), "{runs}");
}
