//! How a server starts and keeps going when its database is not there, and what it says meanwhile.

use crate::harness::{
    conversation::WAIT_TIMEOUT,
    postgres::durable,
    process::{PROGRAM, Process, free_address},
    standalone::Standalone,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rallypoint::postgres::PrivatePostgres;
use rallypoint_client::{Client, api};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};
use tonic::Code;

/// A server process on a database, and its log.
struct Started {
    process: Process,
    address: SocketAddr,
    folder: TempDir,
}

impl Started {
    fn on(database: &str, name: &str) -> Started {
        let (address, folder) = (free_address(), TempDir::new().expect("a directory"));
        let listen = address.to_string();
        let options = [
            "--listen",
            &listen,
            "--database",
            database,
            "--replica-name",
            name,
        ];
        let mut process = Process::serve(options);
        let log = File::create(folder.path().join("log")).expect("a log file");
        process.command().stderr(log);
        process.start();
        Started {
            process,
            address,
            folder,
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).expect("a log")
    }

    async fn says(&mut self, words: &str) {
        let wait = async {
            while !self.log().contains(words) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let said = timeout(WAIT_TIMEOUT, wait).await;
        assert!(said.is_ok(), "it never says `{words}`:\n{}", self.log());
    }

    fn is_ready(&self) -> bool {
        let url = format!("http://{}", self.address);
        let asked = Command::new(PROGRAM)
            .args(["--server", &url, "health"])
            .output();
        asked.expect("the program runs").status.success()
    }

    /// What a caller gets that does not try again.
    async fn call(&self) -> rallypoint_client::Result<api::ListSchedulersResponse> {
        Client::connect_lazy(&format!("http://{}", self.address))
            .expect("a URL")
            .with_retry_timeout(Duration::ZERO)
            .schedulers(api::ListSchedulersRequest::default())
            .await
    }

    async fn exit_code(&mut self) -> Option<i32> {
        let wait = async {
            loop {
                match self.process.exited() {
                    Some(status) => return status.code(),
                    None => sleep(Duration::from_millis(20)).await,
                }
            }
        };
        timeout(WAIT_TIMEOUT, wait).await.expect("it ends in time")
    }
}

fn postgres() -> PrivatePostgres {
    durable(Vec::new())
}

#[tokio::test]
async fn a_server_started_during_an_outage_waits_and_serves_once_the_database_is_there() {
    let postgres = postgres();
    postgres.stop();
    let mut server = Started::on(&postgres.coordination_url(), "r0");
    server.says("waiting for the coordination database").await;
    let refused = server.call().await.expect_err("not yet");
    assert_eq!(refused.code, Code::Unavailable, "{refused}");
    let caller = Client::connect_lazy(&format!("http://{}", server.address)).expect("a URL");
    let unknown = caller.identity().await.expect_err("nobody is known yet");
    assert_eq!(unknown.code, Code::Unavailable, "{unknown}");
    assert!(!server.is_ready());
    assert!(!server.log().contains("listening on"), "{}", server.log());
    assert!(server.log().contains(".s.PGSQL."), "{}", server.log());
    server.says("`rallypoint doctor --database URL`").await;
    postgres.restart().expect("started");
    server.says("listening on").await;
    let wait = async {
        while server.call().await.is_err() || !server.is_ready() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(WAIT_TIMEOUT, wait)
        .await
        .expect("it serves in time");
}

#[tokio::test]
async fn a_server_that_waits_for_its_database_can_be_stopped() {
    let postgres = postgres();
    postgres.stop();
    let mut server = Started::on(&postgres.coordination_url(), "r0");
    server.says("waiting for the coordination database").await;
    server.process.signal(Signal::SIGTERM);
    assert_eq!(server.exit_code().await, Some(0));
}

#[tokio::test]
async fn a_server_whose_database_says_nothing_answers_and_can_be_stopped() {
    // It takes connections, and never a word.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let url = format!("postgres://rallypoint@127.0.0.1:{port}/rallypoint");
    let mut server = Started::on(&url, "r0");
    server.says("opening the coordination database").await;
    let refused = server.call().await.expect_err("not yet");
    assert_eq!(refused.code, Code::Unavailable, "{refused}");
    server.process.signal(Signal::SIGTERM);
    assert_eq!(server.exit_code().await, Some(0));
}

#[test]
fn a_migration_waits_for_its_database_where_it_is_told_to() {
    let postgres = postgres();
    postgres.stop();
    let url = postgres.coordination_url();
    let mut waits = Command::new(PROGRAM)
        .args(["migrate", "--wait", "10m", "--database", &url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let said = BufReader::new(waits.stderr.take().expect("stderr is piped"));
    let mut lines = said.lines().map(|line| line.expect("text"));
    let line = lines.next().expect("a line");
    assert!(line.starts_with("waiting for the coordination"), "{line}");
    postgres.restart().expect("started");
    let output = waits.wait_with_output().expect("it ends");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed, "the schema is up to date\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_server_without_a_name_has_that_of_its_host() {
    let (postgres, address) = (postgres(), free_address().to_string());
    let database = postgres.coordination_url();
    let mut server = Process::serve(["--listen", &address, "--database", &database]);
    server.command().env("HOSTNAME", "elsewhere");
    server.start();
    let asked = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        let command = command.args(["--server", &address]).args(arguments);
        command.output().expect("the program runs")
    };
    let health = asked(&["health", "--wait", "60s"]);
    assert!(health.status.success(), "{}", server.log_tail());
    let status = asked(&["status", "--json"]).stdout;
    let status: serde_json::Value = serde_json::from_slice(&status).expect("a document");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux");
    assert_eq!(status["replicas"][0]["name"], host.trim(), "{status}");
}

/// The port of something that answers whatever it is asked as a web server does.
fn web_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
            (&stream).write_all(answer).ok();
            // Until the other side has hung up.
            (&stream).read_to_end(&mut Vec::new()).ok();
        }
    });
    port
}

#[tokio::test]
async fn what_waiting_cannot_mend_ends_a_server_at_once() {
    let postgres = postgres();
    let nobody = postgres.url_for("rallypoint", "nobody_of_this_name");
    let nowhere = postgres.url_for("no_such_database", "rallypoint");
    let plain = postgres.coordination_url();
    let apart = if plain.contains('?') { '&' } else { '?' };
    let without_tls = format!("{plain}{apart}sslmode=require");
    // As a server says that is too old for a setting with which sessions begin.
    let too_old = format!("{plain}{apart}options=-c%20setting_of_tomorrow%3D1");
    let other = format!("postgres://u@127.0.0.1:{}/d", web_server());
    for (url, words) in [
        (other, "what answers there is no Postgres"),
        (nobody, "nobody_of_this_name"),
        (nowhere, "no_such_database"),
        (without_tls, "TLS"),
        (too_old, "use PostgreSQL 14 or later"),
    ] {
        let mut server = Started::on(&url, "r0");
        assert_eq!(server.exit_code().await, Some(1), "{}", server.log());
        assert!(server.log().contains(words), "{}", server.log());
        assert!(!server.log().contains("listening on"), "{}", server.log());
    }
}

#[tokio::test]
async fn a_second_server_without_a_peer_port_says_why_it_serves_nobody() {
    let postgres = postgres();
    let mut first = Started::on(&postgres.coordination_url(), "r0");
    first.says("this replica owns the shard").await;
    let mut second = Started::on(&postgres.coordination_url(), "r1");
    second.says("this one has no --peer-listen").await;
    assert!(!second.is_ready());
    assert!(!first.log().contains("--peer-listen"), "{}", first.log());
}

#[tokio::test]
async fn a_private_postgres_that_is_killed_is_started_again() {
    let server = Standalone::start();
    let before = server.postmaster();
    kill(Pid::from_raw(before), Signal::SIGKILL).expect("it runs");
    let wait = async {
        while server.postmaster() == before {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(WAIT_TIMEOUT, wait)
        .await
        .expect("another one in time");
    let ran = server.run(&["exec", "select 1"]);
    assert!(ran.status.success(), "{ran:?}");
}

#[test]
fn a_target_whose_url_cannot_be_obeyed_ends_the_start_and_shows_no_password() {
    for (url, why) in [
        ("postgres://u:secret@h/d?sslmode=on", "`sslmode` is"),
        (
            "postgres://u:secret@h/d?passwrod=secret",
            "`passwrod` is not known",
        ),
        ("postgres://:secret@h/d", "names no user"),
        ("postgres:///d?password=secret", "names no host"),
    ] {
        let target = format!("app={url}");
        let database = "postgres://nobody@127.0.0.1:1/none";
        let output = Command::new(PROGRAM)
            .args(["serve", "--listen", "127.0.0.1:0", "--database", database])
            .args(["--target", &target])
            .output()
            .expect("the program runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{said}");
        assert!(
            said.contains("target app") && !said.contains("secret"),
            "{said}"
        );
    }
}

#[test]
fn a_first_start_warns_of_nothing() {
    let log = Standalone::start().log();
    assert!(!log.contains(" WARN "), "{log}");
}

#[test]
fn a_signal_to_the_whole_group_lets_tasks_end() {
    let mut server = Standalone::in_own_group();
    let once = ["exec", "--detach", "--delivery", "at-most-once"];
    let handle = server.run(&[&once[..], &["select pg_sleep(5)"]].concat());
    let handle = String::from_utf8_lossy(&handle.stdout).trim().to_owned();
    let running = || server.run(&["status", "--executions", "-o", "json"]).stdout;
    while !String::from_utf8_lossy(&running()).contains("RUNNING") {
        thread::sleep(Duration::from_millis(20));
    }
    server.signal_group(Signal::SIGINT);
    assert!(server.ended().success());
    let log = server.log();
    for trouble in [" WARN ", " ERROR "] {
        assert!(!log.contains(trouble), "{log}");
    }
    server.start_again();
    let tasks = server.run(&["tasks", &handle]);
    let tasks = String::from_utf8_lossy(&tasks.stdout);
    assert!(tasks.contains("succeeded"), "{tasks}");
}

#[test]
fn a_hangup_without_a_configuration_file_is_only_noted() {
    let server = Standalone::start();
    server.hang_up();
    let begun = Instant::now();
    while !server.log().contains("nothing to read again") {
        assert!(begun.elapsed() < WAIT_TIMEOUT, "{}", server.log());
        thread::sleep(Duration::from_millis(20));
    }
    assert!(server.run(&["health"]).status.success());
}

#[test]
fn a_second_start_tells_nothing_of_what_is_there_already() {
    let mut server = Standalone::in_own_group();
    server.signal_group(Signal::SIGTERM);
    assert!(server.ended().success());
    server.start_again();
    let log = server.log();
    assert!(!log.contains("already exists"), "{log}");
}
