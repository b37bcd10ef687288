//! An owner that does not reach the coordination database, while others do.

use super::replica_on;
use crate::harness::{
    conversation::WAIT_TIMEOUT,
    network::Network,
    postgres::{connect, durable, value},
    process::{Process, free_address},
    work::noop,
};
use rallypoint::postgres::{COORDINATION, PrivatePostgres, TARGET};
use rallypoint_client::{
    Client,
    api::{Execution, SchedulerSettings, until},
};
use sqlx::{Executor, PgConnection};
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

/// Two servers that know each other. The first one owns the shard.
struct Two {
    _first: Process,
    second: Process,
    here: Client,
    there: Client,
    /// By which the first one reaches its coordination database.
    network: Network,
    /// Of the Postgres.
    port: u16,
    _postgres: PrivatePostgres,
}

async fn two() -> Two {
    let port = free_address().port();
    let postgres = durable(vec![
        ("listen_addresses".to_owned(), "127.0.0.1".to_owned()),
        ("port".to_owned(), port.to_string()),
    ]);
    let network = Network::to(port).await;
    let (address, first) = replica("first", network.port(), port);
    let client = |address: SocketAddr| {
        let client = Client::connect_lazy(&format!("http://{address}")).expect("a URL");
        client.with_retry_timeout(WAIT_TIMEOUT)
    };
    let here = client(address);
    owner(&here, 1, "first").await;
    let (address, second) = replica("second", port, port);
    let there = client(address);
    owner(&there, 2, "first").await;
    let known = async {
        let is_second = |row: &Execution| row.replica == "second";
        while !(here.executions().await).is_ok_and(|all| all.executions.iter().any(is_second)) {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(WAIT_TIMEOUT, known).await.expect("two replicas");
    Two {
        _first: first,
        second,
        here,
        there,
        network,
        port,
        _postgres: postgres,
    }
}

impl Two {
    /// Cuts the first one off until it goes by what the second one says, which owns the shard then.
    async fn replace_the_first(&self) {
        let opened = self.here.open(SchedulerSettings::default()).await;
        let scheduler = opened.expect("opened");
        let forever = Some(until::Kind::Forever(()));
        let mut stream = scheduler.synchronize(0, forever).await.expect("a stream");
        self.network.lead_to(NOWHERE);
        owner(&self.there, 2, "second").await;
        let same = self.there.scheduler(scheduler.handle());
        same.exec(vec![noop().into()]).await.expect("submitted");
        let events = timeout(WAIT_TIMEOUT, stream.next()).await;
        let events = events.expect("in time").expect("no error");
        assert_eq!(events.map(|events| events.len()), Some(1));
        // It takes calls again, through its successor.
        scheduler.describe().await.expect("described");
    }
}

#[tokio::test]
async fn a_stream_goes_on_at_an_owner_that_was_cut_off_and_replaced() {
    two().await.replace_the_first().await;
}

async fn epoch(journal: &mut PgConnection) -> i64 {
    let epoch = value(journal, "select epoch::text from shard").await;
    epoch.parse().expect("an epoch")
}

#[tokio::test]
async fn an_epoch_of_which_only_its_owner_has_told_is_not_given_again() {
    let mut two = two().await;
    two.replace_the_first().await;
    let url = format!(
        "postgres://{COORDINATION}@127.0.0.1:{}/{COORDINATION}?sslmode=disable",
        two.port
    );
    let mut journal = connect(&url.parse().expect("a URL")).await;
    let lost = epoch(&mut journal).await;
    two.second.kill();
    // A standby is promoted that knows nothing of that ownership.
    let failed_over = "begin;
        delete from batch b using shard s where b.epoch = s.epoch;
        update shard set epoch = epoch - 1;
        update replica set epoch = 0;
        update lease set owner = null, owner_id = null, handover_to = null;
        commit";
    journal.execute(failed_over).await.expect("failed over");
    two.network.lead_to(two.port);
    let begun = async {
        loop {
            let present = epoch(&mut journal).await;
            if present >= lost {
                return present;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    let begun = timeout(WAIT_TIMEOUT, begun).await.expect("an owner");
    assert!(begun > lost, "{begun} after {lost}");
}
