//! Options of tasks, which are also the default options of schedulers.

use super::fixtures::{exec, faults, labels, nanos, noop, one, open, seconds, with};
use crate::{
    core::{NO_ROLE, SessionOptions},
    rpc::errors::reason::Reason,
};
use rallypoint_client::api;

fn options(change: impl FnOnce(&mut api::TaskOptions)) -> api::TaskOptions {
    let mut options = api::TaskOptions::default();
    change(&mut options);
    options
}

fn retry(change: impl FnOnce(&mut api::RetryPolicy)) -> api::TaskOptions {
    let mut policy = api::RetryPolicy::default();
    change(&mut policy);
    options(|options| options.retry = Some(policy))
}

/// As options of a task and as default options of a scheduler.
#[track_caller]
fn assert_refused(options: api::TaskOptions, field: &str, reason: Reason) {
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

#[test]
fn durations_out_of_range_are_named() {
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
    for duration in durations {
        let reason = Reason::DurationOutOfRange;
        assert_refused(options(|o| o.timeout = duration), "timeout", reason);
        let wrong = options(|o| o.total_timeout = duration);
        assert_refused(wrong, "total_timeout", reason);
        let wrong = retry(|r| r.initial_backoff = duration);
        assert_refused(wrong, "retry.initial_backoff", reason);
        let wrong = retry(|r| r.max_backoff = duration);
        assert_refused(wrong, "retry.max_backoff", reason);
    }
}

#[test]
fn times_out_of_range_are_named() {
    let times = [
        (-62_135_596_800, 0),
        (-1, 0),
        (253_402_300_800, 0),
        (0, -1),
        (0, 1_000_000_000),
        (i64::MAX, 0),
    ];
    for (seconds, nanos) in times {
        let time = Some(prost_types::Timestamp { seconds, nanos });
        let wrong = options(|o| o.not_before = time);
        assert_refused(wrong, "not_before", Reason::TimestampOutOfRange);
    }
}

#[test]
fn wrong_retry_policies_are_named() {
    let reason = Reason::RetryOutOfRange;
    for number in [-1, 0, 1001, i32::MAX] {
        assert_refused(
            retry(|r| r.max_attempts = Some(number)),
            "retry.max_attempts",
            reason,
        );
        assert_refused(
            retry(|r| r.max_losses = Some(number)),
            "retry.max_losses",
            reason,
        );
    }
    for number in [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e308] {
        assert_refused(
            retry(|r| r.backoff_multiplier = Some(number)),
            "retry.backoff_multiplier",
            reason,
        );
    }
    for number in [f64::NAN, f64::NEG_INFINITY, -0.1, 1.1] {
        assert_refused(retry(|r| r.jitter = Some(number)), "retry.jitter", reason);
    }
    let max_below_initial = retry(|r| {
        r.initial_backoff = seconds(2);
        r.max_backoff = seconds(1);
    });
    assert_refused(max_below_initial, "retry.max_backoff", reason);
    for code in ["", "x'; drop"] {
        let wrong = retry(|r| r.non_retryable_codes = vec!["23505".into(), code.into()]);
        let field = "retry.non_retryable_codes[1]";
        assert_refused(wrong, field, Reason::NonRetryableInvalid);
    }
}

#[test]
fn wrong_deliveries_results_and_labels_are_named() {
    assert_refused(options(|o| o.delivery = 4), "delivery", Reason::EnumUnknown);
    for rows in [-1, 10_001] {
        let wrong = options(|o| o.result_rows = Some(rows));
        assert_refused(wrong, "result_rows", Reason::ResultRowsOutOfRange);
    }
    assert_refused(
        options(|o| o.labels = labels(65)),
        "labels",
        Reason::LabelsInvalid,
    );
}

fn session(change: impl FnOnce(&mut api::SessionOptions)) -> api::TaskOptions {
    let mut session = api::SessionOptions::default();
    change(&mut session);
    options(|options| options.session = Some(session))
}

#[test]
fn wrong_options_of_a_session_are_named() {
    let unknown = session(|s| s.isolation = 4);
    assert_refused(unknown, "session.isolation", Reason::EnumUnknown);
    for limit in [seconds(0), seconds(25 * 86_400), nanos(1, 500_000)] {
        let wrong = session(|s| s.statement_timeout = limit);
        let field = "session.statement_timeout";
        assert_refused(wrong, field, Reason::DurationOutOfRange);
    }
    for schema in ["", "a\0b", "\"a b\"", &"x".repeat(64)] {
        let wrong = session(|s| s.search_path = vec!["public".into(), schema.into()]);
        let field = "session.search_path[1]";
        assert_refused(wrong, field, Reason::SearchPathInvalid);
    }
    let wrong = session(|s| s.search_path = vec!["public".into(); 65]);
    assert_refused(wrong, "session.search_path", Reason::SearchPathInvalid);
    let wrong = session(|s| s.role = Some("writer".into()));
    assert_refused(wrong, "session.role", Reason::RoleNotAllowed);
}

#[test]
fn an_empty_role_is_none_and_not_that_of_the_defaults() {
    let none = session(|s| s.role = Some(String::new()));
    let default = session(|s| s.role = Some("reader".into()));
    let [none, default] = [none, default].map(|options| {
        let sql = api::SqlTask {
            statement: "select 1".into(),
            target: "reports".into(),
            ..Default::default()
        };
        let task = api::Task {
            kind: Some(api::task::Kind::Sql(sql)),
            options: Some(options),
            ..Default::default()
        };
        let (_, submit) = exec(vec![task]).expect("allowed");
        submit.runs[0].spec.options.session.clone()
    });
    let role = |options: SessionOptions| options.or(&default).role;
    assert_eq!(role(none).as_deref(), Some(NO_ROLE));
    assert_eq!(role(SessionOptions::default()).as_deref(), Some("reader"));
}

#[test]
fn a_role_is_taken_on_the_targets_where_the_operator_allows_it() {
    let reader = session(|s| s.role = Some("reader".into()));
    let on = |target: &str| {
        let sql = api::SqlTask {
            statement: "select 1".into(),
            target: target.into(),
            ..Default::default()
        };
        exec(vec![api::Task {
            kind: Some(api::task::Kind::Sql(sql)),
            options: Some(reader.clone()),
            ..Default::default()
        }])
    };
    let (_, submit) = on("reports").expect("allowed");
    let role = submit.runs[0].spec.options.session.role.as_deref();
    assert_eq!(role, Some("reader"));
    assert_eq!(
        faults(on("app")),
        one("tasks[0].options.session.role", Reason::RoleNotAllowed)
    );
    let settings = api::SchedulerSettings {
        default_options: Some(reader.clone()),
        ..Default::default()
    };
    open(settings).expect("its tasks may run on `reports`");
}
