//! What a claimant says of its work is for people: however long it is, the run is finished.

use super::{kept_claims::claimed, *};

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
