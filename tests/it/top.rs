//! `rallypoint top` on a real server and a real pseudo-terminal.

use crate::{
    harness::{network::Network, screen::Screen, standalone::Standalone, terminal::wait_for},
    http::Knowing,
};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::process::Command;

const SMALL: (u16, u16) = (80, 24);
const ENTER: &str = "\r";
const ESCAPE: &str = "\x1b";
const TAB: &str = "\t";

fn top(server: &Standalone, size: (u16, u16), view: &[&str]) -> Screen {
    let arguments = ["--server", &server.url, "top"];
    Screen::start(size, &[&arguments, view].concat(), &[])
}

fn json(server: &Standalone, arguments: &[&str]) -> Value {
    let output = server.run(&[&["--json"], arguments].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// A task of `waiter` waits for a lock; returns the process that holds it.
fn hold_up(server: &Standalone) -> String {
    assert!(
        server
            .run(&["exec", "create table held (n int)"])
            .status
            .success()
    );
    let hold = "alter table held add column m int; select pg_sleep(600)";
    server.run(&["exec", "--detach", "--name", "holder", hold]);
    wait_for("the lock is held", || {
        let task = json(server, &["get", "holder", "1"]);
        task["task"]["state"] == "TASK_STATE_RUNNING"
    });
    server.run(&[
        "exec",
        "--detach",
        "--name",
        "waiter",
        "select count(*) from held",
    ]);
    let mut pid = String::new();
    wait_for("the lock is waited for", || {
        let explained = json(server, &["explain", "waiter", "1"]);
        pid = explained["blockers"][0]["session"]["backend_pid"].to_string();
        pid != "null"
    });
    pid
}

#[test]
fn from_the_overview_to_a_lock_and_to_an_error_which_is_retried() {
    let server = Standalone::start();
    server.run(&["exec", "--name", "broken", "select 1/0"]);
    let pid = hold_up(&server);
    let mut top = top(&server, SMALL, &[]);

    // What is held up comes first, and the cursor is on it.
    top.wait_for(&format!("Task 1 waits for a lock that process {pid} holds"));
    top.wait_for("Task 1: division by zero");
    top.press(ENTER);
    top.wait_for(&format!("Process {pid} holds the lock"));
    top.press(ESCAPE);
    top.wait_for("› held up");
    top.press("j");
    top.wait_for("› error");
    top.press(ENTER);
    top.wait_for("task 1 of broken");
    top.wait_for("Error  22012");
    assert!(top.is_coloured());

    top.press("r");
    top.wait_for("Retry task 1 of …");
    top.press(ENTER);
    top.wait_for("nothing was done");
    let retried = || json(&server, &["get", "broken", "1"])["task"]["retried_as"].clone();
    assert_eq!(retried(), Value::Null);
    top.press("r");
    top.wait_for("[ Retry task ]");
    top.press(&format!("{TAB}{ENTER}"));
    top.wait_for("task 1 is retried as task 2");
    top.wait_for("task 2 of broken");
    assert_eq!(retried(), 2);

    top.press("q");
    assert_eq!(top.wait().code(), Some(0));
    assert!(top.is_given_back());
}

#[test]
fn what_a_task_says_does_nothing_to_the_terminal() {
    let server = Standalone::start();
    let hostile = "do $$ begin raise exception '\x1b]0;owned\x07\x1b[2J\u{202e}bad'; end $$";
    // As it is written here, and as the error says it.
    let hostile = format!("{hostile} -- \x1b]0;owned\x07");
    server.run(&["exec", "--name", "hostile", &hostile]);
    let mut top = top(&server, SMALL, &[]);
    top.wait_for("Task 1:");
    top.wait_for("› error");
    top.press(ENTER);
    top.wait_for("Error  P0001");
    top.wait_for("raise exception");
    for control in ["\x1b]0", "\x07", "\u{202e}", "\u{9b}"] {
        assert!(!top.written().contains(control), "{control:?}");
    }
}

#[test]
fn every_view_is_shown_on_a_wide_terminal_without_colours() {
    let server = Standalone::start();
    server.run(&[
        "exec", "--name", "nightly", "--order", "100", "select 1", "select 2",
    ]);
    server.run(&["resource", "create", "orders"]);
    let arguments = ["--server", &server.url, "top"];
    let mut top = Screen::start((160, 50), &arguments, &[("NO_COLOR", "1")]);
    top.wait_for("Latest schedulers");
    for (keys, shown) in [
        (":sched\r", "schedulers[1]"),
        ("\r", "scheduler nightly"),
        ("t", "FROM THE FIRST START TO NOW"),
        ("/succeeded\r", "</succeeded>"),
        (":jobs\r", "No job is defined in this namespace"),
        (":res\t\r", "resources[1]"),
        ("\r", "Nobody holds it."),
        ("5", "the databases that tasks run on"),
        ("?", "pauses or resumes all targets"),
    ] {
        top.press(keys);
        top.wait_for(shown);
    }
    top.press("x2");
    top.wait_for("schedulers[1]");
    assert!(!top.is_coloured());
}

#[test]
fn the_terminal_is_given_back_however_it_ends() {
    let server = Standalone::start();
    let endings: [(&dyn Fn(&mut Screen), i32); 6] = [
        (&|top| top.press("q"), 0),
        (&|top| top.press("\x03"), 0),
        (&|top| top.signal(Signal::SIGTERM), 143),
        (&|top| top.signal(Signal::SIGHUP), 129),
        (&|top| top.signal(Signal::SIGQUIT), 131),
        (&|top| top.signal(Signal::SIGINT), 130),
    ];
    for (end, code) in endings {
        let mut top = top(&server, SMALL, &["system"]);
        top.wait_for("the databases that tasks run on");
        assert!(top.is_taken() && !top.is_given_back());
        end(&mut top);
        assert_eq!(top.wait().code(), Some(code));
        wait_for("what it wrote at last is read", || !top.is_taken());
        assert!(top.is_given_back());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_is_said_to_be_and_seen_again_when_it_is_back() {
    let server = Standalone::start();
    server.run(&["exec", "--name", "nightly", "select 1"]);
    let port = server
        .url
        .rsplit(':')
        .next()
        .and_then(|port| port.parse().ok());
    let port = port.expect("a port");
    let network = Network::to(port).await;
    let url = format!("http://127.0.0.1:{}", network.port());
    let top = Screen::start(SMALL, &["--server", &url, "top", "schedulers"], &[]);
    top.wait_for("nightly");
    // Nobody listens there.
    network.lead_to(1);
    top.wait_for("● away, trying again");
    top.wait_for("nightly");
    network.lead_to(port);
    top.wait_for("the server is back");
    top.wait_for("● live");
}

#[test]
fn a_reader_sees_no_actions_and_an_operator_does() {
    let knowing = Knowing::start();
    let url = &knowing.server.url;
    let token = |role: &str| format!("{role}-token");
    let opened = Command::new(crate::harness::process::PROGRAM)
        .args(["--server", url, "exec", "--name", "nightly", "select 1"])
        .env("RALLYPOINT_AUTH_TOKEN", token("operator"))
        .status();
    assert!(opened.expect("the program runs").success());
    for (role, is_offered) in [("reader", false), ("operator", true)] {
        let arguments = ["--server", url, "top", "schedulers"];
        let secret = token(role);
        let environment = [("RALLYPOINT_AUTH_TOKEN", secret.as_str())];
        let mut top = Screen::start((100, 24), &arguments, &environment);
        top.wait_for("nightly");
        top.wait_for(&format!("default {role}"));
        assert_eq!(
            top.text().contains("<p>Pause"),
            is_offered,
            "{}",
            top.text()
        );
        top.press("p");
        top.press(":overvie");
        // The key before has been looked at when these have.
        if is_offered {
            top.wait_for("[ Leave it ]");
        } else {
            top.wait_for(":overview");
        }
    }
}

#[test]
fn without_a_terminal_it_says_so_and_what_there_is_for_programs() {
    let program = |arguments: &[&str]| {
        let output = Command::new(crate::harness::process::PROGRAM)
            .args(arguments)
            .output()
            .expect("the program runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (code, said) = program(&["top"]);
    assert_eq!(code, Some(2));
    assert!(
        said.contains("needs a terminal") && said.contains("status --watch"),
        "{said}"
    );
    let (code, said) = program(&["top", "nowhere"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("there is no command nowhere"), "{said}");
    let mut dumb = Screen::start(SMALL, &["top"], &[("TERM", "dumb")]);
    assert_eq!(dumb.wait().code(), Some(2));
    dumb.wait_for("cannot draw on this terminal");
    let mut away = Screen::start(SMALL, &["--server", "127.0.0.1:1", "top"], &[]);
    assert_eq!(away.wait().code(), Some(1));
    away.wait_for("cannot reach the server at 127.0.0.1:1");
    assert!(!away.written().contains("\x1b["), "{}", away.written());
}

#[test]
fn a_name_that_nobody_has_is_refused_before_the_screen_is_taken() {
    let server = Standalone::start();
    for (view, next) in [
        (["job", "nosuch"], "rallypoint jobs list"),
        (["scheduler", "nosuch"], "rallypoint list"),
        (["resource", "nosuch"], "rallypoint resource list"),
        (["task", "nosuch/1"], "rallypoint list"),
    ] {
        let mut screen = top(&server, SMALL, &view);
        screen.wait_for("nosuch");
        screen.wait_for(next);
        assert_eq!(screen.wait().code(), Some(1), "{view:?}");
    }
}
