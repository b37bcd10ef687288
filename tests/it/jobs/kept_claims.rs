//! How long a claim is kept, its claimant knows by itself.

use super::*;
use crate::harness::standalone::Standalone;
use rallypoint_client::{
    ClaimedRun,
    api::{ClaimRunRequest, ClaimRunResponse, RunClaims},
};
use tokio::time::Instant;

/// Claims a run of a job that takes so many seconds at most, for an hour without renewal.
pub(super) async fn claimed(client: &Client, max_runtime: Option<i64>) -> ClaimedRun {
    let (answer, asked) = answered(client, max_runtime).await;
    let run = ClaimedRun::of(client, answer, asked).await;
    run.expect("it may be claimed")
}

async fn answered(client: &Client, max_runtime: Option<i64>) -> (ClaimRunResponse, Instant) {
    let settings = JobSettings {
        claims: Some(RunClaims::default()),
        max_runtime: max_runtime.map(seconds),
        ..job(86_400, [])
    };
    create(client, "outside", settings).await;
    run_now(client, "outside").await.expect("it is offered");
    let request = ClaimRunRequest {
        name: "outside".into(),
        lease: Some(seconds(3_600)),
        ..ClaimRunRequest::default()
    };
    let asked = Instant::now();
    (client.claim_run(request).await.expect("an answer"), asked)
}

fn seconds(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}

#[tokio::test]
async fn a_claim_counts_as_lost_before_its_run_has_taken_too_long() {
    let server = Standalone::start();
    let client = Client::connect_lazy(&server.url).expect("an address");
    let run = claimed(&client, Some(5)).await;
    // Nobody says so: this process knows it by its own clock, long before the lease of an hour.
    server.freeze();
    let why = timeout(WAIT_TIMEOUT, run.lost()).await.expect("in time");
    assert!(why.contains("max_runtime"), "{why}");
}

#[tokio::test]
async fn a_claim_whose_answer_was_slow_is_renewed_first() {
    let server = Server::start().await;
    let (answer, asked) = answered(&server.client, Some(30)).await;
    // Counted from then, the run has taken too long already.
    let asked = asked - Duration::from_secs(31);
    let late = || ClaimedRun::of(&server.client, answer.clone(), asked);
    let run = late().await.expect("it may be claimed");
    assert_eq!(run.is_lost(), None);
    run.finish(None).await.expect("it is acknowledged");
    let why = late().await.and_then(|run| run.is_lost());
    assert!(why.is_some_and(|why| why.contains("claim")), "it has ended");
}
