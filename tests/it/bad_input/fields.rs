//! Requests that are wrong whatever the service is doing. Every RPC is tried over the network; the
//! full table of values stands beside the validation.

use super::{
    answer, answer_of, every_call, invalid,
    live::{noop, opened, schedulers, sql, statuses, still_answers},
};
use rallypoint_client::api;
use tonic::{Code, Request, metadata::MetadataValue};

#[tokio::test]
async fn a_malformed_handle_is_named_by_every_call() {
    let mut client = schedulers().await;
    for handle in [
        "",
        "00000000-0000-0000-0000-000000000000",
        "{01890a5d-ac96-7000-8000-000000000001}",
        "x' or '1'='1",
    ] {
        for (field, error) in every_call::errors(&mut client, "default", handle).await {
            assert_eq!(answer_of(&error), invalid(field, "ID_MALFORMED"));
        }
    }
}

#[tokio::test]
async fn wrong_settings_are_named() {
    let mut client = schedulers().await;
    let settings = api::SchedulerSettings {
        max_parallelism: Some(0),
        ..Default::default()
    };
    let open = api::GetSchedulerRequest {
        settings: Some(settings),
        ..Default::default()
    };
    assert_eq!(
        answer(client.get_scheduler(open).await),
        invalid("settings.max_parallelism", "LIMIT_ZERO")
    );
}

#[tokio::test]
async fn wrong_fields_are_named_and_nothing_is_done() {
    let mut client = schedulers().await;
    let handle = opened(&mut client, Default::default()).await;
    let exec = |tasks| api::ExecAsyncRequest {
        handle: handle.clone(),
        tasks,
        ..Default::default()
    };
    let table = [
        (exec(vec![]), "tasks", "TASKS_EMPTY"),
        (exec(vec![noop(None); 10_001]), "tasks", "TOO_MANY_TASKS"),
        (
            exec(vec![noop(None), noop(Some(-1))]),
            "tasks[1].order",
            "ORDER_OUT_OF_RANGE",
        ),
        (
            exec(vec![noop(None), sql("", None)]),
            "tasks[1].sql.statement",
            "BODY_EMPTY",
        ),
        (
            exec(vec![sql("select '\0'", None)]),
            "tasks[0].sql.statement",
            "BODY_NUL",
        ),
        (
            exec(vec![sql(&"x".repeat((1 << 20) + 1), None)]),
            "tasks[0].sql.statement",
            "BODY_TOO_LARGE",
        ),
    ];
    for (request, field, reason) in table {
        assert_eq!(
            answer(client.exec_async(request).await),
            invalid(field, reason)
        );
    }
    let describe = api::DescribeSchedulerRequest {
        handle: handle.clone(),
        ..Default::default()
    };
    let scheduler = client
        .describe_scheduler(describe)
        .await
        .expect("it is there")
        .into_inner()
        .scheduler;
    assert_eq!(scheduler.map(|scheduler| scheduler.submitted), Some(0));
}

#[tokio::test]
async fn thousands_of_faults_still_fit_into_an_answer() {
    let mut client = schedulers().await;
    let handle = opened(&mut client, Default::default()).await;
    let request = api::ExecAsyncRequest {
        handle,
        tasks: vec![sql("", None); 10_000],
        ..Default::default()
    };
    let answer = answer(client.exec_async(request).await);
    assert_eq!(
        (answer.code, answer.reason.as_str()),
        (Code::InvalidArgument, "BODY_EMPTY")
    );
    assert_eq!(answer.fields[0], "tasks[0].sql.statement");
}

#[tokio::test]
async fn the_text_of_a_refusal_names_every_field_at_fault() {
    let mut client = schedulers().await;
    let handle = opened(&mut client, Default::default()).await;
    let request = api::ExecAsyncRequest {
        handle,
        tasks: vec![sql("", None), noop(None), sql("select '\0'", None)],
        ..Default::default()
    };
    let refused = client.exec_async(request).await.expect_err("refused");
    assert_eq!(
        refused.message(),
        "2 fields are wrong: tasks[0].sql.statement: the statement is empty; \
         tasks[2].sql.statement: must not hold a NUL character: Postgres cannot take it"
    );
}

#[tokio::test]
async fn wrong_pages_and_intervals_are_named() {
    let mut client = schedulers().await;
    let page = api::ListSchedulersRequest {
        page_size: -1,
        ..Default::default()
    };
    assert_eq!(
        answer(client.list_schedulers(page).await),
        invalid("page_size", "PAGE_SIZE_OUT_OF_RANGE")
    );
    let page = api::ListSchedulersRequest {
        page_token: "((((".into(),
        ..Default::default()
    };
    assert_eq!(
        answer(client.list_schedulers(page).await),
        invalid("page_token", "PAGE_TOKEN_INVALID")
    );
    let page = api::ListSchedulersRequest {
        filter: Some(api::SchedulerFilter {
            states: vec![1, 17],
            ..Default::default()
        }),
        ..Default::default()
    };
    assert_eq!(
        answer(client.list_schedulers(page).await),
        invalid("filter.states[1]", "ENUM_UNKNOWN")
    );
    let watch = api::WatchExecutionsRequest {
        interval: Some(prost_types::Duration::default()),
    };
    assert_eq!(
        answer(statuses().await.watch_executions(watch).await),
        invalid("interval", "INTERVAL_OUT_OF_RANGE")
    );
}

#[tokio::test]
async fn malformed_metadata_is_named() {
    let mut client = schedulers().await;
    for (key, value) in [
        ("rallypoint-namespace", "Not/A/Name"),
        ("rallypoint-caller", "\u{e9}"),
    ] {
        let mut request = Request::new(api::ListSchedulersRequest::default());
        request.metadata_mut().insert(
            key,
            MetadataValue::try_from(value.as_bytes()).expect("bytes of a header"),
        );
        assert_eq!(
            answer(client.list_schedulers(request).await),
            invalid(&format!("metadata.{key}"), "METADATA_INVALID")
        );
    }
    still_answers().await;
}
