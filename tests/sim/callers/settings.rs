//! What callers set on their schedulers, at first and later.

use crate::{fixtures::POISON, rng::Rng};
use rallypoint::core::{
    Delivery, LateOrder, Naming, OnFailure, ReleaseMode, RetryPolicy, SessionReset, Settings,
    SettingsField, TaskOptions, Update, Verb,
};
use std::{sync::Arc, time::Duration};

const FIELDS: [SettingsField; 10] = [
    SettingsField::DisplayName,
    SettingsField::MaxParallelism,
    SettingsField::Weight,
    SettingsField::OnFailure,
    SettingsField::LateOrder,
    SettingsField::DefaultOptions,
    SettingsField::IdleTimeout,
    SettingsField::OnAbandon,
    SettingsField::SessionReset,
    SettingsField::Labels,
];

/// What a caller sets on a new scheduler.
pub(super) fn settings(poisoned: bool, rng: &mut Rng) -> Arc<Settings> {
    let idle_timeout = if rng.percent(10) {
        Duration::from_secs(10)
    } else {
        Duration::from_secs(24 * 3600)
    };
    Arc::new(Settings {
        display_name: name(poisoned),
        max_parallelism: rng.percent(50).then(|| 1 + rng.below(3) as u32),
        weight: *rng.one_of(&[1.0, 1.0, 3.0]),
        on_failure: *rng.one_of(&[OnFailure::Continue, OnFailure::Halt, OnFailure::CancelRest]),
        late_order: *rng.one_of(&[LateOrder::Reject, LateOrder::Join]),
        session_reset: *rng.one_of(&[SessionReset::Task, SessionReset::Scheduler]),
        on_abandon: *rng.one_of(&[ReleaseMode::Finish, ReleaseMode::Cancel]),
        default_options: if rng.percent(30) {
            default_options(rng)
        } else {
            TaskOptions::default()
        },
        idle_timeout,
        ..Settings::default()
    })
}

/// A name that others may want, too.
pub(super) fn naming(rng: &mut Rng) -> Option<Naming> {
    let name = (*rng.one_of(&[Some("a"), Some("b"), None]))?;
    Some(Naming {
        name: name.into(),
        reuse: rng.percent(60),
    })
}

/// A change of some settings; its other values must not count.
pub(super) fn update(poisoned: bool, rng: &mut Rng) -> Verb {
    let mut settings = (*settings(poisoned, rng)).clone();
    settings
        .labels
        .insert("label".into(), rng.below(3).to_string());
    let mut fields: Vec<SettingsField> = FIELDS.into_iter().filter(|_| rng.percent(15)).collect();
    if rng.percent(50) {
        fields.push(SettingsField::MaxParallelism);
    }
    if poisoned {
        fields.push(SettingsField::DisplayName);
    }
    Verb::Update(Arc::new(Update { settings, fields }))
}

fn default_options(rng: &mut Rng) -> TaskOptions {
    let retry = RetryPolicy {
        max_attempts: Some(2),
        ..RetryPolicy::default()
    };
    TaskOptions {
        retry: if rng.percent(50) {
            retry
        } else {
            RetryPolicy::default()
        },
        timeout: rng.percent(30).then_some(Duration::from_millis(800)),
        deadline: rng.percent(30).then_some(Duration::from_secs(5)),
        delivery: rng.percent(20).then_some(Delivery::AtMostOnce),
        ..TaskOptions::default()
    }
}

fn name(poisoned: bool) -> String {
    if poisoned {
        POISON.into()
    } else {
        String::new()
    }
}
