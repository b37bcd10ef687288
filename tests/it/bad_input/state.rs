//! Requests that are wrong in the present state of a scheduler, and requests that only look wrong.

use super::{
    answer, invalid,
    live::{Schedulers, noop, opened, schedulers, sql},
    refusal,
};
use crate::harness::conversation::WAIT_TIMEOUT;
use rallypoint_client::api::{self, end::Reason};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tonic::Code;

const ID: &str = "f47ac10b-58cc-4372-a567-0e02b2c3d479";

fn exec(handle: &str, tasks: Vec<api::Task>) -> api::ExecAsyncRequest {
    api::ExecAsyncRequest {
        handle: handle.into(),
        tasks,
        ..Default::default()
    }
}

fn released(handle: &str) -> api::ReleaseSchedulerRequest {
    api::ReleaseSchedulerRequest {
        handle: handle.into(),
        wait: true,
        ..Default::default()
    }
}

async fn events(
    client: &mut Schedulers,
    handle: &str,
    after: i64,
) -> (Vec<api::AsyncDone>, api::End) {
    let request = api::SynchronizationRequest {
        handle: handle.into(),
        after,
        ..Default::default()
    };
    let mut stream = client
        .synchronization(request)
        .await
        .expect("it opens")
        .into_inner();
    let mut done = Vec::new();
    loop {
        let message = stream
            .message()
            .await
            .expect("it goes on")
            .expect("it ends with a reason");
        done.extend(message.done);
        if let Some(end) = message.end {
            return (done, end);
        }
    }
}

#[tokio::test]
async fn a_released_scheduler_takes_nothing_and_keeps_answering() {
    let mut client = schedulers().await;
    let handle = opened(&mut client, Default::default()).await;
    client
        .exec_async(exec(&handle, vec![noop(None); 3]))
        .await
        .expect("it takes tasks");
    let first = client
        .release_scheduler(released(&handle))
        .await
        .expect("released")
        .into_inner();
    assert_eq!(
        first,
        api::ReleaseSchedulerResponse {
            already_released: false,
            pending: 0
        }
    );
    let again = client
        .release_scheduler(released(&handle))
        .await
        .expect("again")
        .into_inner();
    assert_eq!(
        again,
        api::ReleaseSchedulerResponse {
            already_released: true,
            pending: 0
        }
    );
    let expected = refusal(Code::FailedPrecondition, "HANDLE_RELEASED");
    assert_eq!(
        answer(client.exec_async(exec(&handle, vec![noop(None)])).await),
        expected
    );
    assert_eq!(events(&mut client, &handle, 0).await.0.len(), 3);
    let cancel = api::CancelTaskRequest {
        id: Some(api::TaskId {
            handle: handle.clone(),
            seq: 2,
        }),
    };
    let cancelled = client
        .cancel_task(cancel)
        .await
        .expect("no error")
        .into_inner();
    assert_eq!(
        (cancelled.state(), cancelled.outcome()),
        (api::TaskState::Done, api::Outcome::Succeeded)
    );
}

#[tokio::test]
async fn a_request_id_is_good_for_one_payload() {
    let mut client = schedulers().await;
    let reused = refusal(Code::AlreadyExists, "REQUEST_ID_REUSED");
    let handle = opened(&mut client, Default::default()).await;
    let request = |tasks| api::ExecAsyncRequest {
        request_id: ID.into(),
        ..exec(&handle, tasks)
    };
    let first = client
        .exec_async(request(vec![noop(Some(1))]))
        .await
        .expect("taken")
        .into_inner();
    let again = client
        .exec_async(request(vec![noop(Some(1))]))
        .await
        .expect("taken")
        .into_inner();
    assert_eq!(first.first_seq, again.first_seq);
    assert_eq!(
        answer(client.exec_async(request(vec![noop(Some(2))])).await),
        reused
    );

    let open = |weight| api::GetSchedulerRequest {
        settings: Some(api::SchedulerSettings {
            weight: Some(weight),
            ..Default::default()
        }),
        request_id: "f47ac10b-58cc-4372-a567-0e02b2c3d480".into(),
        ..Default::default()
    };
    let first = client
        .get_scheduler(open(1.0))
        .await
        .expect("opened")
        .into_inner()
        .scheduler
        .expect("a scheduler");
    let again = client
        .get_scheduler(open(1.0))
        .await
        .expect("opened")
        .into_inner()
        .scheduler
        .expect("a scheduler");
    assert_eq!(first.handle, again.handle);
    assert_eq!(answer(client.get_scheduler(open(2.0)).await), reused);
}

#[tokio::test]
async fn a_late_order_is_refused_or_joins() {
    let mut client = schedulers().await;
    for (late_order, refused) in [
        (api::LateOrder::Reject, true),
        (api::LateOrder::Join, false),
    ] {
        let settings = api::SchedulerSettings {
            late_order: late_order.into(),
            ..Default::default()
        };
        let handle = opened(&mut client, settings).await;
        client
            .exec_async(exec(&handle, vec![sql("select pg_sleep(1)", Some(200))]))
            .await
            .expect("it takes a task");
        let late = client
            .exec_async(exec(&handle, vec![noop(Some(200)), noop(Some(100))]))
            .await;
        if refused {
            assert_eq!(
                answer(late),
                refusal(Code::FailedPrecondition, "ORDER_CLOSED")
            );
        } else {
            assert_eq!(late.expect("it joins").into_inner().count, 2);
        }
        let cancel = api::ReleaseSchedulerRequest {
            mode: api::ReleaseMode::Cancel.into(),
            ..released(&handle)
        };
        client.release_scheduler(cancel).await.expect("released");
    }
}

#[tokio::test]
async fn a_stream_starts_within_the_events_and_ends_when_nothing_is_left() {
    let mut client = schedulers().await;
    let handle = opened(&mut client, Default::default()).await;
    let (done, end) = events(&mut client, &handle, 0).await;
    assert_eq!((done.len(), end.reason()), (0, Reason::Goal));
    client
        .exec_async(exec(&handle, vec![noop(None); 4]))
        .await
        .expect("it takes tasks");
    let (done, end) = events(&mut client, &handle, 0).await;
    assert_eq!(
        (
            done.iter().map(|done| done.done_no).collect::<Vec<_>>(),
            end.reason()
        ),
        (vec![1, 2, 3, 4], Reason::Goal)
    );
    let ahead = api::SynchronizationRequest {
        handle: handle.clone(),
        after: 5,
        ..Default::default()
    };
    let expected = super::Answer {
        code: Code::OutOfRange,
        ..invalid("after", "CURSOR_AHEAD")
    };
    assert_eq!(answer(client.synchronization(ahead).await), expected);
    let negative = api::SynchronizationRequest {
        handle,
        after: -1,
        ..Default::default()
    };
    assert_eq!(
        answer(client.synchronization(negative).await),
        invalid("after", "CURSOR_NEGATIVE")
    );
}

#[tokio::test]
async fn a_task_that_is_not_there_is_not_found() {
    let mut client = schedulers().await;
    let handle = opened(&mut client, Default::default()).await;
    let id = Some(api::TaskId {
        handle: handle.clone(),
        seq: 9,
    });
    let expected = || refusal(Code::NotFound, "TASK_NOT_FOUND");
    assert_eq!(
        answer(
            client
                .get_task(api::GetTaskRequest { id: id.clone() })
                .await
        ),
        expected()
    );
    assert_eq!(
        answer(client.cancel_task(api::CancelTaskRequest { id }).await),
        expected()
    );
    client
        .release_scheduler(released(&handle))
        .await
        .expect("released");
    let id = Some(api::TaskId { handle, seq: 9 });
    assert_eq!(
        answer(
            client
                .get_task(api::GetTaskRequest { id: id.clone() })
                .await
        ),
        expected()
    );
    assert_eq!(
        answer(client.cancel_task(api::CancelTaskRequest { id }).await),
        expected()
    );
}

#[tokio::test]
async fn a_task_and_its_list_show_the_same() {
    let mut client = schedulers().await;
    let handle = opened(&mut client, Default::default()).await;
    done_running_and_blocked(&mut client, &handle).await;
    let list = |state: api::TaskState, page_token: &str| api::ListTasksRequest {
        handle: handle.clone(),
        page_size: 1,
        page_token: page_token.into(),
        filter: Some(api::TaskFilter {
            states: match state {
                api::TaskState::Unspecified => Vec::new(),
                state => vec![state.into()],
            },
            ..Default::default()
        }),
    };
    for (state, seq) in [
        (api::TaskState::Done, 1),
        (api::TaskState::Running, 2),
        (api::TaskState::Blocked, 3),
    ] {
        let page = page(&mut client, list(state, "")).await;
        assert_eq!(numbers(&page), [Some(seq)], "{state:?}");
        let id = page.tasks[0].id.clone();
        let task = client
            .get_task(api::GetTaskRequest { id })
            .await
            .expect("a task")
            .into_inner()
            .task
            .expect("a task");
        assert_eq!((task.state(), task.effective_order), (state, Some(seq)));
    }
    let any = api::TaskState::Unspecified;
    let all = page(&mut client, list(any, "")).await;
    let next = page(&mut client, list(any, &all.next_page_token)).await;
    assert_eq!(numbers(&next), [Some(2)]);
    let other = list(api::TaskState::Done, &all.next_page_token);
    assert_eq!(
        answer(client.list_tasks(other).await),
        invalid("page_token", "PAGE_TOKEN_INVALID")
    );
    let cancel = api::ReleaseSchedulerRequest {
        mode: api::ReleaseMode::Cancel.into(),
        ..released(&handle)
    };
    client.release_scheduler(cancel).await.expect("released");
}

/// Submits three tasks and waits until the first has ended and the second runs.
async fn done_running_and_blocked(client: &mut Schedulers, handle: &str) {
    let tasks = vec![
        sql("select 1", Some(1)),
        sql("select pg_sleep(60)", Some(2)),
        noop(Some(3)),
    ];
    client
        .exec_async(exec(handle, tasks))
        .await
        .expect("it takes tasks");
    let watch = api::SynchronizationRequest {
        handle: handle.to_owned(),
        until: Some(api::Until {
            kind: Some(api::until::Kind::Count(1)),
        }),
        ..Default::default()
    };
    let stream = client.synchronization(watch).await.expect("it opens");
    let mut stream = stream.into_inner();
    while stream.message().await.expect("it goes on").is_some() {}
    // Tasks of other tests may have the slots.
    let second = api::GetTaskRequest {
        id: Some(api::TaskId {
            handle: handle.to_owned(),
            seq: 2,
        }),
    };
    let runs = async {
        loop {
            let task = client.get_task(second.clone()).await.expect("a task");
            if task.into_inner().task.expect("a task").state() == api::TaskState::Running {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WAIT_TIMEOUT, runs).await.expect("it runs");
}

async fn page(client: &mut Schedulers, request: api::ListTasksRequest) -> api::ListTasksResponse {
    let page = client.list_tasks(request).await.expect("a page");
    page.into_inner()
}

fn numbers(page: &api::ListTasksResponse) -> Vec<Option<i64>> {
    let tasks = page.tasks.iter();
    tasks
        .map(|task| task.id.as_ref().map(|id| id.seq))
        .collect()
}
