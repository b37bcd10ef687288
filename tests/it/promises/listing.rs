//! Lists of tasks: by every condition, page by page, while others come and go.

use crate::harness::{
    conversation::Conversation,
    gate::Gate,
    postgres::connect,
    server::{Server, Setup},
    work::{Work, failing, noop, sleep},
};
use rallypoint_client::api::{
    self, ListTasksRequest, Outcome, ReleaseMode, SchedulerSettings, TaskFilter, TaskState,
};
use sqlx::Executor;
use std::time::{Duration, SystemTime};

#[tokio::test]
async fn tasks_are_listed_by_state_and_order_newest_first_page_by_page() {
    let server = Server::with(Setup {
        slots: 1,
        ..Setup::default()
    })
    .await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler.submit((1..=6).map(|n| noop().order(n % 2))).await;
    scheduler.until(|now| now.done == 6).await;
    let gate = server.gate().await;
    let waiting = [gate.task().order(1), gate.task().order(1)];
    scheduler
        .submit(waiting.into_iter().chain([sleep(1).order(2)]))
        .await;
    scheduler.submit([noop()]).await;
    scheduler
        .until(|now| now.running == 1 && now.done == 7)
        .await;
    let list = async |states: &[TaskState], order| {
        let filter = TaskFilter {
            effective_order: order,
            ..in_states(states)
        };
        list(&scheduler, filter, 2).await
    };
    let waiting = [TaskState::Queued, TaskState::Blocked];
    assert_eq!(list(&[TaskState::Done], None).await, [10, 6, 5, 4, 3, 2, 1]);
    assert_eq!(list(&[TaskState::Running], None).await, [7]);
    assert_eq!(list(&[TaskState::Queued], None).await, [8]);
    assert_eq!(list(&[TaskState::Blocked], Some(2)).await, [9]);
    assert_eq!(list(&[TaskState::Blocked], Some(1)).await, [0; 0]);
    assert_eq!(list(&waiting, None).await, [9, 8]);
    assert_eq!(list(&[TaskState::Done], Some(1)).await, [5, 3, 1]);
    let done_or_running = [TaskState::Done, TaskState::Running];
    assert_eq!(list(&done_or_running, Some(1)).await, [7, 5, 3, 1]);
    assert_eq!(list(&[], Some(1)).await, [8, 7, 5, 3, 1]);
    assert_eq!(list(&[], None).await, [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
    gate.open().await;
    scheduler.all_done().await;
    scheduler
        .scheduler
        .release(ReleaseMode::Finish, true)
        .await
        .expect("released");
    assert_eq!(list(&[TaskState::Done], Some(2)).await, [9]);
    assert_eq!(list(&done_or_running, None).await.len(), 10);
}

/// Twelve tasks of orders 1 to 12, of which every fourth fails and every third has a label; then,
/// after a time, four more without order: of these the second fails, and the last runs.
struct Mixed {
    server: Server,
    scheduler: Conversation,
    gate: Gate,
    half: SystemTime,
}

async fn mixed() -> Mixed {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let mixed = (1..=12).map(|n| {
        let task = if n % 4 == 0 { failing() } else { noop() };
        labelled(
            task.order(n),
            &[("third", if n % 3 == 0 { "yes" } else { "no" })],
        )
    });
    scheduler.submit(mixed).await;
    scheduler.all_done().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let half = SystemTime::now();
    let more = [noop(), failing(), sleep(1).timeout(60_000)];
    scheduler
        .submit(more.map(|task| labelled(task, &[("third", "yes"), ("late", "")])))
        .await;
    scheduler.all_done().await;
    let gate = server.gate().await;
    scheduler
        .submit([labelled(gate.task(), &[("third", "yes")])])
        .await;
    scheduler.until(|now| now.running == 1).await;
    Mixed {
        server,
        scheduler,
        gate,
        half,
    }
}

impl Mixed {
    /// A list in pages of one.
    async fn is(&self, filter: TaskFilter) -> Vec<i64> {
        list(&self.scheduler, filter, 1).await
    }
}

#[tokio::test]
async fn tasks_are_listed_by_outcome_and_label() {
    let mixed = mixed().await;
    let is = async |filter| mixed.is(filter).await;
    let failed = || outcomes(&[Outcome::Failed]);
    assert_eq!(is(failed()).await, [14, 12, 8, 4]);
    assert_eq!(is(outcomes(&[Outcome::TimedOut])).await, [0; 0]);
    let mut ended = is(outcomes(&[Outcome::Failed, Outcome::Succeeded])).await;
    ended.sort_unstable();
    assert_eq!(ended, Vec::from_iter(1..=15));
    let third = || labels(&[("third", "yes")]);
    assert_eq!(is(third()).await, [16, 15, 14, 13, 12, 9, 6, 3]);
    assert_eq!(is(labels(&[("third", "never")])).await, [0; 0]);
    let two = labels(&[("third", "yes"), ("late", "")]);
    assert_eq!(is(two).await, [15, 14, 13]);
    let running = TaskFilter {
        labels: third().labels,
        ..in_states(&[TaskState::Running])
    };
    assert_eq!(is(running).await, [16]);
    let both = TaskFilter {
        labels: third().labels,
        ..failed()
    };
    assert_eq!(is(both.clone()).await, [14, 12]);
    let of_order = TaskFilter {
        effective_order: Some(12),
        ..both
    };
    assert_eq!(is(of_order).await, [12]);
    let by_code = |code: &str| TaskFilter {
        error_codes: vec![code.into()],
        ..Default::default()
    };
    assert_eq!(is(by_code("22012")).await, [14, 12, 8, 4]);
    assert_eq!(is(by_code("LOST")).await, [0; 0]);
    let never = TaskFilter {
        states: vec![TaskState::Queued.into()],
        ..failed()
    };
    assert_eq!(is(never).await, [0; 0], "what waits has not failed");
    mixed.gate.open().await;
    drop(mixed.server);
}

#[tokio::test]
async fn tasks_are_listed_by_time() {
    let mixed = mixed().await;
    let is = async |filter| mixed.is(filter).await;
    let half = Some(mixed.half.into());
    let late = TaskFilter {
        submitted_from: half,
        ..Default::default()
    };
    assert_eq!(is(late).await, [16, 15, 14, 13]);
    let early = TaskFilter {
        submitted_from: Some((mixed.half - Duration::from_secs(3600)).into()),
        submitted_before: half,
        ..labels(&[("third", "yes")])
    };
    assert_eq!(is(early).await, [12, 9, 6, 3]);
    let early_and_queued = TaskFilter {
        submitted_before: half,
        ..in_states(&[TaskState::Queued, TaskState::Running])
    };
    assert_eq!(is(early_and_queued).await, [0; 0]);
    let failed = || outcomes(&[Outcome::Failed]);
    let failed_early = TaskFilter {
        ended_before: half,
        ..failed()
    };
    assert_eq!(is(failed_early).await, [12, 8, 4]);
    let failed_late = TaskFilter {
        ended_from: half,
        ..failed()
    };
    assert_eq!(is(failed_late).await, [14]);
    let submitted_early = TaskFilter {
        submitted_before: half,
        ..failed()
    };
    assert_eq!(is(submitted_early).await, [12, 8, 4]);
    mixed.gate.open().await;
}

#[tokio::test]
async fn pages_that_are_read_while_tasks_come_and_end_show_each_task_once() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let task = |n: i64| {
        let task = if n % 5 == 0 { failing() } else { noop() };
        labelled(task, &[("fifth", if n % 5 == 0 { "yes" } else { "no" })])
    };
    scheduler.submit((1..=200).map(task)).await;
    scheduler.all_done().await;
    let stop = tokio_util::sync::CancellationToken::new();
    let (others, stopped) = (scheduler.clone(), stop.clone());
    let submitting = tokio::spawn(async move {
        while !stopped.is_cancelled() {
            others.submit((1..=20).map(task)).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    for (filter, there) in [
        (TaskFilter::default(), Vec::from_iter(1..=200)),
        (
            labels(&[("fifth", "yes")]),
            Vec::from_iter((1..=40).map(|n| n * 5)),
        ),
        (
            outcomes(&[Outcome::Failed]),
            Vec::from_iter((1..=40).map(|n| n * 5)),
        ),
        (in_states(&[TaskState::Done]), Vec::from_iter(1..=200)),
    ] {
        let mut found = list(&scheduler, filter.clone(), 7).await;
        found.sort_unstable();
        let all = found.len();
        found.dedup();
        assert_eq!(found.len(), all, "{filter:?}: twice");
        found.retain(|seq| *seq <= 200);
        assert_eq!(found, there, "{filter:?}");
    }
    stop.cancel();
    submitting.await.expect("it submits");
    scheduler.cancel_everything().await;
}

#[tokio::test]
async fn a_list_goes_on_behind_tasks_that_are_past_their_retention() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let in_months = SystemTime::now() + Duration::from_secs(60 * 86_400);
    scheduler.submit([noop().not_before(in_months)]).await;
    for (count, done) in [(5, 5), (300, 305), (10, 315)] {
        scheduler.submit(noop().times(count)).await;
        scheduler.until(|now| now.done == done).await;
    }
    let go = "delete from completion where min_seq between 7 and 306;
        delete from submission where first_seq between 7 and 306";
    let mut psql = connect(&scheduler.journal).await;
    psql.execute(go).await.expect("gone");
    let there: Vec<i64> = (1..=6).chain(307..=316).rev().collect();
    for size in [3, 100] {
        let any = in_states(&[TaskState::Blocked, TaskState::Done]);
        assert_eq!(list(&scheduler, any, size).await, there);
        let done = list(&scheduler, in_states(&[TaskState::Done]), size).await;
        assert_eq!(done, there[..15]);
    }
    scheduler.cancel_everything().await;
    let done = list(&scheduler, in_states(&[TaskState::Done]), 100).await;
    assert_eq!(done, there, "of one that was released");
}

fn labelled(task: Work, labels: &[(&str, &str)]) -> Work {
    task.with(|options| options.labels = pairs(labels))
}

fn pairs(labels: &[(&str, &str)]) -> std::collections::HashMap<String, String> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    labels.iter().map(owned).collect()
}

fn labels(labels: &[(&str, &str)]) -> TaskFilter {
    TaskFilter {
        labels: pairs(labels),
        ..Default::default()
    }
}

fn outcomes(outcomes: &[Outcome]) -> TaskFilter {
    TaskFilter {
        outcomes: outcomes.iter().map(|one| (*one).into()).collect(),
        ..Default::default()
    }
}

fn in_states(states: &[TaskState]) -> TaskFilter {
    TaskFilter {
        states: states.iter().map(|one| (*one).into()).collect(),
        ..Default::default()
    }
}

/// The numbers of the tasks of a list, in the order of the list.
async fn list(scheduler: &Conversation, filter: TaskFilter, page_size: i32) -> Vec<i64> {
    let mut found = Vec::new();
    let mut request = ListTasksRequest {
        page_size,
        filter: Some(filter),
        ..Default::default()
    };
    loop {
        let page: api::ListTasksResponse = scheduler
            .scheduler
            .tasks(request.clone())
            .await
            .expect("a page");
        let tasks = page.tasks.iter();
        found.extend(tasks.filter_map(|task| Some(task.id.as_ref()?.seq)));
        if page.next_page_token.is_empty() {
            return found;
        }
        request.page_token = page.next_page_token;
    }
}
