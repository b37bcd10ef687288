//! A replica is ready while it serves callers: itself, or through an owner that it can reach.

use super::replica_on;
use crate::harness::{
    conversation::WAIT_TIMEOUT,
    postgres,
    process::{PROGRAM, Process, free_address},
};
use rallypoint::postgres::TARGET;
use rallypoint_client::Client;
use std::{
    fs::{self, File},
    net::SocketAddr,
    process::Command,
    time::Duration,
};
use tokio::time::{sleep, timeout};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

/// How often a replica is asked.
const ASKED: usize = 30;
const POLL_INTERVAL: Duration = Duration::from_millis(100);

async fn status(address: SocketAddr) -> Option<ServingStatus> {
    let channel = Client::connect_lazy(&address.to_string()).ok()?.channel();
    let mut client = HealthClient::new(channel);
    let answer = client.check(HealthCheckRequest::default()).await.ok()?;
    Some(answer.into_inner().status())
}

async fn until_serving(address: SocketAddr) {
    let wait = async {
        while status(address).await != Some(ServingStatus::Serving) {
            sleep(POLL_INTERVAL).await;
        }
    };
    timeout(WAIT_TIMEOUT, wait).await.expect("it gets ready");
}

/// Waits until a replica knows that there are two, and who owns the shard.
async fn until_it_knows_the_owner(address: SocketAddr) {
    let client = Client::connect_lazy(&address.to_string()).expect("an address");
    let knows = async || {
        let status = client.status().await;
        status.is_ok_and(|status| {
            status.replicas.len() == 2 && status.replicas.iter().any(|replica| replica.owner)
        })
    };
    let wait = async {
        while !knows().await {
            sleep(POLL_INTERVAL).await;
        }
    };
    timeout(WAIT_TIMEOUT, wait).await.expect("it is told");
}

#[tokio::test]
async fn a_replica_that_cannot_reach_the_owner_is_not_ready() {
    let postgres = postgres::durable(Vec::new());
    // The owner can be reached where it listens, and says that it is elsewhere.
    let nowhere = free_address();
    let replica = |name: &str, advertise: Option<SocketAddr>| {
        let mut more = vec![format!("--target={TARGET}={}", postgres.target_url())];
        more.extend(advertise.map(|address| format!("--peer-advertise={address}")));
        let (address, mut process) = replica_on(&postgres.coordination_url(), name, &more);
        process.start();
        (address, process)
    };
    let (owner, _running) = replica("r0", Some(nowhere));
    until_serving(owner).await;
    let (standby, _running_too) = replica("r1", None);
    until_it_knows_the_owner(standby).await;
    for _ in 0..ASKED {
        assert_eq!(status(standby).await, Some(ServingStatus::NotServing));
        sleep(POLL_INTERVAL).await;
    }
    assert_eq!(status(owner).await, Some(ServingStatus::Serving));
    // It does not pass off what it does not know for nothing.
    assert!(silent(standby).await.contains(&"owner".to_owned()));
    assert!(!silent(standby).await.contains(&"coordinator".to_owned()));
    assert!(!silent(owner).await.contains(&"owner".to_owned()));
}

/// What does not answer, as this replica sees it.
async fn silent(address: SocketAddr) -> Vec<String> {
    let client = Client::connect_lazy(&address.to_string()).expect("an address");
    client.status().await.expect("a status").unreachable
}

#[tokio::test]
async fn without_the_coordination_database_nobody_is_ready() {
    let postgres = postgres::durable(Vec::new());
    let replica = |name: &str| {
        let (address, mut process) = replica_on(&postgres.coordination_url(), name, &[]);
        process.start();
        (address, process)
    };
    let (owner, _owning) = replica("a");
    until_serving(owner).await;
    let (standby, _running_too) = replica("b");
    until_serving(standby).await;
    postgres.immediate_stop();
    // Neither has anything to write.
    let none_serves = async {
        for address in [owner, standby] {
            while status(address).await != Some(ServingStatus::NotServing) {
                sleep(POLL_INTERVAL).await;
            }
        }
    };
    timeout(WAIT_TIMEOUT, none_serves)
        .await
        .expect("they say so");
    postgres.restart().expect("it starts again");
    until_serving(owner).await;
    until_serving(standby).await;
}

#[tokio::test]
async fn a_name_is_taken_over_from_a_server_that_has_ended_and_from_no_other() {
    let postgres = postgres::durable(Vec::new());
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let replica = || {
        let address = free_address();
        let options = [
            format!("--listen={address}"),
            "--replica-name=a".to_owned(),
            // The test would time out before it ends.
            "--lease=60".to_owned(),
            format!("--database={}", postgres.coordination_url()),
        ];
        let mut process = Process::serve(options);
        process.command().stderr(File::create(&log).expect("a log"));
        process.start();
        (address, process)
    };
    let (first, mut running) = replica();
    until_serving(first).await;
    let (_, mut second) = replica();
    let wait = async {
        while !fs::read_to_string(&log).is_ok_and(|log| log.contains("--replica-name")) {
            sleep(POLL_INTERVAL).await;
        }
    };
    timeout(WAIT_TIMEOUT, wait).await.expect("it says so");
    assert_eq!(status(first).await, Some(ServingStatus::Serving));
    second.kill();
    running.kill();
    let (third, _restarted) = replica();
    until_serving(third).await;
}

#[tokio::test]
async fn the_log_says_that_the_database_is_back() {
    let postgres = postgres::durable(Vec::new());
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let (address, mut process) = replica_on(&postgres.coordination_url(), "a", &[]);
    process.command().stderr(File::create(&log).expect("a log"));
    process.start();
    until_serving(address).await;
    let said = |words: &str| {
        let log = fs::read_to_string(&log).expect("a log");
        log.matches(words).count()
    };
    let says = async |words: &str| {
        let wait = async {
            while said(words) == 0 {
                sleep(POLL_INTERVAL).await;
            }
        };
        timeout(WAIT_TIMEOUT, wait).await.expect(words);
    };
    postgres.immediate_stop();
    says("heartbeat failed").await;
    let back = "the coordination database answers again";
    assert_eq!(said(back), 0);
    postgres.restart().expect("it is back");
    says(back).await;
}

#[tokio::test]
async fn a_name_that_a_standby_has_is_pointed_out_to_the_next_of_that_name() {
    let postgres = postgres::durable(Vec::new());
    let folder = tempfile::tempdir().expect("a folder");
    let replica = |name: &str, log: &str| {
        let (address, mut process) = replica_on(&postgres.coordination_url(), name, &[]);
        let log = folder.path().join(log);
        process.command().stderr(File::create(&log).expect("a log"));
        process.start();
        (address, process, log)
    };
    let (owner, _owning, _) = replica("a", "owner");
    until_serving(owner).await;
    let (standby, _second, first) = replica("b", "first");
    until_serving(standby).await;
    let (_, _named_alike, second) = replica("b", "second");
    let warned = |log| fs::read_to_string(log).is_ok_and(|log| log.contains("--replica-name"));
    let wait = async {
        while !warned(&second) {
            sleep(POLL_INTERVAL).await;
        }
    };
    timeout(WAIT_TIMEOUT, wait).await.expect("it says so");
    assert!(!warned(&first), "the younger one is told");
}

#[tokio::test]
async fn a_server_that_cannot_have_others_says_why_it_is_not_ready() {
    let postgres = postgres::durable(Vec::new());
    let folder = tempfile::tempdir().expect("a folder");
    let replica = |name: &str| {
        let address = free_address();
        let options = [
            format!("--listen={address}"),
            format!("--replica-name={name}"),
            format!("--database={}", postgres.coordination_url()),
        ];
        let log = folder.path().join(name);
        let mut process = Process::serve(options);
        process.command().stderr(File::create(&log).expect("a log"));
        process.start();
        (address, process, log)
    };
    let (owner, _running, _) = replica("a");
    until_serving(owner).await;
    let (standby, _running_too, log) = replica("b");
    let wait = async {
        while !fs::read_to_string(&log).is_ok_and(|log| log.contains("--peer-listen")) {
            sleep(POLL_INTERVAL).await;
        }
    };
    timeout(WAIT_TIMEOUT, wait).await.expect("it says so");
    let address = standby.to_string();
    let mut health = Command::new(PROGRAM);
    let asked = health.args(["--server", &address, "health"]).output();
    let said = asked.expect("the program runs").stderr;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("stands by for another server"), "{said}");
    assert!(said.contains("  next: its log says which"), "{said}");
}
