//! What is left of a window beside the time that the work may take: whoever claims a run is warned
//! when nobody else could do it in time.

use super::*;
use crate::harness::standalone::Standalone;
use jiff::SignedDuration;
use rallypoint_client::api::{
    ClaimRunRequest, ClaimRunResponse, OncePer, Period, RunClaims, schedule::Rule::OncePer as Once,
};
use serde_json::Value;
use std::fs;

/// A job for claimants with a window from midnight to midnight, whose work takes so long at most.
fn daily(max_runtime: Option<i64>) -> JobSettings {
    let once_per = OncePer {
        period: Period::Day.into(),
        ..OncePer::default()
    };
    JobSettings {
        schedule: Some(Schedule {
            rule: Some(Once(once_per)),
            ..Schedule::default()
        }),
        claims: Some(RunClaims::default()),
        max_runtime: max_runtime.map(|seconds| prost_types::Duration { seconds, nanos: 0 }),
        ..JobSettings::default()
    }
}

async fn claim(client: &Client, name: &str) -> ClaimRunResponse {
    run_now(client, name).await.expect("it is offered");
    let request = ClaimRunRequest {
        name: name.into(),
        ..ClaimRunRequest::default()
    };
    let claimed = client.claim_run(request).await.expect("an answer");
    assert!(claimed.claim.is_some(), "{claimed:?}");
    claimed
}

#[tokio::test]
async fn a_claim_comes_with_a_warning_when_the_work_may_outlast_the_window() {
    let server = Server::start().await;
    let client = &server.client;
    // No window of a day has that much left.
    let two_days = 2 * 86_400;
    for (name, longest) in [("long", Some(two_days)), ("unlimited", None)] {
        create(client, name, daily(longest)).await;
    }
    let claimed = claim(client, "long").await;
    let left = SignedDuration::from_secs(seconds_left(&claimed));
    let warning = &claimed.warning;
    assert!(
        warning.contains("less than max_runtime (2 days)"),
        "{warning}"
    );
    assert!(
        warning.contains(&format!("claimed for {left:#} more")),
        "{warning}: {left}"
    );
    assert_eq!(claim(client, "unlimited").await.warning, "");
    create(client, "short", daily(Some(1))).await;
    let claimed = claim(client, "short").await;
    assert_eq!(claimed.warning.is_empty(), seconds_left(&claimed) >= 1);
}

/// From the claim to the end of the window, in whole seconds.
fn seconds_left(claimed: &ClaimRunResponse) -> i64 {
    let closes = claimed.run.as_ref().and_then(|run| run.closes);
    let claim = claimed.claim.as_ref();
    let since = claim.and_then(|claim| claim.claimed_at);
    let (closes, since) = closes.zip(since).expect("a window and a claim");
    closes.seconds - since.seconds - i64::from(since.nanos > closes.nanos)
}

#[test]
fn the_command_that_claims_a_run_says_so() {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("jobs.toml");
    let jobs = "[jobs.long]\nschedule.once_per = { period = \"DAY\" }\nclaimed = true\n\
                max_runtime = \"48h\"\n";
    fs::write(&file, jobs).expect("written");
    let run = |arguments: &[&str]| {
        let output = server.run(arguments);
        assert!(output.status.success(), "{output:?}");
        output
    };
    run(&["jobs", "apply", "-f", &file.display().to_string()]);
    run(&["jobs", "run", "long"]);
    let claimed = run(&["jobs", "claim", "long", "--", "true"]);
    let said = String::from_utf8_lossy(&claimed.stderr).into_owned();
    assert!(said.contains("less than max_runtime (2 days)"), "{said}");
    // The work is done, and the log of the job is elsewhere.
    let log = run(&["--json", "jobs", "log", "long"]);
    let log: Value = serde_json::from_slice(&log.stdout).expect("a document");
    assert!(log["tasks"].as_array().is_none_or(Vec::is_empty), "{log}");
}
