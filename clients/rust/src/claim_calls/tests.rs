//! How many calls are unanswered at a time.

use super::*;
use crate::Client;

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
