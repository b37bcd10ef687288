//! Requests with one part left to choose, and the violations of a wrong one as plain values.

use super::super::{Allowed, Targets, Violations, exec_async, get_scheduler};
use crate::{
    core::{Handle, Open, ShardId, Submit},
    rpc::errors::reason::Reason,
};
use rallypoint_client::api;
use std::{
    collections::{BTreeSet, HashMap},
    fmt::Debug,
    sync::Arc,
};

pub(super) fn good_handle() -> String {
    Handle::new(ShardId(0), 1_800_000_000_000, [7; 10]).to_string()
}

pub(super) fn targets() -> Targets {
    let roles = BTreeSet::from(["reader".to_owned()]);
    let reports = Allowed {
        roles,
        ..Allowed::default()
    };
    Targets::new([("app", Allowed::default()), ("reports", reports)])
}

pub(super) fn sql(statement: &str) -> api::Task {
    let sql = api::SqlTask {
        statement: statement.into(),
        ..Default::default()
    };
    api::Task {
        kind: Some(api::task::Kind::Sql(sql)),
        ..Default::default()
    }
}

/// A parameter.
pub(super) fn value(text: &str) -> api::SqlValue {
    api::SqlValue {
        kind: Some(api::sql_value::Kind::Text(text.into())),
    }
}

pub(super) fn noop(payload: &[u8]) -> api::Task {
    let noop = api::NoopTask {
        payload: payload.to_vec().into(),
    };
    api::Task {
        kind: Some(api::task::Kind::Noop(noop)),
        ..Default::default()
    }
}

pub(super) fn with(options: api::TaskOptions) -> api::Task {
    api::Task {
        options: Some(options),
        ..noop(b"")
    }
}

pub(super) fn exec(tasks: Vec<api::Task>) -> Result<(Handle, Arc<Submit>), Violations> {
    let request = api::ExecAsyncRequest {
        handle: good_handle(),
        tasks,
        ..Default::default()
    };
    exec_async(&request, &targets())
}

pub(super) fn open(settings: api::SchedulerSettings) -> Result<Open, Violations> {
    let request = api::GetSchedulerRequest {
        settings: Some(settings),
        ..Default::default()
    };
    get_scheduler(&request, &targets())
}

/// The violations as (field, reason), in the order found.
pub(super) fn faults<T: Debug>(result: Result<T, Violations>) -> Vec<(String, &'static str)> {
    let violations = result.expect_err("the request is wrong");
    violations
        .reported()
        .iter()
        .map(|found| (found.field.clone(), found.reason.as_str_name()))
        .collect()
}

pub(super) fn one(field: &str, reason: Reason) -> Vec<(String, &'static str)> {
    vec![(field.to_owned(), reason.as_str_name())]
}

pub(super) fn labels(count: usize) -> HashMap<String, String> {
    (0..count)
        .map(|i| (format!("k{i}"), "v".to_owned()))
        .collect()
}

pub(super) fn label(key: &str, value: &str) -> HashMap<String, String> {
    HashMap::from([(key.to_owned(), value.to_owned())])
}

pub(super) fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

pub(super) fn nanos(seconds: i64, nanos: i32) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos })
}
