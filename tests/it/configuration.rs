//! `rallypoint.toml`: targets from a file, read again while the server runs.

use crate::harness::{
    conversation::WAIT_TIMEOUT,
    postgres::{self, POSTGRES, database},
    process::PROGRAM,
    standalone::Standalone,
};
use rallypoint::postgres::TARGET;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// A file that describes the target `second`.
struct Described {
    folder: TempDir,
    url: String,
}

impl Described {
    fn new() -> Self {
        let url = POSTGRES.url_for(&database(TARGET), TARGET);
        let with_password = url.replacen(&format!("{TARGET}@"), &format!("{TARGET}:hunter2@"), 1);
        assert_ne!(url, with_password, "a user without a password");
        Described {
            folder: TempDir::new().expect("a directory"),
            url: with_password,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("rallypoint.toml")
    }

    /// Describes it with these keys besides its URL.
    fn write(&self, more: &str) {
        let text = format!("[targets.second]\nurl = \"{}\"\n{more}", self.url);
        fs::write(self.path(), text).expect("written");
    }
}

/// What a task on `second` is told of a setting.
fn setting(server: &Standalone, name: &str) -> String {
    let statement = format!("select current_setting('{name}') as v");
    let arguments = [
        "exec",
        "-o",
        "json",
        "--target",
        "second",
        "--result-rows",
        "1",
    ];
    let output = server.run(&[&arguments, &[&*statement][..]].concat());
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    let done: Value = serde_json::from_str(&line).expect("an event");
    let rows = done["result"]["rows_json"].as_str().unwrap_or("null");
    let rows: Value = serde_json::from_str(rows).expect("JSON");
    rows[0]["v"]
        .as_str()
        .unwrap_or_else(|| panic!("{done}"))
        .to_owned()
}

/// Waits until the log of the server says this so often.
fn says(server: &Standalone, words: &str, times: usize) {
    let begun = Instant::now();
    while server.log().matches(words).count() < times {
        assert!(
            begun.elapsed() < WAIT_TIMEOUT,
            "it never says `{words}`:\n{}",
            server.log()
        );
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_good_file_counts_from_the_next_task_on_and_a_bad_one_changes_nothing() {
    let file = Described::new();
    file.write("defaults.search_path = [\"one\"]\n");
    let path = file.path();
    let server = Standalone::with(&[Path::new("--config"), &path]);
    assert_eq!(setting(&server, "search_path"), "\"one\"");
    file.write("passwrod_file = \"hunter2\"\ndefaults.search_path = [\"bad\"]\n");
    server.hang_up();
    says(&server, "nothing of the configuration has been changed", 1);
    assert!(
        server
            .log()
            .contains("line 3: targets.second: unknown key `passwrod_file`")
    );
    assert!(server.log().contains("did you mean `password_file`?"));
    fs::write(&path, "").expect("written");
    server.hang_up();
    says(&server, "nothing of the configuration has been changed", 2);
    assert!(
        server
            .log()
            .contains("targets.second is gone: restart the server")
    );
    assert_eq!(setting(&server, "search_path"), "\"one\"");
    file.write("slots = 3\ndefaults.search_path = [\"two\"]\n");
    server.hang_up();
    says(&server, "the configuration has been read again", 1);
    assert_eq!(setting(&server, "search_path"), "\"two\"");
    let status = server.run(&["status", "-o", "json"]);
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(!status.contains("hunter2") && !server.log().contains("hunter2"));
}

#[test]
fn a_target_that_is_described_twice_is_an_error_that_names_both_places() {
    let file = Described::new();
    file.write("");
    let path = file.path();
    let target = "second=postgres://u@h/d";
    let output = Command::new(PROGRAM)
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--target",
            target,
            "--config",
        ])
        .arg(&path)
        .output()
        .expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("--target") && said.contains("targets.second"),
        "{said}"
    );
    assert!(
        said.contains("line 1") && !said.contains("hunter2"),
        "{said}"
    );
}

#[test]
fn a_target_that_is_not_there_is_away_before_a_task_needs_it() {
    let nowhere = ["--target", "nowhere=postgres://x@127.0.0.1:1/x"].map(Path::new);
    let server = Standalone::with(&nowhere);
    says(&server, "the target is unavailable target=nowhere", 1);
    let status = server.run(&["status"]).stdout;
    let status = String::from_utf8_lossy(&status).into_owned();
    let mut lines = status.lines();
    assert!(
        lines.any(|line| line.contains("nowhere") && line.contains("away")),
        "{status}"
    );
}

#[test]
fn a_target_that_goes_while_its_sessions_are_idle_is_away_before_a_task_needs_it() {
    let postgres = postgres::start(Vec::new());
    let target = format!("other={}", postgres.target_url());
    let options = ["--session-idle", "8s", "--target", &target].map(Path::new);
    let server = Standalone::with(&options);
    let done = server.run(&["exec", "--target", "other", "select 1"]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    postgres.immediate_stop();
    says(&server, "the target is unavailable target=other", 1);
}

#[test]
fn a_login_that_does_not_get_in_is_said_before_a_task_needs_it() {
    let postgres = postgres::start(Vec::new());
    let target = format!("strange={}", postgres.url_for(TARGET, "stranger"));
    let server = Standalone::with(&["--target", &target].map(Path::new));
    let warning = "the login of the target does not get in: its tasks will wait target=strange";
    says(&server, warning, 1);
}

#[test]
fn a_file_is_checked_without_a_server() {
    let file = Described::new();
    let check = || -> Output {
        let mut command = Command::new(PROGRAM);
        let output = command.arg("check-config").arg(file.path()).output();
        output.expect("the program runs")
    };
    file.write("slots = 3\n");
    let good = check();
    assert_eq!(good.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&good.stdout).contains("second"));
    file.write("slots = 0\nrolls = 1\n[targets.third]\nurl = 7\n");
    let bad = check();
    assert_eq!(bad.status.code(), Some(1));
    let said = String::from_utf8_lossy(&bad.stderr).into_owned();
    let faults = [
        "targets.second.slots: must be 1 to 10000",
        "targets.second: unknown key `rolls`: did you mean `roles`?",
        "targets.third.url: expected a string",
    ];
    for fault in faults {
        assert!(said.contains(fault), "no `{fault}` in\n{said}");
    }
}

#[test]
fn a_file_that_a_server_refuses_for_its_options_is_refused_without_one() {
    let file = Described::new();
    let path = file.path().display().to_string();
    let said = |arguments: &[&str], code: i32| {
        let output = Command::new(PROGRAM).args(arguments).output();
        let output = output.expect("the program runs");
        assert_eq!(output.status.code(), Some(code), "{arguments:?} {output:?}");
        let printed = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&printed).into_owned()
    };
    let trusted = "--trusted-namespace-metadata";
    let check = ["check-config", &path];
    let doctor = ["doctor", "--config", &path, "--database"];
    let doctor = [&doctor[..], &["postgres://x@127.0.0.1:1/x"]].concat();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--config", &path];
    let logins = "[targets.second.logins.sales]\nuser = \"sales\"\n\
                  [targets.second.watchdog]\nuser = \"guard\"\n";
    file.write(logins);
    let fault = "targets.second.logins.sales: no task is ever of this namespace";
    for command in [&serve[..], &check, &doctor] {
        let refused = said(command, 1);
        assert!(refused.contains(fault), "{command:?}: {refused}");
    }
    said(&[&check[..], &[trusted]].concat(), 0);
    let access = "[[access]]\nidentities = [\"cert:a\"]\nnamespaces = [\"*\"]\nrole = \"reader\"\n";
    file.write(access);
    for command in [&serve[..], &check, &doctor] {
        let refused = said(command, 1);
        assert!(
            refused.contains("--listen-client-ca"),
            "{command:?}: {refused}"
        );
    }
    let certificates = ["--listen-client-ca", "ca.crt"];
    said(&[&check[..], &certificates].concat(), 0);
    let both = said(&[&check[..], &certificates, &[trusted]].concat(), 2);
    assert!(both.contains("does not go with [[access]]"), "{both}");
}
