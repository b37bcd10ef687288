//! What the client makes of a series of refusals, as replicas give them one after the other.

use crate::harness::{conversation::WAIT_TIMEOUT, fake_server::serve};
use rallypoint_client::{Client, Error, api};
use std::{collections::VecDeque, future::ready, sync::Mutex, time::Duration};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

pub(super) fn refusal(code: Code, reason: &str, effect: &str) -> Status {
    let metadata = [("effect".to_owned(), effect.to_owned())];
    let details = ErrorDetails::with_error_info(reason, "rallypoint", metadata);
    Status::with_error_details(code, reason, details)
}

/// The next of these; the last one again and again.
fn next_of(refusals: &Mutex<VecDeque<Status>>) -> Status {
    let mut refusals = refusals.lock().expect("no panic");
    match refusals.len() {
        1 => refusals[0].clone(),
        _ => refusals.pop_front().expect("one at least"),
    }
}

/// A client of a server that refuses calls so.
async fn client_of(refusals: impl IntoIterator<Item = Status>) -> Client {
    let refusals = Mutex::new(VecDeque::from_iter(refusals));
    let url = serve(move |_| ready(next_of(&refusals).into_http())).await;
    let client = Client::connect(&url).await.expect("connected");
    client.with_retry_timeout(Duration::from_millis(200))
}

/// What a submit fails with that is refused so.
async fn refused(refusals: impl IntoIterator<Item = Status>) -> Error {
    refused_of(client_of(refusals).await).await
}

/// What a submit of this client fails with.
async fn refused_of(client: Client) -> Error {
    let scheduler = client.scheduler(uuid::Uuid::now_v7().to_string());
    let refused = scheduler.exec(vec![api::Task::default()]).await;
    refused.expect_err("it is refused")
}

#[tokio::test]
async fn a_refusal_takes_back_no_attempt_that_may_have_had_its_effect() {
    let changed = || refusal(Code::Unavailable, "OWNER_CHANGED", "unknown");
    let not_owner = || refusal(Code::Unavailable, "NOT_OWNER", "none");
    let no_such_role = || refusal(Code::InvalidArgument, "ROLE_NOT_ALLOWED", "none");
    assert!(!refused([not_owner()]).await.is_unknown());
    assert!(!refused([no_such_role()]).await.is_unknown());
    for later in [not_owner(), no_such_role()] {
        let error = refused([changed(), not_owner(), later]).await;
        assert!(error.is_unknown(), "{error}");
        assert!(error.to_string().contains("same request id"), "{error}");
        assert!(error.request_id.is_some());
    }
}

#[tokio::test]
async fn the_answer_of_the_owner_settles_what_attempts_before_have_done() {
    let changed = refusal(Code::Unavailable, "OWNER_CHANGED", "unknown");
    let released = refusal(Code::FailedPrecondition, "HANDLE_RELEASED", "none");
    // Both are heard, however long that takes.
    let client = client_of([changed, released]).await;
    let error = refused_of(client.with_retry_timeout(WAIT_TIMEOUT)).await;
    assert!(
        error.is("HANDLE_RELEASED") && !error.is_unknown(),
        "{error}"
    );
}
