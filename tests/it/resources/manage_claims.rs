//! ManageClaims: many calls on one stream, each answered under its number, through any replica.

use super::{create, exclusive, in_time, seconds};
use crate::harness::{cluster::Cluster, server::Server};
use rallypoint_client::{
    Client,
    api::{
        AcquireRequest, AcquireResponse, CallError, Claim, ClaimEnd, ClaimState, GetClaimRequest,
        ManageClaimsRequest, ManageClaimsResponse, ReleaseRequest, RenewRequest, TryAcquireRequest,
        manage_claims_request::Kind as Call, manage_claims_response::Kind as Answer,
        resource_service_client::ResourceServiceClient,
    },
};
use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::{Code, Streaming, codegen::tokio_stream::wrappers::ReceiverStream};
use uuid::Uuid;

/// A stream, and the number of its last call.
struct Calls {
    calls: Option<mpsc::Sender<ManageClaimsRequest>>,
    answers: Streaming<ManageClaimsResponse>,
    last: u64,
}

impl Calls {
    async fn open(client: &Client) -> Calls {
        let (calls, made) = mpsc::channel(1_000);
        let mut service = ResourceServiceClient::new(client.channel());
        let opened = service.manage_claims(ReceiverStream::new(made));
        Calls {
            calls: Some(calls),
            answers: in_time(opened).await.expect("opened").into_inner(),
            last: 0,
        }
    }

    /// Makes a call; returns its number.
    fn make(&mut self, kind: Option<Call>) -> u64 {
        self.last += 1;
        let call = self.last;
        let request = ManageClaimsRequest { call, kind };
        let calls = self.calls.as_ref().expect("not closed");
        calls.try_send(request).expect("the stream is open");
        call
    }

    async fn next(&mut self) -> Option<(u64, Answer)> {
        let answer = in_time(self.answers.message()).await.expect("it goes on")?;
        Some((answer.call, answer.kind.expect("an answer")))
    }

    /// The next answer, which is to this call.
    async fn answer_to(&mut self, call: u64) -> Answer {
        let (to, answer) = self.next().await.expect("it goes on");
        assert_eq!(to, call, "{answer:?}");
        answer
    }

    async fn claim_of(&mut self, call: u64) -> Claim {
        claim(self.answer_to(call).await)
    }

    async fn error_of(&mut self, call: u64) -> CallError {
        match self.answer_to(call).await {
            Answer::Error(error) => error,
            other => panic!("{other:?} is no error"),
        }
    }
}

fn acquire(name: &str) -> Option<Call> {
    Some(Call::Acquire(exclusive(&[name])))
}

fn release(held: &Claim) -> Option<Call> {
    Some(Call::Release(ReleaseRequest {
        claim: held.claim,
        token: held.token,
    }))
}

#[track_caller]
fn claim(answer: Answer) -> Claim {
    match answer {
        Answer::Acquire(AcquireResponse { claim }) => claim.expect("a claim"),
        other => panic!("{other:?} tells of no claim"),
    }
}

#[tokio::test]
async fn many_names_are_taken_and_given_back_and_each_call_is_answered_under_its_number() {
    let server = Server::start().await;
    create(&server.client, "lot/*", 1).await;
    let mut calls = Calls::open(&server.client).await;
    let mut asked: BTreeMap<u64, String> = BTreeMap::new();
    for number in 0..200 {
        let name = format!("lot/{number}");
        asked.insert(calls.make(acquire(&name)), name);
    }
    let mut released = BTreeMap::new();
    let mut tokens = Vec::new();
    while released.len() < asked.len() || released.values().any(|done| !done) {
        match calls.next().await.expect("it goes on") {
            (call, Answer::Acquire(first)) => {
                let held = first.claim.expect("a claim");
                assert_eq!(held.state(), ClaimState::Held);
                assert_eq!(held.resources[0].name, asked[&call]);
                tokens.push(held.token);
                released.insert(calls.make(release(&held)), false);
            }
            (call, Answer::Release(given)) => {
                assert_eq!(given.claim.expect("it").end(), ClaimEnd::Released);
                assert_eq!(released.insert(call, true), Some(false), "answered once");
            }
            (call, other) => panic!("{call}: {other:?}"),
        }
    }
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 200, "each hold has a token of its own");
    drop(calls.calls.take());
    assert!(calls.next().await.is_none(), "nothing more is told");
}

#[tokio::test]
async fn a_claim_in_line_is_told_when_it_is_granted_and_how_it_ends() {
    let server = Server::start().await;
    create(&server.client, "orders", 1).await;
    let mut calls = Calls::open(&server.client).await;
    let first = calls.make(acquire("orders"));
    let held = calls.claim_of(first).await;
    let second = calls.make(acquire("orders"));
    let waits = calls.claim_of(second).await;
    assert_eq!((waits.state(), waits.position), (ClaimState::Waiting, 1));
    let given_back = calls.make(release(&held));
    let mut answers = [calls.next().await, calls.next().await].map(|one| one.expect("it goes on"));
    answers.sort_by_key(|(call, _)| *call);
    let [(to, granted), (of, _)] = answers;
    assert_eq!((to, of), (second, given_back));
    let granted = claim(granted);
    assert_eq!(granted.state(), ClaimState::Held);
    assert!(granted.token > held.token);
    // The first one is told no more; of the second one how an operator ends it.
    let forced = server.client.force_release(granted.claim, "a test").await;
    forced.expect("ended");
    let ended = calls.claim_of(second).await;
    assert_eq!(ended.end(), ClaimEnd::Forced);
    drop(calls.calls.take());
    assert!(calls.next().await.is_none());
}

#[tokio::test]
async fn a_call_that_fails_says_why_and_the_others_go_on() {
    let server = Server::start().await;
    create(&server.client, "orders", 1).await;
    let mut calls = Calls::open(&server.client).await;
    let unknown = calls.make(acquire("nobody"));
    let error = calls.error_of(unknown).await;
    assert_eq!(Code::from_i32(error.code), Code::NotFound);
    assert!(error.message.contains("nobody"), "{}", error.message);
    let nothing = calls.make(None);
    let error = calls.error_of(nothing).await;
    assert_eq!(Code::from_i32(error.code), Code::InvalidArgument);
    assert!(error.message.contains("kind"), "{}", error.message);
    let one = calls.make(acquire("orders"));
    let held = calls.claim_of(one).await;
    let mut wrong = held.clone();
    wrong.token += 1;
    let refused = calls.make(release(&wrong));
    let error = calls.error_of(refused).await;
    assert_eq!(Code::from_i32(error.code), Code::FailedPrecondition);
    assert!(!error.details.is_empty(), "the reason is among the details");
    let tried = calls.make(Some(Call::TryAcquire(TryAcquireRequest {
        resources: exclusive(&["orders"]).resources,
        ..TryAcquireRequest::default()
    })));
    match calls.answer_to(tried).await {
        Answer::TryAcquire(not) => {
            assert_eq!(not.claim, None);
            assert_eq!(not.in_the_way[0].claim, held.claim);
        }
        other => panic!("{other:?}"),
    }
    let kept = calls.make(Some(Call::Renew(RenewRequest {
        claim: held.claim,
        token: held.token,
    })));
    match calls.answer_to(kept).await {
        Answer::Renew(renewed) => assert_eq!(renewed.claim.expect("it").claim, held.claim),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_claim_outlives_its_stream_by_its_lease_and_is_kept_while_that_is_open() {
    let server = Server::start().await;
    create(&server.client, "orders", 1).await;
    let mut calls = Calls::open(&server.client).await;
    let mut request = exclusive(&["orders"]);
    request.lease = seconds(Duration::from_secs(2));
    let asked = calls.make(Some(Call::Acquire(request)));
    let held = calls.claim_of(asked).await;
    let renewed = |of: Claim| of.lease_until.expect("a lease").seconds;
    let look = || async { server.client.get_claim(held.claim).await.expect("known") };
    let begun = renewed(look().await);
    // The service renews it twice a lease and more.
    in_time(async {
        while renewed(look().await) < begun + 3 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    assert_eq!(look().await.state(), ClaimState::Held);
    drop(calls);
    let mut service = ResourceServiceClient::new(server.client.channel());
    in_time(async {
        loop {
            let request = GetClaimRequest { claim: held.claim };
            let known = service.get_claim(request).await.expect("known");
            let known = known.into_inner().claim.expect("it");
            if known.state() == ClaimState::Ended {
                assert_eq!(known.end(), ClaimEnd::Expired);
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn any_replica_makes_the_calls_and_the_stream_goes_on_with_another_owner() {
    let mut cluster = Cluster::start(2).await;
    let owner = cluster.owner().await;
    let client = cluster.client(1 - owner);
    create(&client, "orders", 1).await;
    let mut calls = Calls::open(&client).await;
    let again = AcquireRequest {
        request_id: Uuid::now_v7().to_string(),
        ..exclusive(&["orders"])
    };
    let asked = calls.make(Some(Call::Acquire(again.clone())));
    let held = calls.claim_of(asked).await;
    assert_eq!(held.state(), ClaimState::Held);
    cluster.kill_9(owner);
    let error = calls.error_of(asked).await;
    assert_eq!(Code::from_i32(error.code), Code::Unavailable, "{error:?}");
    // There is no owner for a while.
    let same = in_time(async {
        loop {
            let asked = calls.make(Some(Call::Acquire(again.clone())));
            match calls.answer_to(asked).await {
                Answer::Error(error) => assert_eq!(error.code, Code::Unavailable as i32),
                answer => break claim(answer),
            }
        }
    })
    .await;
    assert_eq!((same.claim, same.token), (held.claim, held.token));
    let given_back = calls.make(release(&same));
    match calls.answer_to(given_back).await {
        Answer::Release(released) => assert!(!released.already_ended),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_claim_that_is_made_again_under_its_request_id_is_told_once() {
    let server = Server::start().await;
    create(&server.client, "orders", 1).await;
    let mut calls = Calls::open(&server.client).await;
    let again = AcquireRequest {
        request_id: Uuid::now_v7().to_string(),
        ..exclusive(&["orders"])
    };
    let mut last = Claim::default();
    let mut call = 0;
    for _ in 0..20 {
        call = calls.make(Some(Call::Acquire(again.clone())));
        let same = calls.claim_of(call).await;
        assert!(last.claim == 0 || last.claim == same.claim);
        last = same;
    }
    let forced = server.client.force_release(last.claim, "a test").await;
    forced.expect("ended");
    // The newest call hears of it, and no other.
    assert_eq!(calls.claim_of(call).await.end(), ClaimEnd::Forced);
    drop(calls.calls.take());
    assert!(calls.next().await.is_none(), "nothing more is told");
}

#[tokio::test]
async fn a_call_that_is_too_large_is_refused_alone() {
    let server = Server::start().await;
    create(&server.client, "orders", 1).await;
    let mut calls = Calls::open(&server.client).await;
    let mut request = exclusive(&["orders"]);
    request.reason = "x".repeat(100_000);
    let large = calls.make(Some(Call::Acquire(request)));
    let error = calls.error_of(large).await;
    assert!(error.message.contains("64 KiB"), "{}", error.message);
    let next = calls.make(acquire("orders"));
    assert_eq!(calls.claim_of(next).await.state(), ClaimState::Held);
}

#[tokio::test]
async fn the_callers_of_one_client_share_a_stream_and_none_gets_what_another_was_told() {
    let server = Server::start().await;
    create(&server.client, "lot/*", 1).await;
    let mut working = JoinSet::new();
    for number in 0..40_i64 {
        let client = server.client.clone();
        working.spawn(async move {
            let mut tokens = Vec::new();
            for _ in 0..20 {
                // Each name is wanted by four of them.
                let name = format!("lot/{}", number % 10);
                let hold = client.acquire(name.clone()).await.expect("its turn comes");
                assert_eq!(hold.claim().resources[0].name, name);
                tokens.push((name, hold.token()));
                hold.release().await.expect("it was held all the while");
            }
            tokens
        });
    }
    let mut tokens = Vec::new();
    while let Some(done) = in_time(working.join_next()).await {
        tokens.extend(done.expect("no panic"));
    }
    let given: HashSet<_> = tokens.iter().map(|(_, token)| *token).collect();
    assert_eq!(given.len(), 800, "no token was given twice");
}

#[tokio::test]
async fn calls_of_a_client_have_the_same_errors_on_its_stream_and_beside_it() {
    let server = Server::start().await;
    create(&server.client, "orders", 1).await;
    let hold = server.client.acquire("orders").await.expect("it is free");
    // The first client has a stream by now, the other one has not.
    let other = Client::connect(&server.url).await.expect("connected");
    for client in [&server.client, &other] {
        let (claim, wrong) = (hold.claim().claim, hold.token() + 1);
        let refused = client
            .release_claim(claim, wrong)
            .await
            .expect_err("not its");
        assert!(refused.is("TOKEN_MISMATCH"), "{refused:?}");
        let refused = client.renew(claim, wrong).await.expect_err("not its");
        assert!(refused.is("TOKEN_MISMATCH"), "{refused:?}");
        let nobody = TryAcquireRequest {
            resources: exclusive(&["nobody"]).resources,
            ..TryAcquireRequest::default()
        };
        let refused = client.try_acquire(nobody).await.expect_err("not there");
        assert!(refused.is("RESOURCE_NOT_FOUND"), "{refused:?}");
        client.renew(claim, hold.token()).await.expect("renewed");
    }
    hold.release().await.expect("released");
}

#[tokio::test]
async fn two_who_claim_under_one_request_id_both_hear_how_it_ends() {
    let server = Server::start().await;
    create(&server.client, "orders", 1).await;
    let request = AcquireRequest {
        request_id: Uuid::now_v7().to_string(),
        ..exclusive(&["orders"])
    };
    let mut one = server.client.claim(request.clone()).await.expect("free");
    let mut other = server.client.claim(request).await.expect("the same");
    let claim = one.claim().claim;
    assert_eq!(other.claim().claim, claim);
    let forced = server.client.force_release(claim, "a test").await;
    forced.expect("ended");
    for stream in [&mut one, &mut other] {
        let ended = async {
            while !stream.has_ended() {
                stream.next().await.expect("it goes on");
            }
        };
        in_time(ended).await;
        assert_eq!(stream.claim().end(), ClaimEnd::Forced);
    }
}
