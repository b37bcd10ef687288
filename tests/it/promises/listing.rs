//! Lists of tasks: by state and order, newest first, page by page.

use crate::harness::{
    conversation::Conversation,
    server::{Server, Setup},
    work::{noop, sleep},
};
use rallypoint_client::api::{ListTasksRequest, ReleaseMode, SchedulerSettings, TaskState};

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
    let list = async |state, order| list(&scheduler, state, order).await;
    assert_eq!(list(TaskState::Done, None).await, [10, 6, 5, 4, 3, 2, 1]);
    assert_eq!(list(TaskState::Running, None).await, [7]);
    assert_eq!(list(TaskState::Queued, None).await, [8]);
    assert_eq!(list(TaskState::Blocked, Some(2)).await, [9]);
    assert_eq!(list(TaskState::Blocked, Some(1)).await, [0; 0]);
    assert_eq!(list(TaskState::Done, Some(1)).await, [5, 3, 1]);
    assert_eq!(list(TaskState::Unspecified, Some(1)).await, [8, 7, 5, 3, 1]);
    assert_eq!(
        list(TaskState::Unspecified, None).await,
        [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]
    );
    gate.open().await;
    scheduler.all_done().await;
    scheduler
        .scheduler
        .release(ReleaseMode::Finish, true)
        .await
        .expect("released");
    assert_eq!(list(TaskState::Done, Some(2)).await, [9]);
}

/// The numbers of the tasks of a list, read in pages of two.
async fn list(scheduler: &Conversation, state: TaskState, order: Option<i64>) -> Vec<i64> {
    let mut found = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = ListTasksRequest {
            handle: scheduler.handle().to_owned(),
            page_size: 2,
            page_token,
            state: state.into(),
            order,
        };
        let page = scheduler.scheduler.tasks(request).await.expect("a page");
        let tasks = page.tasks.iter();
        found.extend(tasks.filter_map(|task| Some(task.id.as_ref()?.seq)));
        if page.next_page_token.is_empty() {
            return found;
        }
        page_token = page.next_page_token;
    }
}
