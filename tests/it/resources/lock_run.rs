//! `lock run`: a command runs while a resource is held, knows its token, and is killed when the
//! hold is lost.

use crate::harness::{
    process::PROGRAM,
    standalone::Standalone,
    terminal::{on_terminal, wait_for},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use std::{
    fs,
    io::Write,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

pub(super) fn start(server: &Standalone, arguments: &[&str]) -> Child {
    begin(server, &[&["lock", "run"][..], arguments].concat())
}

/// Begins any verb.
pub(super) fn begin(server: &Standalone, arguments: &[&str]) -> Child {
    Command::new(PROGRAM)
        .args(["--server", &server.url])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs")
}

/// A script of a shell that writes its process id into one file, and waits for the other one.
pub(super) fn waiting_for(go: &Path, begun: &Path) -> String {
    let (begun, go) = (begun.display(), go.display());
    format!("echo $$ > {begun}; until test -e {go}; do sleep 0.02; done")
}

pub(super) fn number(file: &Path) -> i64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

pub(super) fn queue(server: &Standalone, name: &str) -> Value {
    let output = server.run(&["--json", "resource", "queue", name]);
    serde_json::from_slice(&output.stdout).expect("a document")
}

pub(super) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_command_runs_under_the_lock_and_ends_as_it_does() {
    let server = Standalone::start();
    server.run(&["resource", "create", "deploy"]);
    let missing = start(&server, &["deploy", "--", "/no/such/program"]);
    let output = missing.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("cannot run /no/such/program"));
    // The first token is left: nothing was claimed for it.
    let script = "echo $RALLYPOINT_TOKEN $RALLYPOINT_CLAIM; exit 7";
    for token in 1..=2 {
        let run = start(&server, &["deploy", "--", "sh", "-c", script]);
        let output = run.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(7), "{}", said(&output));
        let expected = format!("{token} {token}\n");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }
}

#[test]
fn a_resource_without_capacity_is_named_in_place_of_a_place_in_line() {
    let server = Standalone::start();
    server.run(&["resource", "create", "api/*", "--capacity", "0"]);
    let waits = start(&server, &["api/a", "--wait", "10", "--", "true"]);
    wait_for("it waits", || {
        server.run(&["resource", "claim", "1"]).status.success()
    });
    let claim = server.run(&["resource", "claim", "1"]).stdout;
    let claim = String::from_utf8_lossy(&claim).into_owned();
    let shown = server.run(&["resource", "get", "api/a"]).stdout;
    let shown = String::from_utf8_lossy(&shown).into_owned();
    let output = waits.wait_with_output().expect("it ends");
    let next = "api/a has capacity 0, and nothing is granted until it is raised: \
                `rallypoint resource update 'api/*' --capacity N`";
    for text in [said(&output), claim] {
        assert!(text.contains(next) && !text.contains("place"), "{text}");
    }
    assert!(shown.contains("0: nothing is granted until"), "{shown}");
    server.run(&["resource", "create", "rate", "--refill", "1/s"]);
    let alone = start(&server, &["rate", "--", "true"]);
    let alone = said(&alone.wait_with_output().expect("it ends"));
    assert!(
        alone.contains("--shared") && !alone.contains("SHARED"),
        "{alone}"
    );
}

#[test]
fn the_second_one_waits_and_is_told_for_whom() {
    let server = Standalone::start();
    server.run(&["resource", "create", "deploy"]);
    let folder = tempfile::tempdir().expect("a folder");
    let (begun, go) = (folder.path().join("begun"), folder.path().join("go"));
    let script = waiting_for(&go, &begun);
    let first = start(
        &server,
        &["deploy", "--owner", "ci-31", "--", "sh", "-c", &script],
    );
    wait_for("the first one begins", || number(&begun) > 0);
    let impatient = start(&server, &["deploy", "--wait", "5", "--", "true"]);
    let output = impatient.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("held by ci-31"), "{}", said(&output));
    let second = start(&server, &["deploy", "--", "true"]);
    wait_for("the second one waits", || {
        queue(&server, "deploy")["resource"]["waiting"] == 1
    });
    fs::write(&go, "").expect("written");
    for child in [first, second] {
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
}

#[test]
fn the_whole_group_of_a_command_is_killed_when_its_hold_is_lost() {
    let server = Standalone::start();
    server.run(&["resource", "create", "deploy"]);
    let folder = tempfile::tempdir().expect("a folder");
    let pid = folder.path().join("pid");
    // The command's own child is in its group, too.
    let script = format!("sleep 600 & echo $! > {}; wait", pid.display());
    let run = start(&server, &["deploy", "--", "sh", "-c", &script]);
    wait_for("the command begins", || number(&pid) > 0);
    let grandchild = Pid::from_raw(number(&pid) as i32);
    let claim = queue(&server, "deploy")["holds"][0]["claim"].to_string();
    let force = [
        "resource", "release", &claim, "--force", "--reason", "it hangs",
    ];
    assert!(server.run(&force).status.success());
    let output = run.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("it hangs"), "{}", said(&output));
    wait_for("all of it is killed", || is_gone(grandchild));
}

/// Ended; perhaps nobody has taken note of its end yet.
pub(super) fn is_gone(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default();
    stat.is_empty() || state.trim_start().starts_with('Z')
}

#[test]
fn whoever_waits_gets_the_lock_of_one_that_was_killed() {
    let server = Standalone::start();
    server.run(&["resource", "create", "deploy"]);
    let folder = tempfile::tempdir().expect("a folder");
    let begun = folder.path().join("begun");
    let script = format!("echo $$ > {}; exec sleep 600", begun.display());
    let mut first = start(
        &server,
        &["deploy", "--lease", "1", "--", "sh", "-c", &script],
    );
    wait_for("the first one begins", || number(&begun) > 0);
    let command = Pid::from_raw(number(&begun) as i32);
    kill(Pid::from_raw(first.id() as i32), Signal::SIGKILL).expect("killed");
    first.wait().expect("it has ended");
    let second = start(&server, &["deploy", "--", "true"]);
    let output = second.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    kill(command, Signal::SIGKILL).ok();
}

#[test]
fn a_signal_is_passed_on_to_the_command_and_the_lock_released() {
    let server = Standalone::start();
    server.run(&["resource", "create", "deploy"]);
    let folder = tempfile::tempdir().expect("a folder");
    let begun = folder.path().join("begun");
    let script = format!(
        "trap 'exit 9' TERM; echo 1 > {}; while true; do sleep 0.02; done",
        begun.display()
    );
    let run = start(&server, &["deploy", "--", "sh", "-c", &script]);
    wait_for("the command begins", || number(&begun) == 1);
    kill(Pid::from_raw(run.id() as i32), Signal::SIGTERM).expect("signalled");
    let output = run.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(9), "{}", said(&output));
    assert_eq!(queue(&server, "deploy")["resource"]["holds"], 0);
}

/// `lock run` as a shell says it.
fn lock_run(server: &Standalone, arguments: &str) -> String {
    format!("{PROGRAM} --server {} lock run {arguments}", server.url)
}

#[test]
fn a_command_on_a_terminal_reads_from_it_and_its_keys_mean_the_command() {
    let server = Standalone::start();
    server.run(&["resource", "create", "deploy"]);
    let folder = tempfile::tempdir().expect("a folder");
    let begun = folder.path().join("begun");
    let script = format!(
        "deploy -- sh -c 'trap \"echo interrupted; exit 9\" INT; read -r line; echo \"<$line>\"; \
         echo 1 > {}; while :; do sleep 0.05; done'",
        begun.display()
    );
    let mut run = on_terminal(&lock_run(&server, &script));
    let mut keys = run.stdin.take().expect("a terminal");
    keys.write_all(b"hello\n").expect("typed");
    wait_for("the command reads", || number(&begun) == 1);
    keys.write_all(b"\x03").expect("Ctrl-C");
    let output = run.wait_with_output().expect("it ends");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("<hello>"), "{shown}");
    assert!(shown.contains("interrupted"), "{shown}");
    assert_eq!(output.status.code(), Some(9), "{shown}");
    assert_eq!(queue(&server, "deploy")["resource"]["holds"], 0);
}

#[test]
fn a_command_that_was_stopped_beyond_its_lease_does_not_go_on() {
    let server = Standalone::start();
    server.run(&["resource", "create", "deploy"]);
    let folder = tempfile::tempdir().expect("a folder");
    let [ticks, stopped, go] = ["ticks", "stopped", "go"].map(|name| folder.path().join(name));
    // Not `sh`: a shell that begins its commands by vfork does not stop amid that.
    let ticking = format!("while :; do echo >> {}; sleep 0.02; done", ticks.display());
    let arguments = format!("deploy --lease 2s -- bash -c '{ticking}'");
    let script = format!(
        "set -m; {}; {}; fg",
        lock_run(&server, &arguments),
        waiting_for(&go, &stopped)
    );
    let mut run = on_terminal(&script);
    let mut keys = run.stdin.take().expect("a terminal");
    wait_for("the command runs", || ticks.exists());
    keys.write_all(b"\x1a").expect("Ctrl-Z");
    wait_for("the shell goes on", || number(&stopped) > 0);
    wait_for("the lease is over", || {
        queue(&server, "deploy")["resource"]["holds"] == 0
    });
    let written = fs::read(&ticks).expect("ticks").len();
    fs::write(&go, "").expect("written");
    let output = run.wait_with_output().expect("it ends");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("the lock is lost"), "{shown}");
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert_eq!(fs::read(&ticks).expect("ticks").len(), written);
}

#[test]
fn a_hang_up_is_for_the_command_and_the_lock_is_kept_until_it_ends() {
    let server = Standalone::start();
    server.run(&["resource", "create", "deploy"]);
    let folder = tempfile::tempdir().expect("a folder");
    let (begun, heard) = (folder.path().join("begun"), folder.path().join("heard"));
    let go = folder.path().join("go");
    let script = format!(
        "trap 'echo 1 > {}' HUP; {}",
        heard.display(),
        waiting_for(&go, &begun)
    );
    // The tests may run under `nohup` themselves.
    let run = Command::new("env")
        .args(["--default-signal=HUP", PROGRAM, "--server", &server.url])
        .args(["lock", "run", "deploy", "--", "sh", "-c", &script])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    wait_for("the command begins", || number(&begun) > 0);
    kill(Pid::from_raw(run.id() as i32), Signal::SIGHUP).expect("it runs");
    wait_for("the command hears it", || number(&heard) == 1);
    assert_eq!(queue(&server, "deploy")["resource"]["holds"], 1);
    fs::write(&go, "").expect("written");
    let output = run.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn what_was_started_to_ignore_a_hang_up_ignores_it() {
    let server = Standalone::start();
    server.run(&["resource", "create", "deploy"]);
    let folder = tempfile::tempdir().expect("a folder");
    let (begun, go) = (folder.path().join("begun"), folder.path().join("go"));
    let script = waiting_for(&go, &begun);
    let command = format!(
        "trap '' HUP; exec {}",
        lock_run(&server, &format!("deploy -- sh -c '{script}'"))
    );
    let run = Command::new("sh")
        .args(["-c", &command])
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    wait_for("the command begins", || number(&begun) > 0);
    kill(Pid::from_raw(run.id() as i32), Signal::SIGHUP).expect("it runs");
    fs::write(&go, "").expect("written");
    let output = run.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn without_a_terminal_a_stop_holds_both_until_both_are_continued() {
    let server = Standalone::start();
    server.run(&["resource", "create", "deploy"]);
    let folder = tempfile::tempdir().expect("a folder");
    let (begun, go) = (folder.path().join("begun"), folder.path().join("go"));
    let script = waiting_for(&go, &begun);
    let arguments = format!("deploy -- bash -c '{script}'");
    let run = Command::new("setsid")
        .args(["--wait", "sh", "-c"])
        .arg(format!("{} & wait $!", lock_run(&server, &arguments)))
        .stderr(Stdio::piped())
        .spawn()
        .expect("a session of its own");
    wait_for("the command begins", || number(&begun) > 0);
    let command = number(&begun);
    let program = parent(command);
    kill(Pid::from_raw(program as i32), Signal::SIGTSTP).expect("it runs");
    for process in [command, program] {
        wait_for("it stops", || state(process) == "T");
    }
    fs::write(&go, "").expect("written");
    kill(Pid::from_raw(program as i32), Signal::SIGCONT).expect("it is there");
    let output = run.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

/// What the system shows of a process behind its name: state, parent and so on.
fn stat(process: i64) -> Vec<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("it is there");
    let (_, behind) = stat.rsplit_once(") ").expect("a name");
    behind.split(' ').map(str::to_owned).collect()
}

fn state(process: i64) -> String {
    stat(process)[0].clone()
}

fn parent(process: i64) -> i64 {
    stat(process)[1].parse().expect("a number")
}

#[test]
fn who_reads_the_terminal_beside_the_command_in_a_pipeline_keeps_it() {
    let server = Standalone::start();
    server.run(&["resource", "create", "deploy"]);
    let folder = tempfile::tempdir().expect("a folder");
    let begun = folder.path().join("begun");
    let run = lock_run(
        &server,
        &format!("deploy -- sh -c 'echo 1 > {}; sleep 0.2'", begun.display()),
    );
    let script = format!("set -m; {run} | sh -c 'read -r line < /dev/tty; echo \"<$line>\"'");
    let mut run = on_terminal(&script);
    let mut keys = run.stdin.take().expect("a terminal");
    wait_for("the command begins", || number(&begun) == 1);
    keys.write_all(b"hello\n").expect("typed");
    let output = run.wait_with_output().expect("it ends");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("<hello>"), "{shown}");
}

#[test]
fn a_command_whose_output_is_piped_may_read_from_the_terminal() {
    let server = Standalone::start();
    server.run(&["resource", "create", "deploy"]);
    let run = lock_run(&server, "deploy -- sh -c 'read -r line; echo \"<$line>\"'");
    let mut run = on_terminal(&format!("set -m; {run} | cat"));
    let mut keys = run.stdin.take().expect("a terminal");
    keys.write_all(b"hello\n").expect("typed");
    let output = run.wait_with_output().expect("it ends");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("<hello>"), "{shown}");
    assert_eq!(queue(&server, "deploy")["resource"]["holds"], 0);
}
