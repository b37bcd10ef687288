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
    handle: Option<Handle>,
) -> Status {
    let (name, reason) = (limit.name(), reason(limit));
    let subject = match (limit, handle) {
        (Limit::UnfinishedOrders, Some(handle)) => format!("scheduler:{handle}"),
        _ => format!("namespace:{}", namespace.0),
    };
    let mut metadata = vec![
        ("limit", name.into()),
        ("value", value.to_string()),
        ("subject", subject.clone()),
    ];
    metadata.extend(option(limit).map(|option| ("option", option.to_owned())));
    let mut details = info(reason, &metadata);
    let remedy = remedy(limit);
    let description = format!("{name}: the limit is {value}; {remedy}");
    let mut violation = QuotaViolation::new(subject.clone(), description);
    violation.quota_metric = name.into();
    violation.quota_value = value;
    details.set_quota_failure(vec![violation]);
    details.set_retry_info(wait);
    let message = format!(
        "the limit {name} ({value}) of {subject} is reached; nothing was accepted; {remedy}"
    );
    Status::with_error_details(Code::ResourceExhausted, message, details)
}

/// What helps.
fn remedy(limit: Limit) -> String {
    let wait = match limit {
        Limit::OpenSchedulers => "release a scheduler",
        Limit::QueuedTasks | Limit::QueuedBytes => "wait for some tasks to end",
        Limit::SubmitRate => "call again later",
        Limit::Streams => "end a stream",
        Limit::UnfinishedOrders => "wait for some of its orders to end",
        Limit::Resources => "delete a resource, or use a pattern of names",
        Limit::OpenClaims | Limit::ClaimBytes => "release a claim",
        Limit::Jobs => "delete a job",
    };
    match option(limit) {
        Some(option) => format!("{wait}, or ask the operator to raise `serve {option}`"),
        None => wait.to_owned(),
    }
}

/// The option of `serve`, if the limit is one that an operator sets.
fn option(limit: Limit) -> Option<&'static str> {
    Some(match limit {
        Limit::OpenSchedulers => "--max-schedulers",
        Limit::QueuedTasks => "--max-queued-tasks",
        Limit::QueuedBytes => "--max-queued-mib",
        Limit::SubmitRate => "--max-submit-rate",
        Limit::Streams => "--max-streams",
        Limit::UnfinishedOrders
        | Limit::Resources
        | Limit::OpenClaims
        | Limit::ClaimBytes
        | Limit::Jobs => return None,
    })
}

fn reason(limit: Limit) -> Reason {
    match limit {
        Limit::OpenSchedulers => Reason::TooManySchedulers,
        Limit::QueuedTasks | Limit::QueuedBytes | Limit::UnfinishedOrders => Reason::QueueFull,
        Limit::SubmitRate => Reason::SubmitRateExceeded,
        Limit::Streams => Reason::TooManyStreams,
        Limit::Resources => Reason::TooManyResources,
        Limit::OpenClaims | Limit::ClaimBytes => Reason::TooManyClaims,
        Limit::Jobs => Reason::TooManyJobs,
    }
}
