//! A caller cannot tell which replica owns the shard: the same request gets the same code, message,
//! details and frames from the owner and from any other replica, whatever the request.
//!
//! Requests follow from a seed. Each is sent to both replicas, to one of two schedulers that have
//! the same history, and to no replica through a client: what is compared is HTTP/2.

mod exchange;
mod requests;
mod resource_requests;

use crate::{harness::cluster::Cluster, rng::Rng};
use exchange::{Exchange, Reply};
use rallypoint_client::api::SchedulerSettings;
use requests::{CALLS, Requests};
use std::time::Duration;

const SEED: u64 = 100;
/// Pairs of schedulers, and requests to each pair.
const PAIRS: u64 = 8;
const REQUESTS: usize = 5 * CALLS.len();
/// How often a request is repeated while a replica says that it cannot be answered now.
const TRIES: usize = 20;

/// The owner and another replica, each with a scheduler of its own.
struct Pair<'a> {
    cluster: &'a Cluster,
    exchange: &'a Exchange,
    owner: usize,
    handles: [String; 2],
}

impl<'a> Pair<'a> {
    async fn new(cluster: &'a Cluster, exchange: &'a Exchange) -> Pair<'a> {
        let owner = cluster.owner().await;
        let open = async |index: usize| {
            let client = cluster.client(index);
            let scheduler = cluster.open(&client, SchedulerSettings::default()).await;
            scheduler.scheduler.pause().await.expect("paused");
            scheduler.handle().to_owned()
        };
        let handles = [open(owner).await, open(1 - owner).await];
        Pair {
            cluster,
            exchange,
            owner,
            handles,
        }
    }

    /// What both replicas answer to a request, with one handle in both.
    async fn ask(&self, request: &requests::Request) -> [Reply; 2] {
        for _ in 1..TRIES {
            let replies = self.ask_once(request).await;
            if !replies.iter().any(Reply::is_unavailable) {
                return replies;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.ask_once(request).await
    }

    async fn ask_once(&self, request: &requests::Request) -> [Reply; 2] {
        let [mine, others] = &self.handles;
        let [here, elsewhere] = [self.owner, 1 - self.owner].map(|index| self.cluster.url(index));
        let reply = self.exchange.send(&here, request, mine).await;
        let other = self.exchange.send(&elsewhere, request, others).await;
        [reply, other.with(others, mine)]
    }
}

#[tokio::test]
async fn every_replica_answers_every_request_alike() {
    let cluster = Cluster::start(2).await;
    let exchange = Exchange::new();
    let mut codes = std::collections::BTreeMap::<(&str, String), usize>::new();
    for pair in 0..PAIRS {
        let mut requests = Requests::new(Rng::new(SEED + pair));
        let pair = Pair::new(&cluster, &exchange).await;
        for number in 0..REQUESTS {
            let request = requests.next(CALLS[number % CALLS.len()]);
            let [here, elsewhere] = pair.ask(&request).await;
            assert_eq!(here, elsewhere, "SEED={SEED} {request:?}");
            assert!(here.is_well_formed(), "{here:?} to {request:?}");
            *codes.entry((request.call, here.code())).or_default() += 1;
        }
    }
    // Otherwise the requests are not what they ought to be.
    for call in CALLS {
        let of_call = codes.keys().filter(|(name, _)| *name == call).count();
        assert!(
            of_call >= 2,
            "{call} is answered in one way only: {codes:?}"
        );
    }
}
