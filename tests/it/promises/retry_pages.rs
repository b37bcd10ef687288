//! RetryFailed with more tasks than a call takes, and calls that go beside each other.

use crate::harness::{
    conversation::Conversation,
    postgres::{connect, durable},
    process::PROGRAM,
    server::{Server, Setup},
    work::{failing, noop},
};
use rallypoint::core::model::limits::Limits;
use rallypoint_client::api::{self, OnFailure, Outcome, SchedulerSettings};
use sqlx::Executor;
use std::process::Command;
use tonic::Code;

const ID: &str = "01890000-0000-7000-8000-00000000000";

/// All pages: the tasks retried by each, and the number of the first copy.
async fn pages(of: &Conversation, filter: api::TaskFilter) -> Vec<(Vec<i64>, i64)> {
    let (mut pages, mut token) = (Vec::new(), String::new());
    loop {
        let call = of.scheduler.retry_failed(Some(filter.clone()), token);
        let answer = call.await.expect("retried");
        token = answer.next_page_token;
        if let Some(first) = answer.first_seq {
            pages.push((answer.retried, first));
        }
        if token.is_empty() {
            return pages;
        }
    }
}

#[tokio::test]
async fn lower_orders_are_retried_first_however_their_tasks_ended() {
    let server = Server::start().await;
    let settings = SchedulerSettings {
        on_failure: OnFailure::CancelRest.into(),
        ..Default::default()
    };
    let scheduler = server.open(settings).await;
    let mut works = vec![failing().order(1)];
    works.extend(noop().order(2).times(1_200));
    works.extend(noop().order(3).times(1_200));
    scheduler.submit(works).await;
    let ended = scheduler.all_done().await;
    assert!(ended[1].seq > 1_201, "the last order was cancelled first");
    let cancelled = api::TaskFilter {
        outcomes: vec![Outcome::Cancelled.into()],
        ..Default::default()
    };
    let pages = pages(&scheduler, cancelled).await;
    let retried: Vec<i64> = pages.iter().flat_map(|(tasks, _)| tasks.clone()).collect();
    assert!(retried.iter().copied().eq(2..=2_401), "{retried:?}");
    let last_of_all = 2_401 + 2_400;
    let after = ended.len() as i64;
    let again = scheduler.read_stream(after, None).await.done;
    assert_eq!(again.len(), 2_400);
    let orders: Vec<Option<i64>> = again.iter().map(|done| done.effective_order).collect();
    assert!(orders.is_sorted(), "an order began before the one below it");
    assert_eq!(orders[0], Some(2));
    assert_eq!(scheduler.task(last_of_all).await.retry_of, Some(2_401));
}

#[tokio::test]
async fn tasks_without_an_order_are_retried_last_and_those_with_a_retry_are_passed_over() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let mut works = Vec::new();
    for order in [1, 2] {
        works.extend(failing().order(order).times(700));
        works.extend(failing().times(700));
    }
    scheduler.submit(works).await;
    let ended = scheduler.all_done().await;
    let is_ordered = |seq: &i64| (1..=700).contains(seq) || (1_401..=2_100).contains(seq);
    scheduler.scheduler.pause().await.expect("paused");
    let found = pages(&scheduler, api::TaskFilter::default()).await;
    let of_page: Vec<usize> = found.iter().map(|(tasks, _)| tasks.len()).collect();
    assert_eq!(of_page, [1_000, 1_000, 800]);
    let ordered: Vec<usize> = found
        .iter()
        .map(|(tasks, _)| tasks.iter().filter(|seq| is_ordered(seq)).count())
        .collect();
    assert_eq!(ordered, [1_000, 400, 0]);
    let mut retried: Vec<i64> = found.into_iter().flat_map(|(tasks, _)| tasks).collect();
    retried.sort_unstable();
    assert!(retried.into_iter().eq(1..=ended.len() as i64));
    // A slow machine may pass over them in several calls.
    let again = pages(&scheduler, api::TaskFilter::default()).await;
    assert!(again.is_empty(), "{again:?}");
}

#[tokio::test]
async fn calls_at_a_time_under_one_request_id_get_one_answer() {
    let server = Server::start().await;
    for round in 0..4 {
        let scheduler = server.open(SchedulerSettings::default()).await;
        scheduler.submit(failing().times(1_500)).await;
        scheduler.all_done().await;
        scheduler.scheduler.pause().await.expect("paused");
        let request = api::RetryFailedRequest {
            handle: scheduler.handle().to_owned(),
            request_id: format!("{ID}{round}"),
            ..Default::default()
        };
        let calls = (0..16).map(|_| {
            let (mut client, request) = (server.raw(), request.clone());
            async move { client.retry_failed(request).await.expect("retried") }
        });
        let answers = futures_util::future::join_all(calls).await;
        let answers = answers.into_iter().map(tonic::Response::into_inner);
        let answers: Vec<_> = answers.collect();
        assert_eq!(answers[0].retried.len(), 1_000);
        for answer in &answers {
            assert!(answer.retried == answers[0].retried, "{answer:?}");
            assert_eq!(answer.first_seq, Some(1_501));
            assert!(!answer.next_page_token.is_empty());
        }
        scheduler.cancel_everything().await;
    }
}

#[tokio::test]
async fn a_page_is_as_large_as_the_limits_admit() {
    let limits = Limits {
        queued_tasks: 100,
        ..Limits::default()
    };
    let setup = Setup {
        limits,
        ..Setup::default()
    };
    let server = Server::with(setup).await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    for _ in 0..3 {
        scheduler.submit(failing().times(100)).await;
        scheduler.all_done().await;
    }
    let token = String::new();
    let first = scheduler.scheduler.retry_failed(None, token).await;
    let first = first.expect("as many as there is room for");
    assert!((50..=100).contains(&first.retried.len()), "{first:?}");
    let rest = scheduler.all_done().await.len() as i64 - 300;
    assert_eq!(rest, first.retried.len() as i64);
    let token = first.next_page_token.clone();
    let second = scheduler.scheduler.retry_failed(None, token).await;
    let second = second.expect("the next ones");
    assert!((50..=100).contains(&second.retried.len()), "{second:?}");
    let is_new = |seq: &i64| !first.retried.contains(seq);
    assert!(second.retried.iter().all(is_new), "{second:?}");
}

#[tokio::test]
async fn what_is_past_its_retention_says_so() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler.submit([failing(), failing()]).await;
    scheduler.all_done().await;
    let mut journal = connect(&server.journal).await;
    let gone = journal.execute("delete from completion").await;
    gone.expect("the outcomes are gone, the tasks are not");
    let truncated = "CURSOR_TRUNCATED";
    let refused = scheduler.scheduler.retry(1).await.expect_err("no outcome");
    assert!(refused.is(truncated), "{refused:?}");
    let refused = scheduler.scheduler.cancel(1).await.expect_err("no outcome");
    assert!(refused.is(truncated), "{refused:?}");
    let id = Some(api::TaskId {
        handle: scheduler.handle().to_owned(),
        seq: 1,
    });
    let mut client = server.raw();
    let shown = client
        .get_task(api::GetTaskRequest { id: id.clone() })
        .await;
    assert_eq!(shown.expect_err("no outcome").code(), Code::OutOfRange);
    let explained = client.explain_task(api::ExplainTaskRequest { id }).await;
    assert_eq!(explained.expect_err("no outcome").code(), Code::OutOfRange);
}

#[tokio::test]
async fn a_task_of_a_target_that_is_no_more_keeps_no_other_from_being_retried() {
    let postgres = durable(Vec::new());
    let setup = |others| Setup {
        postgres: Some(&postgres),
        others,
        ..Setup::default()
    };
    let server = Server::with(setup(&["reports"])).await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler.submit([failing().on("reports"), failing()]).await;
    scheduler.all_done().await;
    let handle = scheduler.handle().to_owned();
    drop((scheduler, server));
    let server = Server::with(setup(&[])).await;
    let mut client = server.raw();
    let id = Some(api::TaskId {
        handle: handle.clone(),
        seq: 1,
    });
    let one = client
        .retry_task(api::RetryTaskRequest {
            id,
            ..Default::default()
        })
        .await;
    let all = api::RetryFailedRequest {
        handle: handle.clone(),
        ..Default::default()
    };
    let refused = one.expect_err("no target");
    assert_eq!(refused.code(), Code::InvalidArgument);
    let message = refused.message();
    assert!(message.contains("task 1 is one of reports"), "{message}");
    let all = client.retry_failed(all).await.expect("retried");
    let all = all.into_inner();
    assert_eq!((all.retried, all.first_seq), (vec![2], Some(3)));
    assert_eq!(
        (all.no_target, all.next_page_token),
        (vec![1], String::new())
    );
    let mut command = Command::new(PROGRAM);
    let command = command.args(["--server", &server.url, "retry", &handle]);
    let left = command.arg("--failed").output().expect("it runs");
    let said = String::from_utf8_lossy(&left.stderr).into_owned();
    assert_eq!(left.status.code(), Some(1), "{said}");
    assert!(said.contains("no longer configured: task 1"), "{said}");
}

#[tokio::test]
async fn a_released_scheduler_refuses_also_when_nothing_is_left_to_retry() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler.submit([noop()]).await;
    let release = scheduler.scheduler.release(api::ReleaseMode::Finish, true);
    release.await.expect("released");
    let refused = scheduler.scheduler.retry_failed(None, String::new()).await;
    let refused = refused.expect_err("released");
    assert!(refused.is("HANDLE_RELEASED"), "{refused:?}");
}
