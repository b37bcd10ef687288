//! How many calls are unanswered at a time.

use super::*;
use crate::Client;
use std::{future::poll_fn, pin::pin, task::Poll};
use tokio::task::{coop::consume_budget, yield_now};

/// A stream that is open to nobody: what is to be sent on it arrives here.
fn opened(calls: &ClaimCalls) -> mpsc::Receiver<api::ManageClaimsRequest> {
    let client = Client::connect_lazy("127.0.0.1:1").expect("an address");
    let (pick, _) = client.servers.pick();
    let (sender, made) = mpsc::channel(2 * MOST_UNANSWERED);
    calls.lock().open = Some(Open::new(1, pick, sender));
    made
}

async fn make(calls: &ClaimCalls) -> Answers {
    let call = Call::Acquire(api::AcquireRequest::default());
    calls.make(|| unreachable!("it is open"), call).await.1
}

/// What the service says first, and later, of a claim.
fn acquired(call: u64) -> api::ManageClaimsResponse {
    let claim = api::Claim {
        claim: 7,
        state: api::ClaimState::Waiting.into(),
        ..api::Claim::default()
    };
    let update = api::AcquireResponse { claim: Some(claim) };
    api::ManageClaimsResponse {
        call,
        kind: Some(Answer::Acquire(update)),
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_until_one_of_those_before_it_is_answered() {
    let calls = ClaimCalls::default();
    let mut made = opened(&calls);
    let mut answers = Vec::new();
    for _ in 0..MOST_UNANSWERED {
        answers.push(make(&calls).await);
        made.recv().await.expect("it is sent");
    }
    // The clock goes on only when nothing else does.
    let late = timeout(Duration::from_secs(60), make(&calls)).await;
    assert!(late.is_err() && made.try_recv().is_err());
    assert!(calls.tell(1, acquired(1)));
    answers.push(make(&calls).await);
    // It is answered once, however often its claim is told, and whoever has given it up.
    assert!(calls.tell(1, acquired(1)));
    assert_eq!(calls.places.available_permits(), 0);
    answers.clear();
    assert!(calls.tell(1, acquired(2)));
    assert_eq!(calls.places.available_permits(), 1);
}

#[tokio::test]
async fn the_end_of_a_stream_leaves_room_for_as_many_calls() {
    let calls = ClaimCalls::default();
    let other = calls.of_another_caller();
    let (mut made, _made) = (opened(&calls), opened(&other));
    let (given_up, _sent) = (make(&calls).await, make(&calls).await);
    let _of_the_other = make(&other).await;
    assert_eq!(calls.places.available_permits(), MOST_UNANSWERED - 3);
    drop(given_up);
    let first = made.recv().await.expect("it is to be sent").call;
    assert!(!calls.is_awaited(first), "it need not be made any more");
    assert_eq!(calls.places.available_permits(), MOST_UNANSWERED - 2);
    calls.fail(1, &Status::unavailable("it breaks"), true);
    assert_eq!(calls.places.available_permits(), MOST_UNANSWERED - 1);
}

#[tokio::test]
async fn a_call_that_is_dropped_keeps_no_place() {
    let calls = ClaimCalls::default();
    let mut made = opened(&calls);
    // The runtime lets a task do so much at a time, and has it wait then: here the call does so in
    // every place where it can, and is dropped.
    for done_before in 0..300 {
        yield_now().await;
        let mut call = Box::pin(make(&calls));
        poll_fn(|context| {
            for _ in 0..done_before {
                let _ = pin!(consume_budget()).poll(context);
            }
            let _ = call.as_mut().poll(context);
            Poll::Ready(())
        })
        .await;
        drop(call);
        if let Ok(request) = made.try_recv() {
            assert!(!calls.is_awaited(request.call), "nobody waits for it");
        }
        let free = calls.places.available_permits();
        assert_eq!(free, MOST_UNANSWERED, "{done_before}");
    }
}

#[tokio::test]
async fn all_that_is_made_of_a_client_has_its_places() {
    let client = Client::connect_lazy("127.0.0.1:1").expect("an address");
    let (in_namespace, of_caller) = (client.clone(), client.clone());
    for other in [
        client.clone(),
        in_namespace.with_namespace("x").expect("a name"),
        of_caller.with_caller("y").expect("a name"),
    ] {
        assert!(Arc::ptr_eq(&client.claims.places, &other.claims.places));
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_limit_covers_the_wait_for_a_place() {
    let client = Client::connect_lazy("127.0.0.1:1").expect("an address");
    let client = client.with_time_limit(Some(Duration::from_secs(1)));
    let client = client.with_retry_timeout(Duration::ZERO);
    let _made = opened(&client.claims);
    let places = client.claims.places.clone();
    let _all = places.acquire_many_owned(MOST_UNANSWERED as u32).await;
    let late = client.acquire("a").await.expect_err("there is no place");
    assert_eq!(late.code, Code::DeadlineExceeded);
    let late = client.renew(7, 1).await.expect_err("there is no place");
    assert_eq!(late.code, Code::DeadlineExceeded);
}
