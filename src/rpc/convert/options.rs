//! Settings of schedulers and options of tasks, as callers set them.

use super::{duration, resource::resource_use};
use crate::core::{
    Delivery, Isolation, LateOrder, NO_ROLE, OnFailure, ReleaseMode, RetryPolicy, SessionOptions,
    SessionReset, Settings, TaskOptions,
};
use rallypoint_client::api;
use std::collections::{BTreeMap, HashMap};

pub(super) fn settings(settings: &Settings) -> api::SchedulerSettings {
    api::SchedulerSettings {
        display_name: settings.display_name.clone(),
        max_parallelism: settings.max_parallelism.map(|limit| limit as i32),
        weight: Some(settings.weight),
        on_failure: match settings.on_failure {
            OnFailure::Continue => api::OnFailure::Continue,
            OnFailure::Halt => api::OnFailure::Halt,
            OnFailure::CancelRest => api::OnFailure::CancelRest,
        }
        .into(),
        late_order: match settings.late_order {
            LateOrder::Reject => api::LateOrder::Reject,
            LateOrder::Join => api::LateOrder::Join,
        }
        .into(),
        default_options: (!settings.default_options.is_default())
            .then(|| options(&settings.default_options)),
        idle_timeout: Some(duration(settings.idle_timeout)),
        on_abandon: match settings.on_abandon {
            ReleaseMode::Finish => api::ReleaseMode::Finish,
            ReleaseMode::Cancel => api::ReleaseMode::Cancel,
        }
        .into(),
        labels: labels(&settings.labels),
        session_reset: match settings.session_reset {
            SessionReset::Task => api::SessionReset::Task,
            SessionReset::Scheduler => api::SessionReset::Scheduler,
        }
        .into(),
    }
}

fn labels(labels: &BTreeMap<String, String>) -> HashMap<String, String> {
    labels
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

pub(super) fn options(options: &TaskOptions) -> api::TaskOptions {
    api::TaskOptions {
        not_before: options.not_before.map(super::timestamp),
        timeout: options.timeout.map(duration),
        total_timeout: options.deadline.map(duration),
        retry: (!options.retry.is_default()).then(|| retry(&options.retry)),
        delivery: match options.delivery {
            None => api::Delivery::Unspecified,
            Some(Delivery::AtLeastOnce) => api::Delivery::AtLeastOnce,
            Some(Delivery::AtMostOnce) => api::Delivery::AtMostOnce,
            Some(Delivery::ExactlyOnce) => api::Delivery::ExactlyOnce,
        }
        .into(),
        result_rows: options.result_rows.map(|rows| rows as i32),
        labels: labels(&options.labels),
        session: (!options.session.is_default()).then(|| session(&options.session)),
        resources: options.resources.iter().map(resource_use).collect(),
    }
}

fn session(options: &SessionOptions) -> api::SessionOptions {
    api::SessionOptions {
        read_only: options.read_only,
        isolation: match options.isolation {
            None => api::Isolation::Unspecified,
            Some(Isolation::ReadCommitted) => api::Isolation::ReadCommitted,
            Some(Isolation::RepeatableRead) => api::Isolation::RepeatableRead,
            Some(Isolation::Serializable) => api::Isolation::Serializable,
        }
        .into(),
        search_path: options.search_path.clone(),
        statement_timeout: options.statement_timeout.map(duration),
        role: options.role.as_ref().map(|role| match role.as_str() {
            NO_ROLE => String::new(),
            name => name.to_owned(),
        }),
    }
}

fn retry(retry: &RetryPolicy) -> api::RetryPolicy {
    api::RetryPolicy {
        max_attempts: retry.max_attempts.map(|attempts| attempts as i32),
        max_losses: retry.max_losses.map(|losses| losses as i32),
        initial_backoff: retry.initial.map(duration),
        backoff_multiplier: retry.multiplier,
        max_backoff: retry.max.map(duration),
        jitter: retry.jitter,
        non_retryable_codes: retry.non_retryable.clone(),
    }
}
