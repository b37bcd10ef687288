//! A task is shown as it was submitted, so that it can be submitted again.

use crate::harness::{
    server::Server,
    work::{duration, noop, sql},
};
use rallypoint_client::api::{
    LateOrder, ListTasksRequest, NoopTask, Outcome, RetryPolicy, SchedulerSettings, SqlTask,
    SqlValue, Task, TaskOptions, sql_value::Kind as Value, task::Kind,
};
use std::collections::HashMap;

#[tokio::test]
async fn get_task_shows_all_of_a_task_with_the_options_in_effect_and_it_can_be_submitted_again() {
    let server = Server::start().await;
    let defaults = TaskOptions {
        total_timeout: Some(duration(60_000)),
        retry: Some(retry()),
        labels: labels(&[("team", "blue"), ("job", "none")]),
        ..Default::default()
    };
    let settings = SchedulerSettings {
        default_options: Some(defaults),
        ..Default::default()
    };
    let scheduler = server.open(settings).await;
    let options = TaskOptions {
        timeout: Some(duration(30_000)),
        result_rows: Some(3),
        labels: labels(&[("job", "division")]),
        ..Default::default()
    };
    let submitted = vec![division("", options.clone())];
    scheduler.scheduler.exec(submitted).await.expect("taken");
    let failed = scheduler.all_done().await;
    assert_eq!(
        (failed[0].outcome(), failed[0].attempt),
        (Outcome::Failed, 2)
    );

    let shown = scheduler.task(1).await.task.expect("the task");
    let in_effect = TaskOptions {
        total_timeout: Some(duration(60_000)),
        retry: Some(retry()),
        labels: labels(&[("team", "blue"), ("job", "division")]),
        ..options
    };
    assert_eq!(shown, division("app", in_effect));

    let again = scheduler.scheduler.exec(vec![shown.clone()]).await;
    assert_eq!(again.expect("taken").first_seq, 2);
    scheduler.all_done().await;
    let copy = scheduler.task(2).await;
    assert_eq!(copy.task, Some(shown));
    assert_eq!(copy.done.expect("its end").outcome(), Outcome::Failed);
}

/// A task that fails, with parameters.
fn division(target: &str, options: TaskOptions) -> Task {
    let value = |kind| SqlValue { kind: Some(kind) };
    let sql = SqlTask {
        statement: "select 1 / $1::int, $2::text".into(),
        params: vec![value(Value::Text("0".into())), value(Value::Null(0))],
        target: target.into(),
    };
    Task {
        kind: Some(Kind::Sql(sql)),
        order: Some(7),
        options: Some(options),
    }
}

fn retry() -> RetryPolicy {
    RetryPolicy {
        max_attempts: Some(2),
        max_losses: Some(5),
        initial_backoff: Some(duration(1)),
        backoff_multiplier: Some(1.5),
        max_backoff: Some(duration(20)),
        jitter: Some(0.5),
        non_retryable_codes: vec!["23505".into()],
    }
}

#[tokio::test]
async fn lists_leave_bodies_out_and_an_order_joined_stands_beside_the_one_asked_for() {
    let server = Server::start().await;
    let settings = SchedulerSettings {
        late_order: LateOrder::Join.into(),
        ..Default::default()
    };
    let scheduler = server.open(settings).await;
    let gate = server.gate().await;
    scheduler.submit([gate.task().order(200)]).await;
    let late = NoopTask {
        payload: "late".into(),
    };
    let late = Task {
        kind: Some(Kind::Noop(late)),
        order: Some(100),
        options: None,
    };
    scheduler
        .scheduler
        .exec(vec![late.clone()])
        .await
        .expect("it joins");
    scheduler.submit([sql("select 1"), noop()]).await;
    let whole = scheduler.task(2).await;
    assert_eq!(
        (kind(&whole.task), whole.effective_order),
        (late.kind, Some(200))
    );
    gate.open().await;
    let done = scheduler.all_done().await;
    let joined = done.iter().find(|done| done.seq == 2).expect("its end");
    assert_eq!(joined.effective_order, Some(200));

    let list = scheduler.scheduler.tasks(ListTasksRequest::default()).await;
    let list = list.expect("a page").tasks;
    let kinds: Vec<_> = list[..3].iter().map(|view| kind(&view.task)).collect();
    let bare = SqlTask {
        target: "app".into(),
        ..Default::default()
    };
    let noop = Some(Kind::Noop(NoopTask::default()));
    assert_eq!(kinds, [noop.clone(), Some(Kind::Sql(bare)), noop]);
    let orders = |view: &rallypoint_client::api::TaskView| {
        let task = view.task.as_ref().expect("the task");
        (task.order, view.effective_order)
    };
    assert_eq!(orders(&list[2]), (Some(100), Some(200)));
    assert_eq!(orders(&list[1]), (None, None));
}

fn kind(task: &Option<Task>) -> Option<Kind> {
    task.as_ref().and_then(|task| task.kind.clone())
}

fn labels(labels: &[(&str, &str)]) -> HashMap<String, String> {
    let label = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    labels.iter().map(label).collect()
}
