//! `SchedulerSettings` and the mask of UpdateScheduler. Fields outside the mask are ignored, valid
//! or not.

use super::{
    Roles, Targets, options,
    scalar::{self, MAX_NAME_BYTES},
};
use crate::{
    core::{
        LateOrder, OnFailure, ReleaseMode, SessionReset, Settings, SettingsField,
        model::limits::WEIGHT,
    },
    rpc::errors::{
        reason::Reason,
        violations::{Path, Violations},
    },
};
use rallypoint_client::api;
use std::{ops::RangeInclusive, time::Duration};

const IDLE_TIMEOUT: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(366 * 86_400);

/// The settings and their names in the mask.
const FIELDS: [(&str, SettingsField); 10] = [
    ("display_name", SettingsField::DisplayName),
    ("max_parallelism", SettingsField::MaxParallelism),
    ("weight", SettingsField::Weight),
    ("on_failure", SettingsField::OnFailure),
    ("late_order", SettingsField::LateOrder),
    ("default_options", SettingsField::DefaultOptions),
    ("idle_timeout", SettingsField::IdleTimeout),
    ("on_abandon", SettingsField::OnAbandon),
    ("session_reset", SettingsField::SessionReset),
    ("labels", SettingsField::Labels),
];

/// Settings of a scheduler; absent ones get their default.
pub(super) fn settings(
    v: &mut Violations,
    path: Path<'_>,
    settings: &api::SchedulerSettings,
    targets: &Targets,
) -> Settings {
    let default = Settings::default();
    let options = settings.default_options.as_ref();
    let idle = settings.idle_timeout.as_ref();
    let roles = Roles::anywhere(targets);
    Settings {
        display_name: display_name(v, path.field("display_name"), &settings.display_name),
        max_parallelism: max_parallelism(
            v,
            path.field("max_parallelism"),
            settings.max_parallelism,
        ),
        weight: weight(v, path.field("weight"), settings.weight).unwrap_or(default.weight),
        on_failure: on_failure(v, path.field("on_failure"), settings.on_failure),
        late_order: late_order(v, path.field("late_order"), settings.late_order),
        default_options: options
            .map(|o| options::task_options(v, path.field("default_options"), o, roles))
            .unwrap_or_default(),
        idle_timeout: idle
            .and_then(|idle| scalar::duration(v, path.field("idle_timeout"), idle, IDLE_TIMEOUT))
            .unwrap_or(default.idle_timeout),
        on_abandon: release_mode(v, path.field("on_abandon"), settings.on_abandon),
        session_reset: session_reset(v, path.field("session_reset"), settings.session_reset),
        labels: scalar::labels(v, path.field("labels"), &settings.labels),
        unknown: None,
    }
}

/// The settings an update changes.
pub(super) fn mask(
    v: &mut Violations,
    path: Path<'_>,
    mask: Option<&prost_types::FieldMask>,
) -> Vec<SettingsField> {
    let mut fields = Vec::new();
    let paths = mask.map(|mask| mask.paths.as_slice()).unwrap_or_default();
    if paths.is_empty() {
        v.add(
            path,
            Reason::MaskEmpty,
            format!(
                "name the settings to change: {}",
                FIELDS.map(|(name, _)| name).join(", ")
            ),
        );
    }
    let list = path.field("paths");
    for (index, name) in paths.iter().enumerate() {
        match FIELDS.iter().find(|(known, _)| known == name) {
            Some((_, field)) if !fields.contains(field) => fields.push(*field),
            Some(_) => {}
            None => v.add(
                list.index(index),
                Reason::MaskUnknownField,
                "not a setting (name whole settings, without prefix)",
            ),
        }
    }
    fields
}

/// `settings` with everything outside `fields` left out.
pub(super) fn masked(
    settings: api::SchedulerSettings,
    fields: &[SettingsField],
) -> api::SchedulerSettings {
    let mut masked = api::SchedulerSettings::default();
    let mut from = settings;
    for field in fields {
        match field {
            SettingsField::DisplayName => {
                masked.display_name = std::mem::take(&mut from.display_name)
            }
            SettingsField::MaxParallelism => masked.max_parallelism = from.max_parallelism,
            SettingsField::Weight => masked.weight = from.weight,
            SettingsField::OnFailure => masked.on_failure = from.on_failure,
            SettingsField::LateOrder => masked.late_order = from.late_order,
            SettingsField::DefaultOptions => masked.default_options = from.default_options.take(),
            SettingsField::IdleTimeout => masked.idle_timeout = from.idle_timeout,
            SettingsField::OnAbandon => masked.on_abandon = from.on_abandon,
            SettingsField::SessionReset => masked.session_reset = from.session_reset,
            SettingsField::Labels => masked.labels = std::mem::take(&mut from.labels),
        }
    }
    masked
}

/// How to release; unspecified: FINISH.
pub(super) fn release_mode(v: &mut Violations, path: Path<'_>, number: i32) -> ReleaseMode {
    match scalar::enumeration(v, path, number) {
        Some(api::ReleaseMode::Cancel) => ReleaseMode::Cancel,
        Some(api::ReleaseMode::Finish | api::ReleaseMode::Unspecified) | None => {
            ReleaseMode::Finish
        }
    }
}

fn display_name(v: &mut Violations, path: Path<'_>, name: &str) -> String {
    if name.len() > MAX_NAME_BYTES {
        v.add(
            path,
            Reason::NameTooLong,
            format!("at most {MAX_NAME_BYTES} bytes"),
        );
        return String::new();
    }
    if name.chars().any(char::is_control) {
        v.add(
            path,
            Reason::NameInvalid,
            "must not hold control characters",
        );
    }
    name.to_owned()
}

fn max_parallelism(v: &mut Violations, path: Path<'_>, limit: Option<i32>) -> Option<u32> {
    match limit? {
        0 => v.add(
            path,
            Reason::LimitZero,
            "must be at least 1; to start no more tasks, use PauseScheduler",
        ),
        ..0 => v.add(
            path,
            Reason::LimitOutOfRange,
            "must be at least 1; leave it out for no limit",
        ),
        1.. => {}
    }
    limit.map(|limit| limit.max(1) as u32)
}

fn weight(v: &mut Violations, path: Path<'_>, weight: Option<f64>) -> Option<f64> {
    let good = weight.filter(|weight| WEIGHT.contains(weight));
    if weight.is_some() && good.is_none() {
        v.add(
            path,
            Reason::WeightOutOfRange,
            format!("must be {} to {}", WEIGHT.start(), WEIGHT.end()),
        );
    }
    good
}

fn on_failure(v: &mut Violations, path: Path<'_>, number: i32) -> OnFailure {
    match scalar::enumeration(v, path, number) {
        Some(api::OnFailure::Halt) => OnFailure::Halt,
        Some(api::OnFailure::CancelRest) => OnFailure::CancelRest,
        Some(api::OnFailure::Continue | api::OnFailure::Unspecified) | None => OnFailure::Continue,
    }
}

fn late_order(v: &mut Violations, path: Path<'_>, number: i32) -> LateOrder {
    match scalar::enumeration(v, path, number) {
        Some(api::LateOrder::Join) => LateOrder::Join,
        Some(api::LateOrder::Reject | api::LateOrder::Unspecified) | None => LateOrder::Reject,
    }
}

fn session_reset(v: &mut Violations, path: Path<'_>, number: i32) -> SessionReset {
    match scalar::enumeration(v, path, number) {
        Some(api::SessionReset::Scheduler) => SessionReset::Scheduler,
        Some(api::SessionReset::Task | api::SessionReset::Unspecified) | None => SessionReset::Task,
    }
}
