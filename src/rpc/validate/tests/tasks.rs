//! Wrong tasks, and calls with too many or too large ones.

use super::{
    super::exec_async,
    fixtures::{exec, faults, noop, one, seconds, sql, targets, value, with},
};
use crate::rpc::errors::reason::Reason;
use rallypoint_client::api;

fn sql_task(target: &str, params: Vec<api::SqlValue>) -> api::Task {
    let sql = api::SqlTask {
        statement: "select $1".into(),
        target: target.into(),
        params,
    };
    api::Task {
        kind: Some(api::task::Kind::Sql(sql)),
        ..Default::default()
    }
}

#[test]
fn wrong_tasks_are_named() {
    let order = |order| api::Task {
        order: Some(order),
        ..noop(b"")
    };
    let big = "x".repeat((1 << 20) + 1);
    let target = |target: &str| sql_task(target, Vec::new());
    let params = |params| sql_task("", params);
    let table = [
        (api::Task::default(), ".kind", Reason::KindMissing),
        (order(-1), ".order", Reason::OrderOutOfRange),
        (order(i64::MIN), ".order", Reason::OrderOutOfRange),
        (order(i64::MAX), ".order", Reason::OrderOutOfRange),
        (order(1 << 53), ".order", Reason::OrderOutOfRange),
        (sql(""), ".sql.statement", Reason::BodyEmpty),
        (sql(" \n\t"), ".sql.statement", Reason::BodyEmpty),
        (sql("select '\0'"), ".sql.statement", Reason::BodyNul),
        (sql(&big), ".sql.statement", Reason::BodyTooLarge),
        (noop(big.as_bytes()), ".noop.payload", Reason::BodyTooLarge),
        (target("nowhere"), ".sql.target", Reason::TargetUnknown),
        (
            params(vec![value("1"), value("\0")]),
            ".sql.params[1]",
            Reason::BodyNul,
        ),
        (
            params(vec![value("1"), api::SqlValue::default()]),
            ".sql.params[1]",
            Reason::ValueMissing,
        ),
        (
            params(vec![value(&big)]),
            ".sql.params",
            Reason::BodyTooLarge,
        ),
        (
            params(vec![value("1"); 32_768]),
            ".sql.params",
            Reason::TooManyParams,
        ),
    ];
    for (task, field, reason) in table {
        assert_eq!(
            faults(exec(vec![noop(b""), task])),
            one(&format!("tasks[1]{field}"), reason)
        );
    }
}

#[test]
fn a_body_that_is_too_large_is_told_its_size() {
    let big = "x".repeat((1 << 20) + 1);
    let tasks = [
        sql(&big),
        noop(big.as_bytes()),
        sql_task("", vec![value(&big)]),
    ];
    for task in tasks {
        let wrong = exec(vec![task]).expect_err("it is too large");
        let message = &wrong.reported()[0].message;
        assert!(
            message.starts_with("1048577 bytes: at most 1 MiB"),
            "{message}"
        );
    }
}

#[test]
fn resources_are_refused_of_a_noop_alone() {
    let holding = |task| api::Task {
        options: Some(api::TaskOptions {
            resources: vec![api::ResourceUse {
                name: "orders".into(),
                mode: api::ResourceMode::Exclusive.into(),
                permits: 0,
            }],
            ..Default::default()
        }),
        ..task
    };
    let table = [
        (
            noop(b""),
            ".options.resources",
            Reason::ResourcesNotPossible,
        ),
        (
            sql_task("nowhere", Vec::new()),
            ".sql.target",
            Reason::TargetUnknown,
        ),
        (api::Task::default(), ".kind", Reason::KindMissing),
    ];
    for (task, field, reason) in table {
        let expected = one(&format!("tasks[0]{field}"), reason);
        assert_eq!(faults(exec(vec![holding(task)])), expected);
    }
}

#[test]
fn a_call_is_bounded_in_tasks_and_bytes() {
    assert_eq!(faults(exec(vec![])), one("tasks", Reason::TasksEmpty));
    assert_eq!(
        faults(exec(vec![noop(b""); 10_001])),
        one("tasks", Reason::TooManyTasks)
    );
    assert_eq!(
        faults(exec(vec![noop(&vec![1; 1 << 20]); 5])),
        one("tasks", Reason::CallTooLarge)
    );
    assert_eq!(
        exec(vec![noop(&vec![1; 1 << 20]); 4])
            .expect("4 MiB fit")
            .1
            .bodies
            .len(),
        4
    );
    assert_eq!(
        exec(vec![noop(b""); 10_000])
            .expect("10 000 tasks fit")
            .1
            .runs[0]
            .count,
        10_000
    );
}

#[test]
fn every_fault_of_a_call_is_reported_at_once() {
    let order = api::Task {
        order: Some(-1),
        ..noop(b"")
    };
    let timeout = with(api::TaskOptions {
        timeout: seconds(0),
        result_rows: Some(-1),
        ..Default::default()
    });
    let request = api::ExecAsyncRequest {
        handle: "x".into(),
        request_id: "y".into(),
        tasks: vec![order, sql(""), timeout],
    };
    let expected = [
        ("handle", "ID_MALFORMED"),
        ("request_id", "REQUEST_ID_MALFORMED"),
        ("tasks[0].order", "ORDER_OUT_OF_RANGE"),
        ("tasks[2].options.result_rows", "RESULT_ROWS_OUT_OF_RANGE"),
        ("tasks[2].options.timeout", "DURATION_OUT_OF_RANGE"),
        ("tasks[1].sql.statement", "BODY_EMPTY"),
    ];
    assert_eq!(
        faults(exec_async(&request, &targets())),
        expected.map(|(field, reason)| (field.to_owned(), reason))
    );
}
