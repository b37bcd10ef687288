//! What is wrong for the present state of a scheduler, and what looks wrong but is not.

use super::{
    answer, invalid,
    live::{Schedulers, from, noop, opened, schedulers, sql},
    refusal,
};
use rallypoint_client::api::{self, end::Reason};
use tonic::{Code, Status};
use tonic_types::StatusExt;

const UNKNOWN: &str = "01890a5d-ac96-7000-8000-000000000001";
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

/// The whole error, as bytes: two that are equal tell nothing apart.
fn bytes<T: std::fmt::Debug>(result: Result<T, Status>) -> (Code, String, Vec<u8>) {
    let status = result.expect_err("not the caller's");
    assert_eq!(
        status
            .get_error_details()
            .error_info()
            .map(|info| info.reason.as_str()),
        Some("HANDLE_NOT_FOUND")
    );
    (
        status.code(),
        status.message().to_owned(),
        status.details().to_vec(),
    )
}

#[tokio::test]
async fn what_is_not_there_and_what_is_not_yours_get_the_same_answer() {
    let mut client = schedulers().await;
    let theirs = opened(&mut client, Default::default()).await;
    client
        .exec_async(exec(&theirs, vec![noop(None)]))
        .await
        .expect("it takes a task");
    let mut answers = Vec::new();
    for handle in [UNKNOWN, theirs.as_str()] {
        let id = Some(api::TaskId {
            handle: handle.into(),
            seq: 1,
        });
        let watch = api::SynchronizationRequest {
            handle: handle.into(),
            ..Default::default()
        };
        let mask = Some(prost_types::FieldMask {
            paths: vec!["weight".into()],
        });
        let update = api::UpdateSchedulerRequest {
            handle: handle.into(),
            settings: None,
            update_mask: mask,
        };
        let list = api::ListTasksRequest {
            handle: handle.into(),
            ..Default::default()
        };
        let resume = api::ResumeSchedulerRequest {
            handle: handle.into(),
            ..Default::default()
        };
        answers.push([
            bytes(
                client
                    .exec_async(from("others", exec(handle, vec![noop(None)])))
                    .await,
            ),
            bytes(client.synchronization(from("others", watch)).await),
            bytes(
                client
                    .release_scheduler(from("others", released(handle)))
                    .await,
            ),
            bytes(
                client
                    .describe_scheduler(from(
                        "others",
                        api::DescribeSchedulerRequest {
                            handle: handle.into(),
                        },
                    ))
                    .await,
            ),
            bytes(client.update_scheduler(from("others", update)).await),
            bytes(
                client
                    .pause_scheduler(from(
                        "others",
                        api::PauseSchedulerRequest {
                            handle: handle.into(),
                        },
                    ))
                    .await,
            ),
            bytes(client.resume_scheduler(from("others", resume)).await),
            bytes(
                client
                    .cancel_task(from("others", api::CancelTaskRequest { id: id.clone() }))
                    .await,
            ),
            bytes(
                client
                    .get_task(from("others", api::GetTaskRequest { id }))
                    .await,
            ),
            bytes(client.list_tasks(from("others", list)).await),
        ]);
    }
    assert_eq!(answers[0], answers[1]);
    let all = client
        .list_schedulers(from("others", api::ListSchedulersRequest::default()))
        .await
        .expect("a list")
        .into_inner();
    assert_eq!(all.schedulers.len(), 0);
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
async fn a_stream_starts_within_the_events_and_ends_when_nothing_is_outstanding() {
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
    let tasks = vec![
        sql("select 1", Some(1)),
        sql("select pg_sleep(60)", Some(2)),
        noop(Some(3)),
    ];
    client
        .exec_async(exec(&handle, tasks))
        .await
        .expect("it takes tasks");
    let count = api::Until {
        kind: Some(api::until::Kind::Count(1)),
    };
    let watch = api::SynchronizationRequest {
        handle: handle.clone(),
        until: Some(count),
        ..Default::default()
    };
    let mut stream = client
        .synchronization(watch)
        .await
        .expect("it opens")
        .into_inner();
    while stream.message().await.expect("it goes on").is_some() {}
    let list = |state: api::TaskState, page_token: &str| api::ListTasksRequest {
        handle: handle.clone(),
        page_size: 1,
        page_token: page_token.into(),
        state: state.into(),
        order: None,
    };
    for (state, seq) in [
        (api::TaskState::Done, 1),
        (api::TaskState::Running, 2),
        (api::TaskState::Blocked, 3),
    ] {
        let page = client
            .list_tasks(list(state, ""))
            .await
            .expect("a page")
            .into_inner();
        assert_eq!(
            page.tasks
                .iter()
                .map(|task| task.id.as_ref().map(|id| id.seq))
                .collect::<Vec<_>>(),
            [Some(seq)],
            "{state:?}"
        );
        let id = page.tasks[0].id.clone();
        let task = client
            .get_task(api::GetTaskRequest { id })
            .await
            .expect("a task")
            .into_inner()
            .task
            .expect("a task");
        assert_eq!((task.state(), task.order), (state, Some(seq)));
    }
    let all = client
        .list_tasks(list(api::TaskState::Unspecified, ""))
        .await
        .expect("a page")
        .into_inner();
    let next = client
        .list_tasks(list(api::TaskState::Unspecified, &all.next_page_token))
        .await
        .expect("a page")
        .into_inner();
    assert_eq!(next.tasks[0].id.as_ref().map(|id| id.seq), Some(2));
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
