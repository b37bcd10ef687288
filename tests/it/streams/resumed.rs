//! A stream goes on where a message of it ended, with the token of that message.

use crate::{
    bad_input::{answer, invalid},
    harness::{
        conversation::{Conversation, WAIT_TIMEOUT},
        server::Server,
        work::{failing, noop},
    },
};
use rallypoint_client::api::{
    SchedulerSettings, SynchronizationRequest, SynchronizationResponse, Until, end::Reason,
    until::Kind,
};
use tokio::time::timeout;

/// Opens a stream and reads it to its end, or only its first message.
async fn read(
    server: &Server,
    request: SynchronizationRequest,
    whole: bool,
) -> Vec<SynchronizationResponse> {
    let stream = server.raw().synchronization(request).await;
    let mut stream = stream.expect("it opens").into_inner();
    let mut messages = Vec::new();
    loop {
        let message = timeout(WAIT_TIMEOUT, stream.message()).await;
        let message = message.expect("in time").expect("it goes on");
        let message = message.expect("it ends with a reason");
        let last = message.end.is_some() || !whole;
        messages.push(message);
        if last {
            return messages;
        }
    }
}

fn numbers(messages: &[SynchronizationResponse]) -> Vec<i64> {
    let events = messages.iter().flat_map(|message| &message.done);
    events.map(|done| done.done_no).collect()
}

fn until(scheduler: &Conversation, after: i64, kind: Kind) -> SynchronizationRequest {
    SynchronizationRequest {
        handle: scheduler.handle().into(),
        after,
        until: Some(Until { kind: Some(kind) }),
        resume_token: String::new(),
    }
}

fn resume(scheduler: &Conversation, message: &SynchronizationResponse) -> SynchronizationRequest {
    SynchronizationRequest {
        handle: scheduler.handle().into(),
        resume_token: message.resume_token.clone(),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_token_continues_a_stream_behind_its_message_with_the_goal_it_had() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler.submit(noop().times(3)).await;
    scheduler.until(|now| now.done == 3).await;
    scheduler.submit([gate.task(), gate.task()]).await;

    let all = until(&scheduler, 1, Kind::All(()));
    let first = read(&server, all, false).await.remove(0);
    let counted = until(&scheduler, 0, Kind::Count(5));
    let of_count = read(&server, counted, false).await.remove(0);
    assert_eq!(of_count.done.len(), 3);
    // What comes later does not count for ALL.
    scheduler.submit(gate.task().times(4)).await;
    gate.open().await;
    scheduler.until(|now| now.done == 9).await;

    let rest = read(&server, resume(&scheduler, &first), true).await;
    let heard = [numbers(&[first]), numbers(&rest)].concat();
    assert_eq!(heard, (2..=heard.len() as i64 + 1).collect::<Vec<_>>());
    let last = rest.last().expect("a message");
    assert_eq!(
        last.end.as_ref().map(|end| end.reason()),
        Some(Reason::Goal)
    );
    let seqs = rest.iter().flat_map(|message| &message.done);
    let awaited = seqs.filter(|done| done.seq <= 5).count();
    assert_eq!(
        awaited, 2,
        "both that were outstanding when the stream opened"
    );

    let rest = read(&server, resume(&scheduler, &of_count), true).await;
    assert_eq!(numbers(&rest), [4, 5], "two of five were left");
    let last = rest.last().expect("a message");
    let after_the_end = read(&server, resume(&scheduler, last), true).await;
    assert_eq!(numbers(&after_the_end), [0; 0], "the goal stays met");
}

#[tokio::test]
async fn a_stream_that_ended_with_a_failure_has_nothing_more_to_say() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler.submit([failing()]).await;
    scheduler.until(|now| now.done == 1).await;
    let gate = server.gate().await;
    scheduler.submit([gate.task()]).await;
    let request = until(&scheduler, 0, Kind::FirstFailure(()));
    let ended = read(&server, request, true).await;
    let last = ended.last().expect("a message");
    assert_eq!(
        last.end.as_ref().map(|end| end.reason()),
        Some(Reason::Failure)
    );
    let again = read(&server, resume(&scheduler, last), true).await;
    assert_eq!(numbers(&again), [0; 0]);
    gate.open().await;
    scheduler.all_done().await;
}

#[tokio::test]
async fn a_token_is_good_for_its_scheduler_as_it_was_issued() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let other = server.open(SchedulerSettings::default()).await;
    let request = until(&scheduler, 0, Kind::All(()));
    let message = read(&server, request, true).await.remove(0);
    let good = resume(&scheduler, &message);
    let refused = invalid("resume_token", "RESUME_TOKEN_INVALID");
    let mut changed = good.clone();
    changed.resume_token.push('0');
    let foreign = SynchronizationRequest {
        handle: other.handle().into(),
        ..good
    };
    for request in [changed, foreign] {
        assert_eq!(answer(server.raw().synchronization(request).await), refused);
    }
}
