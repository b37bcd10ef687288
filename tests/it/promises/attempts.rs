//! The attempts of a task: all of them, each with how it ended and where it ran.

use crate::harness::{
    conversation::Conversation,
    server::Server,
    work::{duration, failing, noop, sql},
};
use prost::Message;
use rallypoint_client::api::{
    self, AttemptState, ListAttemptsRequest, SchedulerSettings, pause_target_request,
    resume_target_request,
};
use std::time::{Duration, SystemTime};

#[tokio::test]
async fn every_attempt_of_a_task_is_listed_with_where_it_ran() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let tasks = [
        failing().attempts(3),
        noop(),
        failing().order(1),
        noop().order(2),
    ];
    scheduler.submit(tasks).await;
    scheduler.all_done().await;
    let gate = server.gate().await;
    let running = scheduler.submit([gate.task()]).await;
    scheduler.until(|now| now.running == 1).await;
    let attempts = async |seq, page_size| attempts(&scheduler, seq, page_size).await;
    let failed = attempts(1, 1).await;
    assert_eq!(failed, attempts(1, 100).await);
    let numbers: Vec<i32> = failed.iter().map(|one| one.attempt).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let done = scheduler.task(1).await.done.expect("ended");
    for attempt in &failed {
        assert_eq!(attempt.state(), AttemptState::Failed);
        assert!(attempt.slot > 0 && attempt.backend_pid > 0, "{attempt:?}");
        assert_eq!(attempt.replica, done.replica);
        assert_eq!(attempt.error.as_ref().expect("an error").code, "22012");
        let times = (&attempt.started_at, &attempt.ended_at);
        let (Some(started), Some(ended)) = times else {
            panic!("{attempt:?}")
        };
        assert!((started.seconds, started.nanos) <= (ended.seconds, ended.nanos));
        assert_eq!(attempt.next_attempt_at.is_some(), attempt.attempt < 3);
    }
    let succeeded = attempts(2, 9).await;
    assert_eq!(succeeded.len(), 1);
    assert_eq!(succeeded[0].state(), AttemptState::Succeeded);
    let of_running = attempts(running, 9).await;
    assert_eq!(of_running.len(), 1);
    assert_eq!(of_running[0].state(), AttemptState::Running);
    assert!(of_running[0].started_at.is_some() && of_running[0].ended_at.is_none());
    gate.open().await;
    let waits = noop().not_before(SystemTime::now() + Duration::from_secs(3600));
    let never = scheduler.submit([waits]).await;
    assert_eq!(attempts(never, 9).await, []);
    scheduler.cancel_everything().await;
    assert_eq!(attempts(never, 9).await, [], "cancelled before it started");
}

#[tokio::test]
async fn an_attempt_that_was_handed_back_is_listed_with_where_it_ran() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let mut gate = server.gate().await;
    let seq = scheduler.submit([gate.task()]).await;
    gate.reached_by(1).await;
    let pause = api::PauseTargetRequest {
        scope: Some(pause_target_request::Scope::All(())),
        mode: api::PauseMode::CancelRunning.into(),
        reason: "a test".into(),
    };
    server.client.pause_target(pause).await.expect("paused");
    scheduler.until(|now| now.running == 0).await;
    gate.open().await;
    let resume = api::ResumeTargetRequest {
        scope: Some(resume_target_request::Scope::All(())),
        reason: "it is over".into(),
    };
    server.client.resume_target(resume).await.expect("resumed");
    scheduler.all_done().await;
    let attempts = attempts(&scheduler, seq, 9).await;
    let states: Vec<AttemptState> = attempts.iter().map(|one| one.state()).collect();
    assert_eq!(states, [AttemptState::HandedBack, AttemptState::Succeeded]);
    let first = &attempts[0];
    assert!(
        first.started_at.is_some() && first.ended_at.is_some(),
        "{first:?}"
    );
    assert!(first.slot > 0 && first.backend_pid > 0, "{first:?}");
    assert_eq!(first.replica, attempts[1].replica);
}

/// A message larger than 4 MiB is refused by most clients.
#[tokio::test]
async fn a_page_of_attempts_has_a_bounded_size() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let failing = "do $$ begin
        raise notice '%', repeat('n', 8000);
        raise exception '%', repeat('e', 8000) using detail = repeat('d', 8000);
    end $$";
    let at_once = api::RetryPolicy {
        max_attempts: Some(100),
        initial_backoff: Some(duration(1)),
        max_backoff: Some(duration(1)),
        ..Default::default()
    };
    let task = sql(failing).with(|options| options.retry = Some(at_once));
    let seq = scheduler.submit([task]).await;
    scheduler.all_done().await;
    let request = ListAttemptsRequest {
        page_size: 1000,
        ..Default::default()
    };
    let page = scheduler.scheduler.attempts(seq, request).await;
    let page = page.expect("a page");
    let bytes = page.encoded_len();
    assert!(
        (1 << 20..(1 << 20) + (64 << 10)).contains(&bytes),
        "{bytes} bytes"
    );
    assert!(!page.next_page_token.is_empty());
    let all = attempts(&scheduler, seq, 1000).await;
    let numbers: Vec<i32> = all.iter().map(|one| one.attempt).collect();
    assert_eq!(numbers, Vec::from_iter(1..=100));
    assert!(all.iter().all(|one| one.state() == AttemptState::Failed));
}

/// The attempts of a task, read in pages.
async fn attempts(scheduler: &Conversation, seq: i64, page_size: i32) -> Vec<api::Attempt> {
    let mut request = ListAttemptsRequest {
        page_size,
        ..Default::default()
    };
    let mut attempts = Vec::new();
    loop {
        let page = scheduler.scheduler.attempts(seq, request.clone()).await;
        let page = page.expect("a page");
        attempts.extend(page.attempts);
        if page.next_page_token.is_empty() {
            return attempts;
        }
        request.page_token = page.next_page_token;
    }
}
