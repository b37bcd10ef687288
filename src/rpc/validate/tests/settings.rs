//! Settings of schedulers, and the mask of an update.

use super::{
    super::update,
    fixtures::{faults, good_handle, label, labels, one, open, seconds, targets},
};
use crate::rpc::errors::reason::Reason;
use rallypoint_client::api;

fn settings(change: impl FnOnce(&mut api::SchedulerSettings)) -> api::SchedulerSettings {
    let mut settings = api::SchedulerSettings::default();
    change(&mut settings);
    settings
}

#[track_caller]
fn assert_refused(wrong: api::SchedulerSettings, field: &str, reason: Reason) {
    let expected = one(&format!("settings.{field}"), reason);
    assert_eq!(faults(open(wrong)), expected);
}

#[test]
fn wrong_settings_are_named() {
    for (limit, reason) in [(0, Reason::LimitZero), (-1, Reason::LimitOutOfRange)] {
        assert_refused(
            settings(|s| s.max_parallelism = Some(limit)),
            "max_parallelism",
            reason,
        );
    }
    for weight in [0.0, f64::NAN, 1000.5] {
        let wrong = settings(|s| s.weight = Some(weight));
        assert_refused(wrong, "weight", Reason::WeightOutOfRange);
    }
    assert_refused(
        settings(|s| s.on_failure = 9),
        "on_failure",
        Reason::EnumUnknown,
    );
    assert_refused(
        settings(|s| s.late_order = -1),
        "late_order",
        Reason::EnumUnknown,
    );
    assert_refused(
        settings(|s| s.on_abandon = 3),
        "on_abandon",
        Reason::EnumUnknown,
    );
    for idle_timeout in [seconds(0), seconds(367 * 86_400)] {
        let wrong = settings(|s| s.idle_timeout = idle_timeout);
        assert_refused(wrong, "idle_timeout", Reason::DurationOutOfRange);
    }
    let long = settings(|s| s.display_name = "x".repeat(256));
    assert_refused(long, "display_name", Reason::NameTooLong);
    let control = settings(|s| s.display_name = "a\0b".into());
    assert_refused(control, "display_name", Reason::NameInvalid);
}

#[test]
fn wrong_labels_are_named() {
    let table = [
        ("labels", labels(65)),
        (r#"labels[""]"#, label("", "v")),
        (r#"labels["a b"]"#, label("a b", "v")),
        (r#"labels["k"]"#, label("k", "\n")),
        (r#"labels["k"]"#, label("k", &"v".repeat(256))),
    ];
    for (field, labels) in table {
        assert_refused(
            settings(|s| s.labels = labels),
            field,
            Reason::LabelsInvalid,
        );
    }
    let good = settings(|s| {
        s.labels = labels(64);
        s.max_parallelism = Some(1);
    });
    assert!(open(good).is_ok());
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
        faults(update(request(None), &targets())),
        one("update_mask", Reason::MaskEmpty)
    );
    assert_eq!(
        faults(update(request(mask(&[])), &targets())),
        one("update_mask", Reason::MaskEmpty)
    );
    for path in ["*", "settings.weight", "labels.a", "Weight", ""] {
        assert_eq!(
            faults(update(request(mask(&["weight", path])), &targets())),
            one("update_mask.paths[1]", Reason::MaskUnknownField)
        );
    }
    assert_eq!(
        faults(update(request(mask(&["max_parallelism"])), &targets())),
        one("settings.max_parallelism", Reason::LimitZero)
    );
    let (_, good) = update(request(mask(&["weight", "weight"])), &targets())
        .expect("outside the mask nothing counts");
    assert_eq!(
        (
            good.settings.weight,
            good.settings.max_parallelism,
            good.fields.len()
        ),
        (2.0, None, 1)
    );
}
