//! Abuse of HTTP/2 (streams that are reset at once, headers without end, answers that nobody has
//! room for, messages that are half sent, errors whose answers nobody reads, ten thousand sockets
//! that say nothing): others are served meanwhile, and memory is bounded.

#[path = "../../support/http2_abuse.rs"]
pub(super) mod http2_abuse;

use super::half_sent::peak_kib;
use crate::harness::{
    cluster::Cluster,
    conversation::{Conversation, WAIT_TIMEOUT},
    work::noop,
};
use http2_abuse::{Abuse, Abusers};
use rallypoint_client::api::SchedulerSettings;
use std::time::{Duration, Instant};
use tokio::{
    io::AsyncReadExt,
    net::TcpStream,
    time::{sleep, timeout},
};

/// A socket that says nothing is closed after this time even if it is in nobody's way.
const OPENING_TIMEOUT: Duration = Duration::from_secs(10);
/// So many may be opening at a time.
const MAX_OPENING: usize = 1_024;
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
    let cluster = Cluster::start(1).await;
    let address = cluster.url(0).trim_start_matches("http://").to_owned();
    let address = address.parse().expect("an address");
    let other = cluster.client(0);
    let scheduler = cluster.open(&other, SchedulerSettings::default()).await;
    let calm = served(&cluster, &scheduler).await;
    let first = Instant::now();
    let mut oldest = TcpStream::connect(address).await.expect("it listens");
    let abusers = Abusers::begin(address, &Abuse::ALL);
    // The oldest of those that say nothing make room for the others.
    let closed = timeout(WAIT_TIMEOUT, oldest.read(&mut [0])).await;
    let closed = closed.expect("it is closed");
    assert!(!matches!(closed, Ok(1..)), "{closed:?}");
    let is_early = first.elapsed() < OPENING_TIMEOUT;
    let is_slow = abusers.silent().0 < 2 * MAX_OPENING;
    assert!(is_early || is_slow, "it was in nobody's way");
    let meanwhile = served(&cluster, &scheduler).await;
    let all_silent = async {
        while abusers.silent().0 < abusers.silent().1 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    let all_silent = timeout(WAIT_TIMEOUT, all_silent).await;
    all_silent.expect("all of them connect");
    // For whoever looks; whether it is fast is no question to a test on a machine with others.
    println!("the slowest of 50 calls: {calm:?}, and {meanwhile:?} beside the abuse");
    let done = scheduler.all_done().await;
    assert_eq!(done.len(), 100);
    let held = peak_kib(cluster.pid(0));
    println!("{} MiB at the most, {:?}", held >> 10, abusers.silent());
    assert!(held < MAX_KIB, "{held} KiB");
    let log = cluster.log_tail(0);
    assert!(!log.contains("h2::"), "it fills the log: {log}");
}
