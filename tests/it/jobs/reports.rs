//! What a claimant says of its work is for people: however long it is, the run is finished.

use super::*;
use rallypoint_client::{
    ClaimedRun,
    api::{ClaimRunRequest, RunClaims},
};
use tokio::time::Instant;

#[tokio::test]
async fn a_long_report_is_cut_and_the_run_is_finished() {
    let server = Server::start().await;
    let client = &server.client;
    let settings = JobSettings {
        claims: Some(RunClaims::default()),
        ..job(86_400, [])
    };
    create(client, "outside", settings).await;
    run_now(client, "outside").await.expect("it is offered");
    let request = ClaimRunRequest {
        name: "outside".into(),
        ..ClaimRunRequest::default()
    };
    let asked = Instant::now();
    let answer = client.claim_run(request).await.expect("an answer");
    let run = ClaimedRun::of(client, answer, asked).expect("it may be claimed");
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
