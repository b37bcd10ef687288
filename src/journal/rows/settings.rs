//! A scheduler's settings as JSON.
//!
//! They are written as a whole by whichever version owns the shard. Fields that this version does
//! not know are kept and written again, so that a newer one beside it finds them as it left them.

use crate::core::Settings;
use serde_json::{Map, Value};

/// As they are written.
pub(crate) fn encode(settings: &Settings) -> serde_json::Result<Vec<u8>> {
    let Some(unknown) = &settings.unknown else {
        return serde_json::to_vec(settings);
    };
    let mut all = serde_json::to_value(settings)?;
    add(&mut all, serde_json::from_str(unknown)?);
    serde_json::to_vec(&all)
}

/// As they were written, by whichever version.
pub(crate) fn decode(bytes: &[u8]) -> serde_json::Result<Settings> {
    let mut settings: Settings = serde_json::from_slice(bytes)?;
    // What this version wrote comes out as it went in.
    if serde_json::to_vec(&settings)? != bytes {
        let unknown = rest(
            serde_json::from_slice(bytes)?,
            &serde_json::to_value(&settings)?,
        );
        settings.unknown = unknown.map(|unknown| unknown.to_string().into());
    }
    Ok(settings)
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
