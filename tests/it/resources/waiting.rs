//! What is shown of who waits for a resource: claims, and tasks that wait beside them.

use super::lock_run::{queue, start};
use crate::harness::{standalone::Standalone, terminal::wait_for};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{fs, io::Read};

#[test]
fn a_queue_says_how_many_claims_come_before_the_tasks_that_wait() {
    let server = Standalone::start();
    server.run(&["resource", "create", "deploy"]);
    let mut first = start(&server, &["deploy", "--", "sleep", "600"]);
    wait_for("it holds", || {
        queue(&server, "deploy")["resource"]["holds"] == 1
    });
    let mut second = start(&server, &["deploy", "--", "true"]);
    wait_for("it waits", || {
        queue(&server, "deploy")["resource"]["waiting"] == 1
    });
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(&file, "-- @resource deploy\nselect 1;\n").expect("written");
    let path = file.path().to_str().expect("a path");
    let begun = server.run(&[
        "exec",
        "--name",
        "waits",
        "--detach",
        "--format=sql",
        "--file",
        path,
    ]);
    assert!(
        begun.status.success(),
        "{}",
        String::from_utf8_lossy(&begun.stderr)
    );
    let output = server.run(&["resource", "queue", "deploy"]).stdout;
    let output = String::from_utf8_lossy(&output).into_owned();
    let rows: Vec<&str> = output.lines().rev().take(2).collect();
    assert!(rows[1].contains("CLAIMS BEFORE"), "{output}");
    let row: Vec<&str> = rows[0].split_whitespace().collect();
    assert_eq!(row[row.len() - 2..], ["1", "-"], "{output}");
    let shown = server.run(&["resource", "get", "deploy"]).stdout;
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert!(shown.contains("  waiting tasks   1\n"), "{shown}");
    let why = server.run(&["explain", "waits", "1"]).stdout;
    let why = String::from_utf8_lossy(&why).into_owned();
    assert!(
        why.contains("place 2 among the claims and tasks in line"),
        "{why}"
    );
    for run in [&mut first, &mut second] {
        kill(Pid::from_raw(run.id() as i32), Signal::SIGTERM).expect("signalled");
        run.wait().expect("it ends");
    }
    let mut said = String::new();
    let mut stderr = second.stderr.take().expect("it is read");
    stderr.read_to_string(&mut said).expect("words");
    assert!(said.contains("place 1 among the claims in line"), "{said}");
}
