//! What the client makes of a replica that keeps its stream of claims open and grants nothing, or
//! breaks it off.

use super::refusals::refusal;
use crate::harness::{
    conversation::WAIT_TIMEOUT, fake_server::serve_claims, server::Server, work::duration,
};
use rallypoint_client::{
    Client,
    api::{
        AcquireRequest, AcquireResponse, CallError, Claim, ClaimState, CreateResourceRequest,
        ManageClaimsResponse, ResourceSettings, manage_claims_request::Kind as Call,
        manage_claims_response::Kind as Answer,
    },
};
use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};
use tokio::time::timeout;
use tokio_stream::{StreamExt, once};
use tonic::{Code, Status};

/// The address of a replica that does not reach the owner: it leaves the first call of each stream
/// of claims unanswered, and refuses the others.
async fn ownerless() -> String {
    serve_claims(|calls| {
        calls
            .skip(1)
            .map(|call| call.map(|call| refused(call.call, Code::Unavailable, "NOT_OWNER")))
    })
    .await
}

fn refused(call: u64, code: Code, reason: &str) -> ManageClaimsResponse {
    let status = refusal(code, reason, "none");
    let error = CallError {
        code: status.code().into(),
        message: status.message().to_owned(),
        details: status.details().to_vec().into(),
    };
    ManageClaimsResponse {
        call,
        kind: Some(Answer::Error(error)),
    }
}

#[tokio::test]
async fn a_replica_that_refuses_what_is_claimed_is_left_with_all_that_is_awaited_there() {
    let server = Server::start().await;
    let settings = ResourceSettings {
        capacity: 1,
        ..ResourceSettings::default()
    };
    let request = CreateResourceRequest {
        name: "lot/*".into(),
        settings: Some(settings),
    };
    let created = server.client.create_resource(request).await;
    created.expect("created");
    let addresses = format!("{},{}", ownerless().await, server.url);
    let client = Client::connect(&addresses).await.expect("connected");
    let both = async { tokio::join!(client.acquire("lot/1"), client.acquire("lot/2")) };
    let (unanswered, refused) = timeout(WAIT_TIMEOUT, both).await.expect("in time");
    for hold in [unanswered, refused] {
        let hold = hold.expect("the other replica grants it");
        hold.release().await.expect("it was held");
    }
}

#[tokio::test]
async fn a_claim_whose_stream_breaks_whenever_it_has_told_the_same_fails_in_the_end() {
    let url = serve_claims(|calls| {
        let waits = calls
            .take(1)
            .map(|call| call.map(|call| waiting(call.call)));
        waits.chain(once(Err(Status::unavailable("it breaks"))))
    })
    .await;
    let client = Client::connect(&url).await.expect("connected");
    let client = client.with_retry_timeout(Duration::from_millis(200));
    let failed = timeout(WAIT_TIMEOUT, client.acquire("orders")).await;
    let failed = failed.expect("in time").expect_err("it breaks");
    assert_eq!(failed.code, Code::Unavailable);
    assert!(failed.request_id.is_some());
}

fn waiting(call: u64) -> ManageClaimsResponse {
    let claim = Claim {
        claim: 7,
        state: ClaimState::Waiting.into(),
        position: 1,
        ..Claim::default()
    };
    acquired(call, claim)
}

fn acquired(call: u64, claim: Claim) -> ManageClaimsResponse {
    let update = AcquireResponse { claim: Some(claim) };
    ManageClaimsResponse {
        call,
        kind: Some(Answer::Acquire(update)),
    }
}

#[tokio::test]
async fn a_claim_that_is_refused_after_a_loss_may_have_been_made() {
    static IS_LOST: AtomicBool = AtomicBool::new(false);
    let url = serve_claims(|calls| {
        calls
            .take(1)
            .map(|call| match IS_LOST.swap(true, Ordering::Relaxed) {
                false => Err(Status::unavailable("it breaks")),
                true => {
                    call.map(|call| refused(call.call, Code::PermissionDenied, "ROLE_NOT_ALLOWED"))
                }
            })
    })
    .await;
    let client = Client::connect(&url).await.expect("connected");
    let failed = timeout(WAIT_TIMEOUT, client.acquire("orders")).await;
    let failed = failed.expect("in time").expect_err("it is refused");
    assert!(
        failed.is("ROLE_NOT_ALLOWED") && failed.is_unknown(),
        "{failed}"
    );
    assert!(failed.request_id.is_some());
}

#[tokio::test]
async fn a_claim_that_was_told_and_fails_later_is_given_back_and_one_that_was_not_told_is_not() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    // The stream stays open until the first claim was told for sure: the next call breaks it.
    let url = serve_claims(|calls| {
        calls.map(|call| match CALLS.fetch_add(1, Ordering::Relaxed) {
            0 => call.map(|call| waiting(call.call)),
            1 => Err(Status::unavailable("it breaks")),
            _ => call.map(|call| refused(call.call, Code::PermissionDenied, "ROLE_NOT_ALLOWED")),
        })
    })
    .await;
    let client = Client::connect(&url).await.expect("connected");
    let made = timeout(WAIT_TIMEOUT, client.claim(AcquireRequest::default())).await;
    let mut made = made.expect("in time").expect("it is told");
    let untold = timeout(WAIT_TIMEOUT, client.acquire("orders")).await;
    let untold = untold.expect("in time").expect_err("it is refused");
    assert!(!untold.is_given_back, "{untold}");
    let failed = timeout(WAIT_TIMEOUT, made.next()).await;
    let failed = failed.expect("in time").expect_err("it is refused");
    assert!(failed.is_given_back && failed.is_unknown(), "{failed}");
    assert!(failed.to_string().contains("make it anew"), "{failed}");
}

#[tokio::test]
async fn a_claim_that_was_granted_and_cannot_be_confirmed_is_given_back() {
    let url = serve_claims(|calls| {
        calls.map(|call| {
            call.map(|call| match call.kind {
                Some(Call::Acquire(_)) => acquired(call.call, limited()),
                _ => refused(call.call, Code::PermissionDenied, "ROLE_NOT_ALLOWED"),
            })
        })
    })
    .await;
    let client = Client::connect(&url).await.expect("connected");
    let failed = timeout(WAIT_TIMEOUT, client.acquire("orders")).await;
    let failed = failed.expect("in time").expect_err("it is refused");
    assert!(failed.is_given_back && failed.is_unknown(), "{failed}");
}

/// A hold whose resource limits it: it is renewed before it counts as one.
fn limited() -> Claim {
    Claim {
        claim: 7,
        state: ClaimState::Held.into(),
        token: 1,
        hold_left: Some(duration(3_600_000)),
        ..Claim::default()
    }
}
