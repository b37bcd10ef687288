//! What one caller may not do to another, and what ends when a right does.

use super::{Grant, Secured, token};
use crate::harness::{conversation::WAIT_TIMEOUT, work::sql};
use rallypoint_client::{
    Client,
    api::{
        ClaimRunRequest, CreateJobRequest, CreateResourceRequest, FinishRunRequest, Interval,
        JobSettings, ReleaseMode, ReleaseSchedulerRequest, RenewRunRequest, ResourceSettings,
        RunClaims, RunJobRequest, Schedule, SchedulerSettings, SchedulerState, Task,
        schedule::Rule, scheduler_service_client::SchedulerServiceClient,
    },
};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Request};
use tonic_types::StatusExt;

const fn grant(name: &'static str, role: &'static str) -> Grant {
    Grant {
        name,
        namespaces: &["etl"],
        role,
    }
}

const GRANTS: &[Grant] = &[
    grant("ada", "submitter"),
    grant("eve", "submitter"),
    grant("olga", "operator"),
];

#[tokio::test]
async fn a_claim_is_kept_and_ended_by_whoever_made_it_or_by_an_operator() {
    let server = Secured::start(GRANTS, "", None);
    let (ada, eve, olga) = (
        server.client("ada"),
        server.client("eve"),
        server.client("olga"),
    );
    let request = CreateResourceRequest {
        name: "disk".into(),
        settings: Some(ResourceSettings {
            capacity: 1,
            ..ResourceSettings::default()
        }),
    };
    olga.create_resource(request).await.expect("created");
    let hold = ada.acquire("disk").await.expect("it is free");
    let (claim, token) = (hold.claim().claim, hold.token());
    let refused = eve.release_claim(claim, token).await.expect_err("not hers");
    assert!(refused.is("CLAIM_OF_ANOTHER"), "{refused:?}");
    let refused = eve.renew(claim, token).await.expect_err("not hers");
    assert!(refused.is("CLAIM_OF_ANOTHER"), "{refused:?}");
    ada.renew(claim, token).await.expect("her own");
    olga.force_release(claim, "it hangs")
        .await
        .expect("an operator");
    let hold = ada.acquire("disk").await.expect("it is free");
    let (claim, token) = (hold.claim().claim, hold.token());
    ada.release_claim(claim, token).await.expect("her own");
}

/// Creates the job `daily`, of which callers claim the runs, and has it be due.
async fn claimed_job_is_due(olga: &Client) {
    let day = prost_types::Duration {
        seconds: 86_400,
        nanos: 0,
    };
    olga.create_job(CreateJobRequest {
        name: "daily".into(),
        settings: Some(JobSettings {
            schedule: Some(Schedule {
                rule: Some(Rule::Interval(Interval {
                    every: Some(day),
                    phase: None,
                })),
                ..Schedule::default()
            }),
            claims: Some(RunClaims::default()),
            ..JobSettings::default()
        }),
        ..CreateJobRequest::default()
    })
    .await
    .expect("created");
    olga.run_job(RunJobRequest {
        name: "daily".into(),
        ..RunJobRequest::default()
    })
    .await
    .expect("due");
}

#[tokio::test]
async fn a_claimed_run_is_kept_and_finished_by_whoever_claimed_it() {
    let server = Secured::start(GRANTS, "", None);
    let (ada, eve, olga) = (
        server.client("ada"),
        server.client("eve"),
        server.client("olga"),
    );
    claimed_job_is_due(&olga).await;
    let asked = ClaimRunRequest {
        name: "daily".into(),
        owner: "worker".into(),
        request_id: "01a20000-0000-7000-8000-000000000001".into(),
        ..ClaimRunRequest::default()
    };
    let claimed = ada.claim_run(asked.clone()).await.expect("an answer");
    let claim = claimed.claim.expect("it is hers");
    let due = claimed.run.expect("of this run").due;
    let refused = eve.claim_run(asked.clone()).await.expect_err("her call");
    assert!(refused.is("REQUEST_ID_REUSED"), "{refused:?}");
    let renewal = RenewRunRequest {
        name: "daily".into(),
        due,
        token: claim.token,
    };
    let end = FinishRunRequest {
        name: "daily".into(),
        due,
        token: claim.token,
        ..FinishRunRequest::default()
    };
    for refused in [
        eve.renew_run(renewal.clone()).await.expect_err("not hers"),
        eve.finish_run(end.clone()).await.expect_err("not hers"),
    ] {
        assert!(refused.is("CLAIM_OF_ANOTHER"), "{refused:?}");
    }
    ada.renew_run(renewal).await.expect("her own");
    ada.finish_run(end.clone()).await.expect("her own");
    let refused = eve.finish_run(end.clone()).await.expect_err("nor the end");
    assert!(refused.is("CLAIM_OF_ANOTHER"), "{refused:?}");
    assert!(ada.finish_run(end).await.expect("again").already_finished);
}

#[tokio::test]
async fn a_call_that_waits_ends_with_the_role_of_its_caller() {
    let server = Secured::start(GRANTS, "", None);
    let ada = server.client("ada");
    let scheduler = ada.open(SchedulerSettings::default()).await.expect("open");
    let long = Task::from(sql("select pg_sleep(600)"));
    scheduler.exec(vec![long]).await.expect("submitted");
    // Without the repetitions of the client.
    let mut raw = SchedulerServiceClient::connect(server.server.url())
        .await
        .expect("connected");
    let mut request = Request::new(ReleaseSchedulerRequest {
        handle: scheduler.handle().to_owned(),
        mode: ReleaseMode::Finish.into(),
        wait: true,
    });
    let bearer = format!("Bearer {}", token("ada")).parse().expect("ASCII");
    request.metadata_mut().insert("authorization", bearer);
    let released = tokio::spawn(async move { raw.release_scheduler(request).await });
    let begun = Instant::now();
    while scheduler.describe().await.expect("hers").state() != SchedulerState::Releasing {
        assert!(begun.elapsed() < WAIT_TIMEOUT, "it is never released");
        sleep(Duration::from_millis(10)).await;
    }
    assert!(!released.is_finished(), "it waits for the task");
    server.change(&[grant("olga", "operator")]);
    let ended = timeout(WAIT_TIMEOUT, released).await.expect("it ends");
    let ended = ended.expect("no panic").expect_err("her role is gone");
    assert_eq!(ended.code(), Code::Unauthenticated);
    let info = ended.get_details_error_info().expect("a reason");
    assert_eq!(
        (&*info.reason, &*info.metadata["effect"]),
        ("IDENTITY_LOST", "unknown")
    );
}
