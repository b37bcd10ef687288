//! An owner that does not reach the coordination database, while others do.

use super::replica_on;
use crate::harness::{
    conversation::WAIT_TIMEOUT,
    network::Network,
    postgres::durable,
    process::{Process, free_address},
    work::noop,
};
use rallypoint::postgres::{COORDINATION, TARGET};
use rallypoint_client::{
    Client,
    api::{Execution, SchedulerSettings, until},
};
use std::{net::SocketAddr, time::Duration};
use tokio::time::{sleep, timeout};

/// Where nobody listens.
const NOWHERE: u16 = 1;

/// A server that reaches its coordination database by one port and its target by another one.
fn replica(name: &str, port: u16, target: u16) -> (SocketAddr, Process) {
    let url = |name, port| format!("postgres://{name}@127.0.0.1:{port}/{name}?sslmode=disable");
    let target = format!("--target={TARGET}={}", url(TARGET, target));
    let (address, mut process) = replica_on(&url(COORDINATION, port), name, &[target]);
    process.start();
    (address, process)
}

/// Waits until a replica knows of so many, and says who the owner is.
async fn owner(client: &Client, replicas: usize, name: &str) {
    let wait = async {
        loop {
            let known = client.status().await.map(|status| status.replicas);
            let is_it = known.is_ok_and(|known| {
                known.len() == replicas && known.iter().any(|one| one.owner && one.name == name)
            });
            if is_it {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(WAIT_TIMEOUT, wait).await.expect("the owner");
}

#[tokio::test]
async fn a_stream_goes_on_at_an_owner_that_was_cut_off_and_replaced() {
    let port = free_address().port();
    let _postgres = durable(vec![
        ("listen_addresses".to_owned(), "127.0.0.1".to_owned()),
        ("port".to_owned(), port.to_string()),
    ]);
    let network = Network::to(port).await;
    let (first, _first) = replica("first", network.port(), port);
    let client = |address: SocketAddr| {
        let client = Client::connect_lazy(&format!("http://{address}")).expect("a URL");
        client.with_retry_timeout(WAIT_TIMEOUT)
    };
    let here = client(first);
    owner(&here, 1, "first").await;
    let (second, _second) = replica("second", port, port);
    let there = client(second);
    owner(&there, 2, "first").await;
    let opened = here.open(SchedulerSettings::default()).await;
    let scheduler = opened.expect("opened");
    let forever = Some(until::Kind::Forever(()));
    let mut stream = scheduler.synchronize(0, forever).await.expect("a stream");

    // It has to know the other one by then.
    let known = async {
        let is_second = |row: &Execution| row.replica == "second";
        while !(here.executions().await).is_ok_and(|all| all.executions.iter().any(is_second)) {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(WAIT_TIMEOUT, known).await.expect("two replicas");
    network.lead_to(NOWHERE);
    owner(&there, 2, "second").await;
    let same = there.scheduler(scheduler.handle());
    same.exec(vec![noop().into()]).await.expect("submitted");
    let events = timeout(WAIT_TIMEOUT, stream.next()).await;
    let events = events.expect("in time").expect("no error");
    assert_eq!(events.map(|events| events.len()), Some(1));
    // It takes calls again, through its successor.
    scheduler.describe().await.expect("described");
}
