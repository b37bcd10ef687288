//! `TaskOptions` and `RetryPolicy`. What is absent stays absent: the core fills in the defaults of
//! the scheduler.

use super::{Roles, resource, scalar, session};
use crate::{
    core::{
        Delivery, RetryPolicy, TaskOptions,
        model::limits::{ATTEMPTS, RESULT_ROWS, TIMEOUT, TOTAL_TIMEOUT},
    },
    rpc::errors::{
        reason::Reason,
        violations::{Path, Violations},
    },
};
use rallypoint_client::api;
use std::{ops::RangeInclusive, sync::Arc, time::Duration};

const SHORTEST: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(86_400);
const BACKOFF: RangeInclusive<Duration> = SHORTEST..=DAY;
const MAX_NON_RETRYABLE: usize = 100;

/// `roles`: those that the operator allows.
pub(super) fn task_options(
    v: &mut Violations,
    path: Path<'_>,
    options: &api::TaskOptions,
    roles: Roles<'_>,
) -> TaskOptions {
    let rows = options.result_rows;
    if rows.is_some_and(|rows| !RESULT_ROWS.contains(&rows)) {
        v.add(
            path.field("result_rows"),
            Reason::ResultRowsOutOfRange,
            "must be 0 to 10000",
        );
    }
    TaskOptions {
        not_before: options
            .not_before
            .as_ref()
            .and_then(|time| scalar::time(v, path.field("not_before"), time)),
        timeout: scalar::optional_duration(v, path.field("timeout"), &options.timeout, TIMEOUT),
        deadline: scalar::optional_duration(
            v,
            path.field("total_timeout"),
            &options.total_timeout,
            TOTAL_TIMEOUT,
        ),
        retry: options
            .retry
            .as_ref()
            .map(|retry| retry_policy(v, path.field("retry"), retry))
            .unwrap_or_default(),
        delivery: delivery(v, path.field("delivery"), options.delivery),
        result_rows: rows.map(|rows| rows.max(0) as u32),
        session: options
            .session
            .as_ref()
            .map(|session| session::session_options(v, path.field("session"), session, roles))
            .unwrap_or_default(),
        resources: match options.resources.is_empty() {
            true => Arc::default(),
            false => resource::wants(v, path.field("resources"), &options.resources).into(),
        },
        labels: scalar::labels(v, path.field("labels"), &options.labels),
    }
}

fn retry_policy(v: &mut Violations, path: Path<'_>, retry: &api::RetryPolicy) -> RetryPolicy {
    let policy = RetryPolicy {
        max_attempts: attempts(v, path.field("max_attempts"), retry.max_attempts),
        max_losses: attempts(v, path.field("max_losses"), retry.max_losses),
        initial: scalar::optional_duration(
            v,
            path.field("initial_backoff"),
            &retry.initial_backoff,
            BACKOFF,
        ),
        multiplier: number(
            v,
            path.field("backoff_multiplier"),
            retry.backoff_multiplier,
            1.0..=100.0,
        ),
        max: scalar::optional_duration(v, path.field("max_backoff"), &retry.max_backoff, BACKOFF),
        jitter: number(v, path.field("jitter"), retry.jitter, 0.0..=1.0),
        non_retryable: retry.non_retryable_codes.clone(),
    };
    if policy
        .max
        .zip(policy.initial)
        .is_some_and(|(max, initial)| max < initial)
    {
        v.add(
            path.field("max_backoff"),
            Reason::RetryOutOfRange,
            "the longest wait must not be below the first (`initial_backoff`)",
        );
    }
    non_retryable(
        v,
        path.field("non_retryable_codes"),
        &retry.non_retryable_codes,
    );
    policy
}

fn non_retryable(v: &mut Violations, path: Path<'_>, codes: &[String]) {
    if codes.len() > MAX_NON_RETRYABLE {
        v.add(
            path,
            Reason::NonRetryableInvalid,
            format!("at most {MAX_NON_RETRYABLE} codes"),
        );
        return;
    }
    for (index, code) in codes.iter().enumerate() {
        if !scalar::is_error_code(code) {
            v.add(
                path.index(index),
                Reason::NonRetryableInvalid,
                scalar::ERROR_CODE,
            );
        }
    }
}

fn attempts(v: &mut Violations, path: Path<'_>, attempts: Option<i32>) -> Option<u32> {
    if attempts.is_some_and(|attempts| !ATTEMPTS.contains(&attempts)) {
        v.add(
            path,
            Reason::RetryOutOfRange,
            "must be 1 to 1000 (1: no further attempt)",
        );
    }
    attempts.map(|attempts| attempts.max(1) as u32)
}

fn number(
    v: &mut Violations,
    path: Path<'_>,
    number: Option<f64>,
    range: RangeInclusive<f64>,
) -> Option<f64> {
    if number.is_some_and(|number| !range.contains(&number)) {
        v.add(
            path,
            Reason::RetryOutOfRange,
            format!("must be {} to {}", range.start(), range.end()),
        );
    }
    number
}

fn delivery(v: &mut Violations, path: Path<'_>, number: i32) -> Option<Delivery> {
    match scalar::enumeration(v, path, number)? {
        api::Delivery::Unspecified => None,
        api::Delivery::AtLeastOnce => Some(Delivery::AtLeastOnce),
        api::Delivery::AtMostOnce => Some(Delivery::AtMostOnce),
        api::Delivery::ExactlyOnce => Some(Delivery::ExactlyOnce),
    }
}
