//! What a claimant says of its work is for people: however long it is, the run is finished. And how
//! long it may work, it knows by itself.

use super::*;
use crate::harness::standalone::Standalone;
use rallypoint_client::{
    ClaimedRun,
    api::{ClaimRunRequest, RunClaims},
};
use tokio::time::Instant;

/// Claims a run of a job that takes so many seconds at most, for an hour without renewal.
async fn claimed(client: &Client, max_runtime: Option<i64>) -> ClaimedRun {
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
    let answer = client.claim_run(request).await.expect("an answer");
    ClaimedRun::of(client, answer, asked).expect("it may be claimed")
}

fn seconds(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}

#[tokio::test]
async fn a_long_report_is_cut_and_the_run_is_finished() {
    let server = Server::start().await;
    let client = &server.client;
    let run = claimed(client, None).await;
    let why = format!("a\0{}", "ä".repeat(5_000));
    let finished = run.finish(Some(&why)).await.expect("it is acknowledged");
    let said = finished.claim.expect("the claim").detail;
    // The 1000th byte is the first half of a character.
    assert_eq!(said, format!("a\u{fffd}{}", "ä".repeat(498)));
    assert_eq!(finished.run.expect("a run").state(), RunState::Failed);
    let again = run.finish(Some(&why)).await.expect("it is on record");
    assert!(again.already_finished && !again.late);
    let pause = PauseJobRequest {
        name: "outside".into(),
        reason: why,
    };
    client.pause_job(pause).await.expect("it is paused");
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
