//! Settings of schedulers, jobs and resources as JSON.
//!
//! They are written as a whole by whichever version owns the shard. Fields that this version does
//! not know are kept and written again, so that a newer one beside it finds them as it left them.

use crate::core::Settings;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Those of a scheduler as they are written.
pub(crate) fn encode(settings: &Settings) -> serde_json::Result<Vec<u8>> {
    with_unknown(settings, settings.unknown.as_deref())
}

/// As they were written, by whichever version.
pub(crate) fn decode(bytes: &[u8]) -> serde_json::Result<Settings> {
    let (settings, unknown) = known_and_unknown::<Settings>(bytes)?;
    Ok(Settings {
        unknown,
        ..settings
    })
}

/// What this version knows of settings, with the fields that it does not know.
pub(crate) fn with_unknown<T>(known: &T, unknown: Option<&str>) -> serde_json::Result<Vec<u8>>
where
    T: Serialize + DeserializeOwned,
{
    let Some(unknown) = unknown else {
        return serde_json::to_vec(known);
    };
    let known = serde_json::to_value(known)?;
    let fields: Map<String, Value> = serde_json::from_str(unknown)?;
    let mut all = known.clone();
    let may = |all: &Value| {
        let read = serde_json::from_value::<T>(all.clone()).and_then(serde_json::to_value);
        read.is_ok_and(|read| read == known)
    };
    add_readable(&mut all, &[], fields, &may);
    serde_json::to_vec(&all)
}

/// Adds those fields of an object, at `place` in `all`, with which this version reads the same. One
/// of what has been replaced since, as of another kind of schedule, has no place any more, and
/// would leave settings that no version can read; what lies beside it stays.
fn add_readable(
    all: &mut Value,
    place: &[&str],
    fields: Map<String, Value>,
    may: &impl Fn(&Value) -> bool,
) {
    for (name, value) in fields {
        let here: Vec<&str> = place.iter().copied().chain([name.as_str()]).collect();
        let mut more = all.clone();
        add(&mut more, at(&here, value.clone()));
        if may(&more) {
            *all = more;
            continue;
        }
        let known = here.iter().try_fold(&*all, |all, name| all.get(name));
        let is_object = known.is_some_and(Value::is_object);
        if let (Value::Object(fields), true) = (value, is_object) {
            add_readable(all, &here, fields, may);
        }
    }
}

/// An object with nothing but this value, at a place in it.
fn at(place: &[&str], value: Value) -> Value {
    place.iter().rev().fold(value, |value, name| {
        Value::Object(Map::from_iter([((*name).to_owned(), value)]))
    })
}

/// What this version knows of them, and the other fields as JSON.
pub(crate) fn known_and_unknown<T>(bytes: &[u8]) -> serde_json::Result<(T, Option<Arc<str>>)>
where
    T: Serialize + DeserializeOwned,
{
    let known: T = serde_json::from_slice(bytes)?;
    // What this version wrote comes out as it went in.
    if serde_json::to_vec(&known)? == bytes {
        return Ok((known, None));
    }
    let unknown = rest(
        serde_json::from_slice(bytes)?,
        &serde_json::to_value(&known)?,
    );
    Ok((known, unknown.map(|unknown| unknown.to_string().into())))
}

/// The fields of `all` that `known` has not.
fn rest(all: Value, known: &Value) -> Option<Value> {
    let (Value::Object(all), Value::Object(known)) = (all, known) else {
        return None;
    };
    let rest: Map<String, Value> = all
        .into_iter()
        .filter_map(|(name, value)| match known.get(&name) {
            Some(known) => Some((name, rest(value, known)?)),
            None => Some((name, value)),
        })
        .collect();
    (!rest.is_empty()).then_some(Value::Object(rest))
}

/// Adds the fields that `all` has not.
fn add(all: &mut Value, fields: Value) {
    let (Value::Object(all), Value::Object(fields)) = (all, fields) else {
        return;
    };
    for (name, value) in fields {
        match all.get_mut(&name) {
            Some(known) => add(known, value),
            None => {
                all.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{
        JobSettings, Misfire, Overlap,
        schedule::{RuleText, ScheduleText},
    };
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn fields_of_a_newer_version_outlive_a_change_by_this_one() {
        let newer = r#"{"weight":2.0,"color":{"r":1},
            "default_options":{"timeout":{"secs":1,"nanos":0},"sandbox":"on"}}"#;
        let mut settings = decode(newer.as_bytes()).unwrap();
        settings.weight = 3.0;
        settings.default_options.timeout = Some(Duration::from_secs(5));
        let written: Value = serde_json::from_slice(&encode(&settings).unwrap()).unwrap();
        assert_eq!(written["weight"], 3.0);
        assert_eq!(written["color"]["r"], 1);
        assert_eq!(written["default_options"]["sandbox"], "on");
        assert_eq!(written["default_options"]["timeout"]["secs"], 5);
    }

    #[test]
    fn a_field_of_what_was_replaced_since_goes_with_it_and_no_other() {
        let mut newer = serde_json::to_value(every_minute()).unwrap();
        newer["schedule"]["rule"]["Interval"]["on_boot"] = json!(true);
        newer["schedule"]["color"] = json!(7);
        newer["scheduler"]["sandbox"] = json!("on");
        let newer = newer.to_string();
        let (mut job, unknown) = known_and_unknown::<JobSettings>(newer.as_bytes()).unwrap();
        let written = |job: &JobSettings| {
            let written = with_unknown(job, unknown.as_deref()).unwrap();
            serde_json::from_slice::<Value>(&written).unwrap()
        };
        job.schedule.jitter = Duration::from_secs(5);
        let changed = written(&job);
        assert_eq!(changed["schedule"]["rule"]["Interval"]["on_boot"], true);
        assert_eq!(changed["schedule"]["color"], 7);
        job.schedule.rule = RuleText::Cron("0 3 * * *".into());
        let replaced = written(&job);
        assert_eq!(replaced["schedule"]["rule"], json!({"Cron": "0 3 * * *"}));
        assert_eq!(replaced["schedule"]["color"], 7);
        assert_eq!(replaced["scheduler"]["sandbox"], "on");
    }

    fn every_minute() -> JobSettings {
        JobSettings {
            schedule: ScheduleText {
                rule: RuleText::Interval {
                    every: Duration::from_secs(60),
                    phase: Duration::ZERO,
                },
                time_zone: "UTC".to_owned(),
                dst_gap: None,
                dst_fold: None,
                jitter: Duration::ZERO,
                start: String::new(),
                end: String::new(),
                exclude: Vec::new(),
            },
            overlap: Overlap::Skip,
            misfire: Misfire::Skip,
            rerun: None,
            max_runtime: None,
            pause_after_failures: None,
            scheduler: Arc::new(Settings::default()),
            claimed: false,
        }
    }

    #[test]
    fn what_this_version_wrote_has_nothing_unknown() {
        let mut settings = Settings {
            max_parallelism: Some(3),
            ..Settings::default()
        };
        settings.labels.insert("team".into(), "a \0 ü".into());
        let again = decode(&encode(&settings).unwrap()).unwrap();
        assert_eq!(again, settings);
        assert_eq!(again.unknown, None);
    }
}
