//! What a command that follows something says while the server cannot be reached.

use super::{begin, code, run, signal, text};
use crate::harness::{
    conversation::WAIT_TIMEOUT, fake_server::serve, network::Network, standalone::Standalone,
    terminal::wait_for,
};
use nix::sys::signal::Signal;
use prost::Message;
use rallypoint_client::api::{GetSchedulerResponse, ReleaseSchedulerResponse, Scheduler};
use std::{
    fs,
    future::ready,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    sync::{Notify, mpsc},
    time::{sleep, timeout},
};
use tonic::{Request, Response, Status, body::Body, codegen::http, server::Grpc};
use tonic_prost::ProstCodec;
use tower::service_fn;
use uuid::Uuid;

/// Where nobody listens.
const NOWHERE: u16 = 1;

#[tokio::test(flavor = "multi_thread")]
async fn exec_says_that_the_server_cannot_be_reached_and_that_it_is_back() {
    let server = Standalone::start();
    let (_, port) = server.url.rsplit_once(':').expect("a port");
    let port = port.parse().expect("a number");
    let network = Network::to(port).await;
    let address = format!("http://127.0.0.1:{}", network.port());
    let mut exec = begin(&address, &["exec", "select pg_sleep(8)"]);
    let said = BufReader::new(exec.stderr.take().expect("stderr is piped"));
    let (lines, mut said_lines) = tokio::sync::mpsc::channel(100);
    std::thread::spawn(move || {
        let mut said = said.lines().map_while(Result::ok);
        said.all(|line| lines.blocking_send(line).is_ok())
    });
    let mut until = async |words: &str| {
        let mut lines = Vec::new();
        while !lines.iter().any(|line: &String| line.contains(words)) {
            let line = timeout(WAIT_TIMEOUT, said_lines.recv()).await;
            lines.push(
                line.expect("in time")
                    .unwrap_or_else(|| panic!("{lines:?}")),
            );
        }
        lines
    };
    until("scheduler ").await;
    // The stream is open a moment later.
    sleep(Duration::from_secs(1)).await;
    network.lead_to(NOWHERE);
    until("the server cannot be reached since 2").await;
    network.lead_to(port);
    let mut meanwhile = until("the server is back after ").await;
    // Advice stands below what it is about.
    meanwhile.retain(|line| !line.starts_with("  "));
    assert_eq!(meanwhile.len(), 1, "{meanwhile:?}");
    until("1 of 1 tasks succeeded").await;
    let output = exec.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stdout));
}

#[test]
fn a_call_that_finds_no_server_says_so_meanwhile_and_what_it_may_be_in_the_end() {
    // As a server of TLS does, which is called in plain text.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let output = run(&["list", "--server", &address, "--request-timeout", "8s"]);
    let said = text(&output.stderr);
    assert_eq!(code(&output), 1, "{said}");
    let place = format!("the server was called at {address}");
    assert!(
        said.contains(&place) && said.starts_with("the server cannot be reached since 2"),
        "{said}"
    );
    let advice = "an address begins with https:// if the server has TLS";
    let at_once = said
        .lines()
        .nth(1)
        .is_some_and(|line| line.contains(advice));
    assert!(at_once && said.matches(advice).count() == 2, "{said}");
}

#[test]
fn another_program_at_the_address_is_no_outage() {
    // A web server that speaks HTTP/1 only.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = b"HTTP/1.0 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
            (&stream).write_all(answer).ok();
            // Until the other side has hung up.
            (&stream).read_to_end(&mut Vec::new()).ok();
        }
    });
    for verb in [&["status"][..], &["exec", "select 1"], &["health"]] {
        let begun = Instant::now();
        let output = run(&[verb, &["--server", &address]].concat());
        let said = text(&output.stderr);
        assert_eq!(code(&output), 1, "{said}");
        let waited = begun.elapsed();
        assert!(waited < Duration::from_secs(20), "{waited:?}: {said}");
        // `health` asks once: it may meet the end of the connection before the answer.
        let hung_up = verb == ["health"] && said.contains("the connection breaks off");
        assert!(
            hung_up || said.contains("no Rallypoint server answers there: check --server"),
            "{said}"
        );
    }
}

/// Answers a call with this.
async fn answer<T: Message + Clone + 'static>(
    request: http::Request<Body>,
    answer: T,
) -> http::Response<Body> {
    let answered =
        service_fn(move |_: Request<()>| ready(Ok::<_, Status>(Response::new(answer.clone()))));
    let codec = ProstCodec::<T, ()>::default();
    Grpc::new(codec).unary(answered, request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_that_exec_has_opened_when_a_signal_ends_it_is_released() {
    let is_signalled = Arc::new(Notify::new());
    let (called, mut calls) = mpsc::channel(16);
    let url = serve({
        let is_signalled = is_signalled.clone();
        move |request| {
            let (is_signalled, called) = (is_signalled.clone(), called.clone());
            async move {
                let method = request.uri().path().to_owned();
                called.send(method.clone()).await.expect("the test goes on");
                let opened = Scheduler {
                    handle: Uuid::now_v7().to_string(),
                    ..Scheduler::default()
                };
                let opened = GetSchedulerResponse {
                    scheduler: Some(opened),
                    ..GetSchedulerResponse::default()
                };
                match method.rsplit('/').next() {
                    Some("GetScheduler") => {
                        is_signalled.notified().await;
                        answer(request, opened).await
                    }
                    Some("ReleaseScheduler") => {
                        answer(request, ReleaseSchedulerResponse::default()).await
                    }
                    _ => Status::unimplemented("nothing is submitted").into_http(),
                }
            }
        }
    })
    .await;
    let mut first_of = async |methods: &[&str]| {
        let called = async {
            loop {
                let method = calls.recv().await.expect("it is called");
                if methods.iter().any(|known| method.ends_with(known)) {
                    break method;
                }
            }
        };
        timeout(WAIT_TIMEOUT, called).await.expect("in time")
    };
    for _ in 0..10 {
        let mut exec = begin(&url, &["exec", "select 1"]);
        first_of(&["/GetScheduler"]).await;
        signal(&exec, Signal::SIGINT);
        is_signalled.notify_one();
        let next = first_of(&["/ExecAsync", "/ReleaseScheduler"]).await;
        let ended = exec.wait().expect("it ends");
        if next.ends_with("/ReleaseScheduler") {
            assert_eq!(ended.code(), Some(130));
            return;
        }
        // It had the answer before it saw the signal.
    }
    panic!("the answer is always the first");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_hangs_up_or_quits_does_not_wait_until_the_end_of_a_run_can_be_said() {
    let server = Standalone::start();
    let (_, port) = server.url.rsplit_once(':').expect("a port");
    let port = port.parse().expect("a number");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("jobs.toml");
    let settings = "schedule.cron = \"@yearly\"\nclaimed = true\n";
    let jobs = format!("[jobs.hangup]\n{settings}[jobs.quit]\n{settings}");
    fs::write(&file, jobs).expect("written");
    let applied = server.run(&["jobs", "apply", "-f", &file.display().to_string()]);
    assert_eq!(code(&applied), 0, "{}", text(&applied.stderr));
    for (job, sent, expected) in [
        ("hangup", Signal::SIGHUP, 129),
        ("quit", Signal::SIGQUIT, 131),
    ] {
        assert_eq!(code(&server.run(&["jobs", "run", job])), 0);
        let network = Network::to(port).await;
        let address = format!("http://127.0.0.1:{}", network.port());
        let (begun, go) = (folder.path().join(job), folder.path().join("go"));
        let script = format!(
            "echo > {}; until test -e {}; do sleep 0.02; done",
            begun.display(),
            go.display()
        );
        let command = ["jobs", "claim", job, "--", "sh", "-c", &script];
        let mut claim = begin(&address, &command);
        wait_for("the command", || begun.exists());
        network.lead_to(NOWHERE);
        fs::write(&go, "").expect("written");
        let ended = Instant::now();
        // The first may still be for the command; one that comes with it is the same.
        while claim.try_wait().expect("our own child").is_none() {
            assert!(ended.elapsed() < Duration::from_secs(60), "it never ends");
            signal(&claim, sent);
            sleep(Duration::from_millis(200)).await;
        }
        fs::remove_file(&go).expect("it was there");
        let output = claim.wait_with_output().expect("it ended");
        let said = text(&output.stderr);
        assert_eq!(code(&output), expected, "{said}");
        assert!(said.contains("nobody has acknowledged that yet"), "{said}");
    }
}
