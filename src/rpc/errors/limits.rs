//! The error of a call that exceeds a limit: RESOURCE_EXHAUSTED with the limit, its subject, its
//! value and when to try again. The call had no effect.

use super::{info, reason::Reason};
use crate::core::{Handle, Namespace, model::limits::Limit};
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::{QuotaViolation, StatusExt};

/// `limit` of `namespace`, or of the scheduler `handle`, is reached. `wait`: how long to wait
/// before trying again.
pub(super) fn reached(
    limit: Limit,
    namespace: &Namespace,
    value: i64,
    wait: Option<Duration>,
    handle: Handle,
) -> Status {
    let (name, reason) = (name(limit), reason(limit));
    let subject = match limit {
        Limit::UnfinishedOrders => format!("scheduler:{handle}"),
        _ => format!("namespace:{}", namespace.0),
    };
    let mut details = info(
        reason,
        &[
            ("limit", name.into()),
            ("value", value.to_string()),
            ("subject", subject.clone()),
        ],
    );
    let mut violation =
        QuotaViolation::new(subject.clone(), format!("{name}: the limit is {value}"));
    violation.quota_metric = name.into();
    violation.quota_value = value;
    details.set_quota_failure(vec![violation]);
    details.set_retry_info(wait);
    let message = format!(
        "the limit {name} ({value}) of {subject} is reached; nothing was accepted; {}",
        remedy(limit)
    );
    Status::with_error_details(Code::ResourceExhausted, message, details)
}

/// What helps: the option of `serve`, if the limit is one that an operator sets.
fn remedy(limit: Limit) -> String {
    let option = match limit {
        Limit::OpenSchedulers => "--max-schedulers",
        Limit::QueuedTasks => "--max-queued-tasks",
        Limit::QueuedBytes => "--max-queued-mib",
        Limit::SubmitRate => "--max-submit-rate",
        Limit::Streams => "--max-streams",
        Limit::UnfinishedOrders => return "wait for some of its orders to end".into(),
    };
    format!("call again later, or ask the operator to raise {option}")
}

/// The name sent to callers.
fn name(limit: Limit) -> &'static str {
    match limit {
        Limit::OpenSchedulers => "open_schedulers",
        Limit::QueuedTasks => "queued_tasks",
        Limit::QueuedBytes => "queued_bytes",
        Limit::SubmitRate => "submit_rate",
        Limit::Streams => "streams",
        Limit::UnfinishedOrders => "unfinished_orders",
    }
}

fn reason(limit: Limit) -> Reason {
    match limit {
        Limit::OpenSchedulers => Reason::TOO_MANY_SCHEDULERS,
        Limit::QueuedTasks | Limit::QueuedBytes | Limit::UnfinishedOrders => Reason::QUEUE_FULL,
        Limit::SubmitRate => Reason::SUBMIT_RATE_EXCEEDED,
        Limit::Streams => Reason::TOO_MANY_STREAMS,
    }
}
