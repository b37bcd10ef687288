//! Cancelling by filter: which tasks end, which are stopped, and which are left alone; page by
//! page, while others are submitted and the owner changes.

use crate::harness::{
    cluster::Cluster,
    conversation::Conversation,
    server::{Server, Setup},
    work::{noop, sleep, sql},
};
use rallypoint_client::api::{
    CancelTasksRequest, CancelTasksResponse, Outcome, ReleaseMode, SchedulerSettings, TaskFilter,
    TaskState,
};
use std::time::{Duration, SystemTime};

/// So many tasks take several pages.
const SEVERAL_PAGES: usize = 25_000;

fn of(filter: TaskFilter) -> CancelTasksRequest {
    CancelTasksRequest {
        filter: Some(filter),
        ..Default::default()
    }
}

fn in_states(states: &[TaskState]) -> TaskFilter {
    TaskFilter {
        states: states.iter().map(|one| (*one).into()).collect(),
        ..Default::default()
    }
}

fn of_order(order: i64) -> TaskFilter {
    TaskFilter {
        effective_order: Some(order),
        ..Default::default()
    }
}

fn labelled(key: &str, value: &str) -> TaskFilter {
    TaskFilter {
        labels: [(key.to_owned(), value.to_owned())].into(),
        ..Default::default()
    }
}

/// Makes the call to its last page: how many waited and how many ran, and the last task that is
/// meant.
async fn every_page(it: &Conversation, mut request: CancelTasksRequest) -> (i64, i64, i64) {
    let (mut waiting, mut running) = (0, 0);
    loop {
        let page = page(it, &request).await;
        waiting += page.waiting;
        running += page.running;
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return (waiting, running, page.last_seq);
        }
    }
}

async fn page(it: &Conversation, request: &CancelTasksRequest) -> CancelTasksResponse {
    let page = it.scheduler.cancel_tasks(request.clone()).await;
    page.expect("a page")
}

async fn cancelled(it: &Conversation) -> Vec<i64> {
    let done = it.all_done().await;
    let cancelled = done
        .iter()
        .filter(|done| done.outcome() == Outcome::Cancelled);
    let mut cancelled: Vec<i64> = cancelled.map(|done| done.seq).collect();
    cancelled.sort_unstable();
    cancelled
}

#[tokio::test]
async fn a_filter_cancels_what_meets_all_its_conditions_after_a_count_that_changes_nothing() {
    let server = Server::with(Setup {
        slots: 1,
        ..Setup::default()
    })
    .await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler.submit([gate.task().order(1)]).await;
    scheduler.until(|now| now.running == 1).await;
    let team = |n: i64| if n % 2 == 0 { "red" } else { "blue" };
    scheduler
        .submit((2..=9).map(|n| noop().order(n / 5 + 2).label("team", team(n))))
        .await;
    let red = TaskFilter {
        effective_order: Some(3),
        ..labelled("team", "red")
    };
    let count = CancelTasksRequest {
        dry_run: true,
        ..of(red.clone())
    };
    assert_eq!(every_page(&scheduler, count).await, (2, 0, 9));
    assert_eq!(scheduler.until(|_| true).await.done, 0);
    let counts = every_page(&scheduler, of(red.clone())).await;
    assert_eq!(counts, (2, 0, 9));
    let again = every_page(&scheduler, of(red)).await;
    assert_eq!(again, (0, 0, 9), "what is cancelled is counted once");
    let running = of(in_states(&[TaskState::Running]));
    let count = CancelTasksRequest {
        dry_run: true,
        ..running
    };
    assert_eq!(every_page(&scheduler, count).await, (0, 1, 9));
    gate.open().await;
    assert_eq!(cancelled(&scheduler).await, [6, 8]);
}

#[tokio::test]
async fn what_runs_is_stopped_only_where_it_is_meant() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let in_an_hour = SystemTime::now() + Duration::from_secs(3600);
    scheduler
        .submit([
            sleep(600_000).order(1),
            sleep(600_000).order(2),
            noop().not_before(in_an_hour),
        ])
        .await;
    scheduler.until(|now| now.running == 1).await;
    let waiting = [TaskState::Blocked, TaskState::Queued, TaskState::Retrying];
    let counts = every_page(&scheduler, of(in_states(&waiting))).await;
    assert_eq!(counts, (2, 0, 3));
    let now = scheduler.until(|now| now.done == 2).await;
    assert_eq!(now.running, 1, "it goes on");
    let counts = every_page(&scheduler, of(TaskFilter::default())).await;
    assert_eq!(counts, (0, 1, 3));
    assert_eq!(cancelled(&scheduler).await, [1, 2, 3]);
    scheduler.submit([noop()]).await;
    let done = scheduler.all_done().await;
    assert_eq!(done[3].outcome(), Outcome::Succeeded, "it is still open");
}

#[tokio::test]
async fn tasks_are_cancelled_by_the_time_of_their_submit_and_their_events_say_by_whom() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler
        .submit([gate.task().order(1), noop().order(2)])
        .await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let half = SystemTime::now();
    scheduler.submit([noop().order(2), noop().order(3)]).await;
    let late = TaskFilter {
        submitted_from: Some(half.into()),
        ..of_order(2)
    };
    assert_eq!(every_page(&scheduler, of(late)).await, (1, 0, 4));
    let early = TaskFilter {
        submitted_before: Some(half.into()),
        ..in_states(&[TaskState::Blocked])
    };
    assert_eq!(every_page(&scheduler, of(early)).await, (1, 0, 4));
    gate.open().await;
    assert_eq!(cancelled(&scheduler).await, [2, 3]);
    let done = scheduler.task(3).await.done.expect("it has ended");
    let error = done.error.expect("why");
    assert_eq!(error.code, "CANCELLED");
    let says = |words: &str| assert!(error.message.contains(words), "{error:?}");
    says("cancelled by ");
    says("order 2, submitted from 20");
}

#[tokio::test]
async fn a_label_that_is_common_and_one_that_is_rare_find_their_tasks() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler.submit([gate.task().order(0)]).await;
    // A row of the journal for each batch at least.
    for n in 0..300 {
        let rare = if n % 100 == 0 { "yes" } else { "no" };
        let task = noop().order(n % 3 + 1).label("rare", rare);
        scheduler.submit([task.label("common", "yes")]).await;
    }
    let rare = every_page(&scheduler, of(labelled("rare", "yes"))).await;
    assert_eq!(rare, (3, 0, 301));
    let common = every_page(&scheduler, of(labelled("common", "yes"))).await;
    assert_eq!(common, (297, 0, 301));
    gate.open().await;
    assert_eq!(cancelled(&scheduler).await, Vec::from_iter(2..=301));
}

#[tokio::test]
async fn what_is_submitted_after_the_count_or_the_first_page_is_left_alone() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler.submit([gate.task().order(0)]).await;
    let after_the_count = scheduler.submit(noop().order(1).times(3)).await + 3;
    let count = CancelTasksRequest {
        dry_run: true,
        ..of(of_order(1))
    };
    let (waiting, _, last) = every_page(&scheduler, count).await;
    assert_eq!((waiting, last), (3, after_the_count - 1));
    scheduler.submit(noop().order(1).times(2)).await;
    let counted = CancelTasksRequest {
        last_seq: Some(last),
        ..of(of_order(1))
    };
    assert_eq!(every_page(&scheduler, counted).await, (3, 0, last));
    submit_many(&scheduler, 1).await;
    let first = page(&scheduler, &of(of_order(1))).await;
    assert!(!first.next_page_token.is_empty(), "{first:?}");
    let kept = scheduler.submit(noop().order(1).times(2)).await;
    let rest = CancelTasksRequest {
        page_token: first.next_page_token,
        ..of(of_order(1))
    };
    let (waiting, _, last) = every_page(&scheduler, rest).await;
    assert_eq!(first.waiting + waiting, SEVERAL_PAGES as i64 + 2);
    assert_eq!(last, kept - 1);
    gate.open().await;
    let left = scheduler.all_done().await;
    let left = left
        .iter()
        .filter(|done| done.outcome() == Outcome::Succeeded);
    let left: Vec<i64> = left.map(|done| done.seq).collect();
    assert_eq!(left, [1, kept, kept + 1]);
}

async fn submit_many(it: &Conversation, order: i64) {
    for _ in 0..SEVERAL_PAGES / 5_000 {
        it.submit(noop().order(order).times(5_000)).await;
    }
}

#[tokio::test]
async fn a_cancellation_goes_on_with_the_next_owner_where_the_last_page_ended() {
    let mut cluster = Cluster::start(2).await;
    let client = cluster.client_of_all();
    let scheduler = cluster.open(&client, SchedulerSettings::default()).await;
    scheduler.submit([sleep(600_000).order(0)]).await;
    scheduler.until(|now| now.running == 1).await;
    submit_many(&scheduler, 1).await;
    let waiting = of(in_states(&[TaskState::Blocked]));
    let first = page(&scheduler, &waiting).await;
    let owner = cluster.owner().await;
    cluster.kill_9(owner);
    let kept = scheduler.submit([noop().order(1)]).await;
    let rest = CancelTasksRequest {
        page_token: first.next_page_token,
        ..waiting
    };
    let (waiting, running, last) = every_page(&scheduler, rest).await;
    assert_eq!((running, last), (0, kept - 1));
    let all = SEVERAL_PAGES as i64;
    assert!(first.waiting > 0 && first.waiting + waiting <= all);
    let now = scheduler.until(|now| now.done >= all).await;
    assert_eq!(now.done, all, "the first one and the last one are left");
    assert!(scheduler.task(kept).await.done.is_none());
}

#[tokio::test]
async fn of_a_scheduler_that_has_ended_nothing_is_left_to_cancel() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler.submit([noop(), noop()]).await;
    let released = scheduler.scheduler.release(ReleaseMode::Finish, true).await;
    released.expect("released");
    let counts = every_page(&scheduler, of(TaskFilter::default())).await;
    assert_eq!(counts, (0, 0, 2));
    let none = server.open(SchedulerSettings::default()).await;
    assert_eq!(every_page(&none, of(of_order(1))).await, (0, 0, 0));
}

#[tokio::test]
async fn conditions_on_ends_and_a_missing_filter_are_refused() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler.submit([noop()]).await;
    let now = Some(SystemTime::now().into());
    let outcome = TaskFilter {
        outcomes: vec![Outcome::Failed.into()],
        ..Default::default()
    };
    let code = TaskFilter {
        error_codes: vec!["22012".into()],
        ..Default::default()
    };
    let ended = TaskFilter {
        ended_from: now,
        ..Default::default()
    };
    let done = in_states(&[TaskState::Queued, TaskState::Done]);
    for (field, filter) in [
        ("filter", None),
        ("filter.outcomes", Some(outcome)),
        ("filter.error_codes", Some(code)),
        ("filter.ended_from", Some(ended)),
        ("filter.states[1]", Some(done)),
    ] {
        let request = CancelTasksRequest {
            filter,
            ..Default::default()
        };
        let refused = scheduler.scheduler.cancel_tasks(request).await;
        let refused = refused.expect_err("refused");
        assert!(refused.is("FILTER_INVALID"), "{field}: {refused:?}");
        assert!(format!("{refused:?}").contains(field), "{refused:?}");
    }
    let nobody = CancelTasksRequest {
        last_seq: Some(0),
        ..of(TaskFilter::default())
    };
    let refused = scheduler.scheduler.cancel_tasks(nobody).await;
    let refused = refused.expect_err("refused");
    assert!(refused.is("SEQ_OUT_OF_RANGE"), "{refused:?}");
}

#[tokio::test]
async fn the_end_of_a_task_says_who_has_cancelled_it_wherever_it_stood() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let retrying = || sql("select 1/0").retry_in(3_600_000);
    let works = [sleep(600_000), sleep(600_000), retrying()];
    scheduler.submit(works).await;
    scheduler
        .until(|now| now.running == 2 && now.retrying == 1)
        .await;
    let ann = server.client.clone().with_caller("ann").expect("a name");
    let ann = ann.scheduler(scheduler.handle());
    ann.cancel(1).await.expect("it is being stopped");
    ann.cancel_tasks(of(TaskFilter::default()))
        .await
        .expect("all");
    let done = scheduler.all_done().await;
    let said = |seq: i64| {
        let done = done.iter().find(|done| done.seq == seq).expect("it ended");
        let error = done.error.as_ref().expect("why");
        assert_eq!(
            (done.outcome(), &*error.code),
            (Outcome::Cancelled, "CANCELLED")
        );
        error.message.clone()
    };
    assert_eq!(said(1), "cancelled by ann while it ran");
    assert!(said(2).starts_with("cancelled by ann while it ran, with others: "));
    assert!(said(3).starts_with("cancelled by ann before another attempt, with others: "));
}
