//! Abuse of HTTP/2 (streams that are reset at once, headers without end, answers that nobody has
//! room for, sockets that say nothing): others are served meanwhile, and memory is bounded.

#[path = "../../support/http2_abuse.rs"]
mod http2_abuse;

use super::half_sent::peak_kib;
use crate::harness::{
    cluster::Cluster,
    conversation::{Conversation, WAIT_TIMEOUT},
    work::noop,
};
use rallypoint::server::raise_descriptor_limit;
use rallypoint_client::api::SchedulerSettings;
use std::time::{Duration, Instant};
use tokio::{
    io::AsyncReadExt,
    net::TcpStream,
    time::{sleep, timeout},
};

/// More than may be opening at a time.
const SILENT: usize = 1_500;
/// A socket that says nothing is closed after this time even if it is in nobody's way.
const OPENING_TIMEOUT: Duration = Duration::from_secs(10);
/// What the server may need with all of that.
const MAX_KIB: u64 = 400 << 10;

/// Others are served: each round on a new connection and on one that stays. Returns how long the
/// slowest round took.
async fn served(cluster: &Cluster, scheduler: &Conversation) -> Duration {
    let mut slowest = Duration::ZERO;
    for _ in 0..50 {
        let begun = Instant::now();
        let round = async {
            let fresh = cluster.client(0);
            let listed = fresh.schedulers(Default::default()).await;
            listed.expect("a new connection");
            scheduler.submit([noop()]).await;
        };
        timeout(WAIT_TIMEOUT, round).await.expect("in time");
        slowest = slowest.max(begun.elapsed());
        sleep(Duration::from_millis(20)).await;
    }
    slowest
}

#[tokio::test]
async fn others_are_served_whatever_is_done_to_the_protocol() {
    raise_descriptor_limit();
    let cluster = Cluster::start(1).await;
    let address = cluster.url(0).trim_start_matches("http://").to_owned();
    let other = cluster.client(0);
    let scheduler = cluster.open(&other, SchedulerSettings::default()).await;
    let calm = served(&cluster, &scheduler).await;
    let mut abuse = http2_abuse::begin(&address);
    let first = Instant::now();
    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(TcpStream::connect(&address).await.expect("it listens"));
    }
    let connected = first.elapsed();
    // The oldest of them make room for the others.
    let mut byte = [0];
    let closed = timeout(WAIT_TIMEOUT, silent[0].read(&mut byte)).await;
    let closed = closed.expect("it is closed");
    assert!(!matches!(closed, Ok(1..)), "{closed:?}");
    let is_early = first.elapsed() < OPENING_TIMEOUT;
    let is_slow = connected > OPENING_TIMEOUT / 2;
    assert!(is_early || is_slow, "it was in nobody's way");
    let meanwhile = served(&cluster, &scheduler).await;
    // For whoever looks; whether it is fast is no question to a test on a machine with others.
    println!("the slowest of 50 calls: {calm:?}, and {meanwhile:?} beside the abuse");
    let done = scheduler.all_done().await;
    assert_eq!(done.len(), 100);
    let held = peak_kib(cluster.pid(0));
    assert!(held < MAX_KIB, "{held} KiB");
    abuse.shutdown().await;
}
