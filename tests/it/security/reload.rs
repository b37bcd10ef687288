//! The real program: what it refuses to listen on, and who may do what after SIGHUP.

use super::{Grant, describe, token};
use crate::harness::{conversation::WAIT_TIMEOUT, process::PROGRAM, standalone::Standalone};
use std::{
    fs,
    path::Path,
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const READER: Grant = Grant {
    name: "ada",
    namespaces: &["etl"],
    role: "reader",
};
const SUBMITTER: Grant = Grant {
    role: "submitter",
    ..READER
};

fn says(server: &Standalone, words: &str, times: usize) {
    let begun = Instant::now();
    while server.log().matches(words).count() < times {
        assert!(
            begun.elapsed() < WAIT_TIMEOUT,
            "never `{words}`:\n{}",
            server.log()
        );
        thread::sleep(Duration::from_millis(20));
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn roles_and_tokens_count_from_the_next_call_on() {
    let folder = TempDir::new().expect("a directory");
    describe(folder.path(), &[READER], "");
    let path = folder.path().join("rallypoint.toml");
    let secret = folder.path().join("secret");
    fs::write(&secret, token("ada") + "\n").expect("written");
    let server = Standalone::with(&[Path::new("--config"), &path]);
    let run = |verb: &[&str]| {
        let file = secret.to_str().expect("UTF-8");
        server.run(&[&["--token-file", file], verb].concat())
    };
    let stranger = server.run(&["list"]);
    assert!(
        stderr(&stranger).contains("IDENTITY_MISSING"),
        "{}",
        stderr(&stranger)
    );
    assert!(run(&["list"]).status.success());
    let refused = run(&["exec", "select 1"]);
    assert!(
        stderr(&refused).contains("ROLE_MISSING"),
        "{}",
        stderr(&refused)
    );
    assert!(
        stderr(&refused).contains("submitter"),
        "{}",
        stderr(&refused)
    );
    describe(folder.path(), &[SUBMITTER], "");
    server.hang_up();
    says(&server, "the configuration has been read again", 1);
    let done = run(&["exec", "select 1"]);
    assert!(done.status.success(), "{}", stderr(&done));
    fs::write(&path, "").expect("written");
    server.hang_up();
    says(&server, "changes at a restart only", 1);
    assert!(run(&["list"]).status.success(), "nothing has changed");
    fs::write(&secret, "another").expect("written");
    let stranger = run(&["list"]);
    assert!(
        stderr(&stranger).contains("IDENTITY_INVALID"),
        "{}",
        stderr(&stranger)
    );
    for said in [server.log(), stderr(&stranger), stderr(&refused)] {
        assert!(
            !said.contains(&token("ada")) && !said.contains("another"),
            "{said}"
        );
    }
}

/// How `serve` ends where it cannot have a data directory.
fn refused(options: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(PROGRAM)
        .args(["serve", "--data-dir", "/proc/nowhere"])
        .args(options)
        .env_remove("RALLYPOINT_CONFIG")
        .output()
        .expect("the program runs");
    (output.status.code(), stderr(&output))
}

#[test]
fn a_server_refuses_to_be_reached_by_everybody() {
    let folder = TempDir::new().expect("a directory");
    describe(folder.path(), &[READER], "");
    let config = folder.path().join("rallypoint.toml");
    let config = config.to_str().expect("UTF-8");
    let (code, said) = refused(&["--listen", "0.0.0.0:0"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("[[access]]") && said.contains("--listen-cert"),
        "{said}"
    );
    let (code, said) = refused(&["--listen", "0.0.0.0:0", "--config", config]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        !said.contains("[[access]]") && said.contains("--listen-cert"),
        "{said}"
    );
    let peers = ["--peer-listen", "0.0.0.0:0", "--peer-advertise", "host:1"];
    let (code, said) = refused(&peers);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--peer-cert"), "{said}");
    let peers = ["--peer-listen", "127.0.0.1:0", "--config", config];
    let (code, said) = refused(&peers);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--peer-cert"), "{said}");
    let both = ["--config", config, "--trusted-namespace-metadata"];
    let (code, said) = refused(&both);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--trusted-namespace-metadata"), "{said}");
}

#[test]
fn an_operator_may_say_that_something_else_sees_to_it() {
    let (code, said) = refused(&["--listen", "0.0.0.0:0", "--insecure"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        !said.contains("not safe") && said.contains("/proc/nowhere"),
        "{said}"
    );
}

#[test]
fn a_role_is_lost_although_the_targets_cannot_be_changed() {
    let folder = TempDir::new().expect("a directory");
    describe(folder.path(), &[READER], "");
    let path = folder.path().join("rallypoint.toml");
    let secret = folder.path().join("secret");
    fs::write(&secret, token("ada") + "\n").expect("written");
    let server = Standalone::with(&[Path::new("--config"), &path]);
    let file = secret.to_str().expect("UTF-8");
    let list = || server.run(&["--token-file", file, "list"]);
    assert!(list().status.success(), "{}", stderr(&list()));
    let bob = Grant {
        name: "bob",
        ..READER
    };
    let more = "[targets.more]\nurl = \"postgres://more@127.0.0.1/more\"\n";
    describe(folder.path(), &[bob], more);
    server.hang_up();
    says(&server, "targets.more is new", 1);
    says(&server, "nothing but who may do what has been changed", 1);
    assert!(!list().status.success(), "her token counts no more");
}

#[test]
fn a_target_is_closed_although_the_targets_cannot_be_changed() {
    let folder = TempDir::new().expect("a directory");
    let target = |name: &str, namespace: &str| {
        format!(
            "[targets.{name}]\nurl = \"postgres://u@127.0.0.1:1/d\"\n\
             namespaces = [\"{namespace}\"]\n"
        )
    };
    describe(folder.path(), &[READER], &target("warehouse", "etl"));
    let path = folder.path().join("rallypoint.toml");
    let secret = folder.path().join("secret");
    fs::write(&secret, token("ada") + "\n").expect("written");
    let server = Standalone::with(&[Path::new("--config"), &path]);
    let file = secret.to_str().expect("UTF-8");
    let is_open = || {
        let status = server.run(&["--token-file", file, "status"]);
        assert!(status.status.success(), "{}", stderr(&status));
        String::from_utf8_lossy(&status.stdout).contains("warehouse")
    };
    assert!(is_open());
    let more = target("warehouse", "sales") + &target("more", "etl");
    describe(folder.path(), &[READER], &more);
    server.hang_up();
    says(&server, "targets.more is new", 1);
    says(&server, "nothing but who may do what has been changed", 1);
    assert!(!is_open(), "it is not for her namespace any more");
}
