//! Stock clients of other families call every replica while owners are killed and stopped. They are
//! stricter than Rust's about frames, so what they see is what the service's users see.

use crate::harness::{cluster::Cluster, conversation::WAIT_TIMEOUT, stock_client::StockClient};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::{sleep, timeout};

/// Answers that each client gets between two faults.
const ANSWERS: u64 = 60;

#[tokio::test]
async fn stock_clients_see_no_fault_of_the_server_whatever_happens_to_the_owner() {
    let mut cluster = Cluster::start(2).await;
    let addresses: Vec<String> = (0..2)
        .map(|index| cluster.url(index).trim_start_matches("http://").to_owned())
        .collect();
    let clients = StockClient::of_each_family(&addresses);
    more_answers(&clients).await;
    for is_killed in [true, false] {
        let owner = cluster.owner().await;
        if is_killed {
            cluster.kill_9(owner);
        } else {
            cluster.terminate(owner).await;
        }
        more_answers(&clients).await;
        cluster.restart(owner);
        cluster.wait_until_ready(owner).await;
        more_answers(&clients).await;
    }
    let answers: Vec<_> = clients.into_iter().flat_map(StockClient::stop).collect();
    let mut wanted = BTreeMap::<(&str, &str), u64>::new();
    for (answer, count) in &answers {
        assert!(answer.is_allowed(), "{answer:?}");
        let wanted = wanted.entry((&answer.family, &answer.call)).or_default();
        *wanted += u64::from(answer.is_wanted()) * count;
    }
    for (call, count) in wanted {
        // That a call which has a few milliseconds is late, is likely and no promise.
        assert!(count > 0 || call.1 == "Hurried", "{call:?}: {answers:?}");
    }
}

/// Waits until every client has got more answers.
async fn more_answers(clients: &[StockClient]) {
    let count = |client: &StockClient| client.answers().values().sum::<u64>();
    let before: Vec<u64> = clients.iter().map(count).collect();
    let wait = async {
        for (client, before) in clients.iter().zip(before) {
            while count(client) < before + ANSWERS {
                sleep(Duration::from_millis(20)).await;
            }
        }
    };
    timeout(WAIT_TIMEOUT, wait)
        .await
        .expect("they are answered");
}
