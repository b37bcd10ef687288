//! The bad-input table: for each wrong request its reason and the field it names; and the good ones beside them.

use super::*;
use crate::core::{Delivery, Namespace, ShardId, Work};
use std::collections::HashMap;

fn good_handle() -> String {
    Handle::new(ShardId(0), 1_800_000_000_000, [7; 10]).to_string()
}

fn targets() -> Targets {
    Targets::new(["app", "reports"])
}

fn sql(statement: &str) -> api::Task {
    let sql = api::SqlTask {
        statement: statement.into(),
        ..Default::default()
    };
    api::Task {
        kind: Some(api::task::Kind::Sql(sql)),
        ..Default::default()
    }
}

fn noop(payload: &[u8]) -> api::Task {
    let noop = api::NoopTask {
        payload: payload.to_vec().into(),
    };
    api::Task {
        kind: Some(api::task::Kind::Noop(noop)),
        ..Default::default()
    }
}

fn with(options: api::TaskOptions) -> api::Task {
    api::Task {
        options: Some(options),
        ..noop(b"")
    }
}

fn exec(tasks: Vec<api::Task>) -> Result<(Handle, Arc<crate::core::Submit>), Violations> {
    let request = api::ExecAsyncRequest {
        handle: good_handle(),
        tasks,
        ..Default::default()
    };
    exec_async(&request, &targets())
}

fn open(settings: api::SchedulerSettings) -> Result<(Arc<Settings>, Option<Request>), Violations> {
    get_scheduler(&api::GetSchedulerRequest {
        settings: Some(settings),
        ..Default::default()
    })
}

/// The violations as (field, reason), in the order found.
fn faults<T: std::fmt::Debug>(result: Result<T, Violations>) -> Vec<(String, &'static str)> {
    let violations = result.expect_err("the request is wrong");
    violations
        .reported()
        .iter()
        .map(|found| (found.field.clone(), found.reason.as_str()))
        .collect()
}

fn one(field: &str, reason: Reason) -> Vec<(String, &'static str)> {
    vec![(field.to_owned(), reason.as_str())]
}

fn labels(count: usize) -> HashMap<String, String> {
    (0..count)
        .map(|i| (format!("k{i}"), "v".to_owned()))
        .collect()
}

fn label(key: &str, value: &str) -> HashMap<String, String> {
    HashMap::from([(key.to_owned(), value.to_owned())])
}

fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

fn nanos(seconds: i64, nanos: i32) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos })
}

#[test]
fn a_malformed_handle_is_refused_everywhere() {
    let good = good_handle();
    let bad = [
        String::new(),
        "00000000-0000-0000-0000-000000000000".into(),
        good[1..].into(),
        format!("{good}0"),
        format!("{{{good}}}"),
        format!("urn:uuid:{good}"),
        good.replace('-', ""),
        good.to_uppercase(),
        good.replace('0', "g"),
        "f47ac10b-58cc-4372-a567-0e02b2c3d479".into(),
        "x".repeat(10_000_000),
    ];
    for text in &bad {
        let expected = one("handle", Reason::ID_MALFORMED);
        assert_eq!(faults(handle(text)), expected);
        let exec = api::ExecAsyncRequest {
            handle: text.clone(),
            tasks: vec![noop(b"")],
            ..Default::default()
        };
        assert_eq!(faults(exec_async(&exec, &targets())), expected);
        let watch = api::SynchronizationRequest {
            handle: text.clone(),
            ..Default::default()
        };
        assert_eq!(faults(synchronization(&watch)), expected);
        let release_request = api::ReleaseSchedulerRequest {
            handle: text.clone(),
            ..Default::default()
        };
        assert_eq!(faults(release(&release_request)), expected);
        let list = api::ListTasksRequest {
            handle: text.clone(),
            ..Default::default()
        };
        assert_eq!(
            faults(ListTasks::new(&list, &Namespace::default_namespace())),
            expected
        );
        let id = api::TaskId {
            handle: text.clone(),
            seq: 1,
        };
        assert_eq!(
            faults(task_id(Some(&id))),
            one("id.handle", Reason::ID_MALFORMED)
        );
    }
}

#[test]
fn malformed_request_ids_are_refused() {
    for text in [
        "x",
        "00000000-0000-0000-0000-000000000000",
        "F47AC10B-58CC-4372-A567-0E02B2C3D479",
        "{f47ac10b-58cc-4372-a567-0e02b2c3d479}",
    ] {
        let request = api::GetSchedulerRequest {
            request_id: text.into(),
            ..Default::default()
        };
        assert_eq!(
            faults(get_scheduler(&request)),
            one("request_id", Reason::REQUEST_ID_MALFORMED),
            "{text}"
        );
        let request = api::ExecAsyncRequest {
            handle: good_handle(),
            request_id: text.into(),
            tasks: vec![noop(b"")],
        };
        assert_eq!(
            faults(exec_async(&request, &targets())),
            one("request_id", Reason::REQUEST_ID_MALFORMED),
            "{text}"
        );
    }
}

#[test]
fn task_numbers_start_at_one() {
    assert_eq!(faults(task_id(None)), one("id", Reason::ID_MALFORMED));
    for seq in [0, -1, i64::MIN] {
        let id = api::TaskId {
            handle: good_handle(),
            seq,
        };
        assert_eq!(
            faults(task_id(Some(&id))),
            one("id.seq", Reason::SEQ_OUT_OF_RANGE)
        );
    }
}

#[test]
fn wrong_settings_are_named() {
    let s = api::SchedulerSettings::default;
    let table = [
        (
            api::SchedulerSettings {
                max_parallelism: Some(0),
                ..s()
            },
            "max_parallelism",
            Reason::LIMIT_ZERO,
        ),
        (
            api::SchedulerSettings {
                max_parallelism: Some(-1),
                ..s()
            },
            "max_parallelism",
            Reason::LIMIT_OUT_OF_RANGE,
        ),
        (
            api::SchedulerSettings {
                weight: Some(0.0),
                ..s()
            },
            "weight",
            Reason::WEIGHT_OUT_OF_RANGE,
        ),
        (
            api::SchedulerSettings {
                weight: Some(f64::NAN),
                ..s()
            },
            "weight",
            Reason::WEIGHT_OUT_OF_RANGE,
        ),
        (
            api::SchedulerSettings {
                weight: Some(1000.5),
                ..s()
            },
            "weight",
            Reason::WEIGHT_OUT_OF_RANGE,
        ),
        (
            api::SchedulerSettings {
                on_failure: 9,
                ..s()
            },
            "on_failure",
            Reason::ENUM_UNKNOWN,
        ),
        (
            api::SchedulerSettings {
                late_order: -1,
                ..s()
            },
            "late_order",
            Reason::ENUM_UNKNOWN,
        ),
        (
            api::SchedulerSettings {
                on_abandon: 3,
                ..s()
            },
            "on_abandon",
            Reason::ENUM_UNKNOWN,
        ),
        (
            api::SchedulerSettings {
                idle_timeout: seconds(0),
                ..s()
            },
            "idle_timeout",
            Reason::DURATION_OUT_OF_RANGE,
        ),
        (
            api::SchedulerSettings {
                idle_timeout: seconds(367 * 86_400),
                ..s()
            },
            "idle_timeout",
            Reason::DURATION_OUT_OF_RANGE,
        ),
        (
            api::SchedulerSettings {
                display_name: "x".repeat(256),
                ..s()
            },
            "display_name",
            Reason::NAME_TOO_LONG,
        ),
        (
            api::SchedulerSettings {
                display_name: "a\0b".into(),
                ..s()
            },
            "display_name",
            Reason::NAME_INVALID,
        ),
        (
            api::SchedulerSettings {
                labels: labels(65),
                ..s()
            },
            "labels",
            Reason::LABELS_INVALID,
        ),
        (
            api::SchedulerSettings {
                labels: label("", "v"),
                ..s()
            },
            r#"labels[""]"#,
            Reason::LABELS_INVALID,
        ),
        (
            api::SchedulerSettings {
                labels: label("a b", "v"),
                ..s()
            },
            r#"labels["a b"]"#,
            Reason::LABELS_INVALID,
        ),
        (
            api::SchedulerSettings {
                labels: label("k", "\n"),
                ..s()
            },
            r#"labels["k"]"#,
            Reason::LABELS_INVALID,
        ),
        (
            api::SchedulerSettings {
                labels: label("k", &"v".repeat(256)),
                ..s()
            },
            r#"labels["k"]"#,
            Reason::LABELS_INVALID,
        ),
    ];
    for (settings, field, reason) in table {
        assert_eq!(
            faults(open(settings)),
            one(&format!("settings.{field}"), reason)
        );
    }
    assert!(
        open(api::SchedulerSettings {
            labels: labels(64),
            max_parallelism: Some(1),
            ..s()
        })
        .is_ok()
    );
}

#[test]
fn wrong_options_are_named() {
    let o = api::TaskOptions::default;
    let retry = |retry| api::TaskOptions {
        retry: Some(retry),
        ..o()
    };
    let r = api::RetryPolicy::default;
    let at = |seconds, nanos| Some(prost_types::Timestamp { seconds, nanos });
    let durations = [
        seconds(0),
        seconds(-1),
        nanos(0, 1),
        nanos(0, -1),
        nanos(1, 1_000_000_000),
        nanos(-1, 1),
        seconds(315_576_000_000),
        seconds(i64::MAX),
    ];
    let mut table = Vec::new();
    for duration in durations {
        table.push((
            api::TaskOptions {
                timeout: duration,
                ..o()
            },
            "timeout",
            Reason::DURATION_OUT_OF_RANGE,
        ));
        table.push((
            api::TaskOptions {
                deadline: duration,
                ..o()
            },
            "deadline",
            Reason::DURATION_OUT_OF_RANGE,
        ));
        table.push((
            retry(api::RetryPolicy {
                initial: duration,
                ..r()
            }),
            "retry.initial",
            Reason::DURATION_OUT_OF_RANGE,
        ));
        table.push((
            retry(api::RetryPolicy {
                max: duration,
                ..r()
            }),
            "retry.max",
            Reason::DURATION_OUT_OF_RANGE,
        ));
    }
    for time in [
        at(-62_135_596_800, 0),
        at(-1, 0),
        at(253_402_300_800, 0),
        at(0, -1),
        at(0, 1_000_000_000),
        at(i64::MAX, 0),
    ] {
        table.push((
            api::TaskOptions {
                not_before: time,
                ..o()
            },
            "not_before",
            Reason::TIMESTAMP_OUT_OF_RANGE,
        ));
    }
    for number in [-1, 0, 1001, i32::MAX] {
        table.push((
            retry(api::RetryPolicy {
                max_attempts: Some(number),
                ..r()
            }),
            "retry.max_attempts",
            Reason::RETRY_OUT_OF_RANGE,
        ));
        table.push((
            retry(api::RetryPolicy {
                max_losses: Some(number),
                ..r()
            }),
            "retry.max_losses",
            Reason::RETRY_OUT_OF_RANGE,
        ));
    }
    for number in [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e308] {
        table.push((
            retry(api::RetryPolicy {
                multiplier: Some(number),
                ..r()
            }),
            "retry.multiplier",
            Reason::RETRY_OUT_OF_RANGE,
        ));
    }
    for number in [f64::NAN, f64::NEG_INFINITY, -0.1, 1.1] {
        table.push((
            retry(api::RetryPolicy {
                jitter: Some(number),
                ..r()
            }),
            "retry.jitter",
            Reason::RETRY_OUT_OF_RANGE,
        ));
    }
    let backwards = api::RetryPolicy {
        initial: seconds(2),
        max: seconds(1),
        ..r()
    };
    table.push((retry(backwards), "retry.max", Reason::RETRY_OUT_OF_RANGE));
    let code = |code: &str| {
        retry(api::RetryPolicy {
            non_retryable: vec!["23505".into(), code.into()],
            ..r()
        })
    };
    table.push((
        code(""),
        "retry.non_retryable[1]",
        Reason::NON_RETRYABLE_INVALID,
    ));
    table.push((
        code("x'; drop"),
        "retry.non_retryable[1]",
        Reason::NON_RETRYABLE_INVALID,
    ));
    table.push((
        api::TaskOptions { delivery: 3, ..o() },
        "delivery",
        Reason::ENUM_UNKNOWN,
    ));
    table.push((
        api::TaskOptions {
            result_rows: Some(-1),
            ..o()
        },
        "result_rows",
        Reason::RESULT_ROWS_OUT_OF_RANGE,
    ));
    table.push((
        api::TaskOptions {
            result_rows: Some(10_001),
            ..o()
        },
        "result_rows",
        Reason::RESULT_ROWS_OUT_OF_RANGE,
    ));
    table.push((
        api::TaskOptions {
            labels: labels(65),
            ..o()
        },
        "labels",
        Reason::LABELS_INVALID,
    ));
    for (options, field, reason) in table {
        let settings = api::SchedulerSettings {
            default_options: Some(options.clone()),
            ..Default::default()
        };
        assert_eq!(
            faults(open(settings)),
            one(&format!("settings.default_options.{field}"), reason),
            "{options:?}"
        );
        assert_eq!(
            faults(exec(vec![noop(b""), with(options)])),
            one(&format!("tasks[1].options.{field}"), reason)
        );
    }
}

#[test]
fn wrong_tasks_are_named() {
    let order = |order| api::Task {
        order: Some(order),
        ..noop(b"")
    };
    let big = "x".repeat((1 << 20) + 1);
    let target = |target: &str| {
        let sql = api::SqlTask {
            statement: "select 1".into(),
            target: target.into(),
            ..Default::default()
        };
        api::Task {
            kind: Some(api::task::Kind::Sql(sql)),
            ..Default::default()
        }
    };
    let params = |params: Vec<api::SqlValue>| {
        let sql = api::SqlTask {
            statement: "select $1".into(),
            params,
            ..Default::default()
        };
        api::Task {
            kind: Some(api::task::Kind::Sql(sql)),
            ..Default::default()
        }
    };
    let value = |text: &str| api::SqlValue {
        text: Some(text.into()),
    };
    let table = [
        (api::Task::default(), "", Reason::KIND_MISSING),
        (order(-1), ".order", Reason::ORDER_OUT_OF_RANGE),
        (order(i64::MIN), ".order", Reason::ORDER_OUT_OF_RANGE),
        (order(i64::MAX), ".order", Reason::ORDER_OUT_OF_RANGE),
        (order(1 << 53), ".order", Reason::ORDER_OUT_OF_RANGE),
        (sql(""), ".sql.statement", Reason::BODY_EMPTY),
        (sql(" \n\t"), ".sql.statement", Reason::BODY_EMPTY),
        (sql("select '\0'"), ".sql.statement", Reason::BODY_NUL),
        (sql(&big), ".sql.statement", Reason::BODY_TOO_LARGE),
        (
            noop(big.as_bytes()),
            ".noop.payload",
            Reason::BODY_TOO_LARGE,
        ),
        (target("nowhere"), ".sql.target", Reason::TARGET_UNKNOWN),
        (
            params(vec![value("1"), value("\0")]),
            ".sql.params[1]",
            Reason::BODY_NUL,
        ),
        (
            params(vec![value(&big)]),
            ".sql.params",
            Reason::BODY_TOO_LARGE,
        ),
        (
            params(vec![api::SqlValue::default(); 65_536]),
            ".sql.params",
            Reason::TOO_MANY_PARAMS,
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
fn a_call_is_bounded_in_tasks_and_bytes() {
    assert_eq!(faults(exec(vec![])), one("tasks", Reason::TASKS_EMPTY));
    assert_eq!(
        faults(exec(vec![noop(b""); 10_001])),
        one("tasks", Reason::TOO_MANY_TASKS)
    );
    assert_eq!(
        faults(exec(vec![noop(&vec![1; 1 << 20]); 5])),
        one("tasks", Reason::CALL_TOO_LARGE)
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
fn every_fault_of_a_call_is_told_at_once() {
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

#[test]
fn an_update_names_known_settings() {
    let mask = |paths: &[&str]| {
        Some(prost_types::FieldMask {
            paths: paths.iter().map(|p| p.to_string()).collect(),
        })
    };
    let wrong = api::SchedulerSettings {
        max_parallelism: Some(0),
        weight: Some(2.0),
        ..Default::default()
    };
    let request = |update_mask| api::UpdateSchedulerRequest {
        handle: good_handle(),
        settings: Some(wrong.clone()),
        update_mask,
    };
    assert_eq!(
        faults(update(request(None))),
        one("update_mask", Reason::MASK_EMPTY)
    );
    assert_eq!(
        faults(update(request(mask(&[])))),
        one("update_mask", Reason::MASK_EMPTY)
    );
    for path in ["*", "settings.weight", "labels.a", "Weight", ""] {
        assert_eq!(
            faults(update(request(mask(&["weight", path])))),
            one("update_mask.paths[1]", Reason::MASK_UNKNOWN_FIELD)
        );
    }
    assert_eq!(
        faults(update(request(mask(&["max_parallelism"])))),
        one("settings.max_parallelism", Reason::LIMIT_ZERO)
    );
    let (_, good) =
        update(request(mask(&["weight", "weight"]))).expect("outside the mask nothing counts");
    assert_eq!(
        (
            good.settings.weight,
            good.settings.max_parallelism,
            good.fields.len()
        ),
        (2.0, None, 1)
    );
}

#[test]
fn a_stream_says_from_where_and_until_when() {
    let request = |after, kind| api::SynchronizationRequest {
        handle: good_handle(),
        after,
        until: Some(api::Until { kind }),
        resume: None,
    };
    let all = Some(Kind::All(api::Unit {}));
    let table = [
        (request(-1, all), "after", Reason::CURSOR_NEGATIVE),
        (request(0, None), "until", Reason::UNTIL_MISSING),
        (
            request(0, Some(Kind::Order(-1))),
            "until.order",
            Reason::ORDER_OUT_OF_RANGE,
        ),
        (
            request(0, Some(Kind::Count(0))),
            "until.count",
            Reason::COUNT_OUT_OF_RANGE,
        ),
        (
            request(0, Some(Kind::Count(i64::MIN))),
            "until.count",
            Reason::COUNT_OUT_OF_RANGE,
        ),
        (
            api::SynchronizationRequest {
                resume: Some(api::Goal::default()),
                ..request(0, all)
            },
            "resume",
            Reason::GOAL_INVALID,
        ),
    ];
    for (request, field, reason) in table {
        assert_eq!(faults(synchronization(&request)), one(field, reason));
    }
    let goal = api::Goal {
        until: Some(api::Until {
            kind: Some(Kind::Count(3)),
        }),
        last_seq: 9,
    };
    let watch = synchronization(&api::SynchronizationRequest {
        resume: Some(goal),
        ..request(4, None)
    })
    .expect("resumed");
    assert_eq!(
        (watch.after, watch.until, watch.last_seq),
        (DoneNo(4), Until::Count(3), Some(Seq(9)))
    );
}

#[test]
fn unknown_modes_and_intervals_are_refused() {
    let request = api::ReleaseSchedulerRequest {
        handle: good_handle(),
        mode: 7,
        wait: false,
    };
    assert_eq!(faults(release(&request)), one("mode", Reason::ENUM_UNKNOWN));
    for interval_ms in [-1, 1, 99, 60_001, i32::MIN] {
        let request = api::WatchExecutionsRequest { interval_ms };
        assert_eq!(
            faults(interval(&request)),
            one("interval_ms", Reason::INTERVAL_OUT_OF_RANGE)
        );
    }
    assert_eq!(
        interval(&api::WatchExecutionsRequest::default()),
        Ok(Duration::from_secs(1))
    );
}

#[test]
fn pages_are_bounded_and_their_tokens_good_for_their_question_only() {
    let namespace = Namespace("a".into());
    let request = |page_size, page_token: &str, state| api::ListTasksRequest {
        handle: good_handle(),
        page_size,
        page_token: page_token.into(),
        state,
        order: None,
    };
    for size in [-1, 1001, 1_000_000_000] {
        assert_eq!(
            faults(ListTasks::new(&request(size, "", 0), &namespace)),
            one("page_size", Reason::PAGE_SIZE_OUT_OF_RANGE)
        );
    }
    assert_eq!(
        faults(ListTasks::new(&request(0, "", 6), &namespace)),
        one("state", Reason::ENUM_UNKNOWN)
    );
    let first = ListTasks::new(&request(0, "", 5), &namespace).expect("good");
    let token = first.token.after(77);
    assert_eq!((first.size, first.before), (100, None));
    assert_eq!(
        ListTasks::new(&request(0, &token, 5), &namespace)
            .expect("good")
            .before,
        Some(Seq(77))
    );
    let wrong = [
        ListTasks::new(&request(0, &token, 4), &namespace),
        ListTasks::new(&request(0, &token, 5), &Namespace("b".into())),
        ListTasks::new(
            &request(0, &token.to_uppercase().replace("0000", "000G"), 5),
            &namespace,
        ),
        ListTasks::new(&request(0, &token[1..], 5), &namespace),
        ListTasks::new(&request(0, "' or 1=1 --", 5), &namespace),
    ];
    for result in wrong {
        assert_eq!(
            faults(result),
            one("page_token", Reason::PAGE_TOKEN_INVALID)
        );
    }
    let list = |page_token: &str| api::ListSchedulersRequest {
        page_token: page_token.into(),
        ..Default::default()
    };
    assert_eq!(
        faults(ListSchedulers::new(&list(&token), &namespace)),
        one("page_token", Reason::PAGE_TOKEN_INVALID)
    );
}

#[test]
fn tasks_that_differ_in_their_bodies_only_share_one_spec() {
    let options = api::TaskOptions {
        timeout: seconds(1),
        delivery: 2,
        labels: label("k", "v"),
        ..Default::default()
    };
    let at = |order, body: &[u8]| api::Task {
        order: Some(order),
        options: Some(options.clone()),
        ..noop(body)
    };
    let (_, submit) = exec(vec![
        at(1, b"a"),
        at(1, b"bc"),
        at(2, b""),
        sql("select 1"),
        sql("select 2"),
    ])
    .expect("good");
    let runs: Vec<_> = submit
        .runs
        .iter()
        .map(|run| (run.count, run.order.map(|order| order.0)))
        .collect();
    assert_eq!(runs, [(2, Some(1)), (1, Some(2)), (2, None)]);
    assert_eq!(
        submit.runs[0].spec.options.delivery,
        Some(Delivery::AtMostOnce)
    );
    assert_eq!(
        submit.runs[2].spec.work,
        Work::Sql {
            target: "app".into()
        }
    );
    assert_eq!(
        (submit.bodies.get(1), submit.bodies.get(4)),
        ("bc".into(), "select 2".into())
    );
    assert!(submit.params.is_empty() && submit.request.is_none());
}

#[test]
fn parameters_are_packed_as_json_arrays_of_text_or_null() {
    let params = vec![
        api::SqlValue {
            text: Some("a\"b".into()),
        },
        api::SqlValue { text: None },
    ];
    let with = api::SqlTask {
        statement: "select $1, $2".into(),
        params,
        ..Default::default()
    };
    let with = api::Task {
        kind: Some(api::task::Kind::Sql(with)),
        ..Default::default()
    };
    let (_, submit) = exec(vec![sql("select 1"), with]).expect("good");
    assert_eq!(
        (submit.params.get(0), submit.params.get(1)),
        ("".into(), r#"["a\"b",null]"#.into())
    );
}

#[test]
fn the_same_payload_has_the_same_hash_and_another_one_another() {
    let hash = |tasks: Vec<api::Task>| {
        let request_id = "f47ac10b-58cc-4372-a567-0e02b2c3d479".into();
        let request = api::ExecAsyncRequest {
            handle: good_handle(),
            request_id,
            tasks,
        };
        exec_async(&request, &targets())
            .expect("good")
            .1
            .request
            .expect("has an id")
            .hash
    };
    let labelled = || {
        with(api::TaskOptions {
            labels: labels(20),
            ..Default::default()
        })
    };
    assert_eq!(
        hash(vec![labelled(), sql("select 1")]),
        hash(vec![labelled(), sql("select 1")])
    );
    let distinct = [
        hash(vec![noop(b"ab"), noop(b"c")]),
        hash(vec![noop(b"a"), noop(b"bc")]),
        hash(vec![noop(b"abc")]),
        hash(vec![sql("abc")]),
        hash(vec![api::Task {
            order: Some(0),
            ..noop(b"abc")
        }]),
        hash(vec![with(api::TaskOptions {
            timeout: seconds(1),
            ..Default::default()
        })]),
        hash(vec![with(api::TaskOptions {
            timeout: seconds(2),
            ..Default::default()
        })]),
    ];
    for (index, one) in distinct.iter().enumerate() {
        assert!(!distinct[..index].contains(one), "{index}");
    }
}
