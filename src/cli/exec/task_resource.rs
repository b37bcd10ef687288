//! Resources of a task in words, as in `-- @resource pool permits 2`, and as JSON.

use rallypoint_client::api::{ResourceMode, ResourceUse};
use serde_json::{Map, Value, json};

/// A name that may hold spaces, and behind it how it is used: exclusively unless it is said.
pub(super) fn parse(text: &str) -> Result<ResourceUse, String> {
    let shared = |name: &str, permits| ResourceUse {
        name: name.trim().to_owned(),
        mode: ResourceMode::Shared.into(),
        permits,
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let used = match words[..] {
        [.., "permits", number] if words.len() > 2 => {
            let permits = number.parse().ok().filter(|permits| *permits > 0);
            let permits = permits.ok_or_else(|| format!("`{number}` is no number of permits"))?;
            let name = text.trim_end().trim_end_matches(number).trim_end();
            shared(name.trim_end_matches("permits"), permits)
        }
        [.., "shared"] if words.len() > 1 => shared(text.trim_end().trim_end_matches("shared"), 1),
        _ => ResourceUse {
            name: text.trim().to_owned(),
            mode: ResourceMode::Exclusive.into(),
            permits: 0,
        },
    };
    match used.name.as_str() {
        "" => Err("there is nothing behind it".to_owned()),
        _ => Ok(used),
    }
}

/// As [`parse`] takes it.
pub(super) fn text(used: &ResourceUse) -> String {
    match (used.mode(), used.permits) {
        (ResourceMode::Shared, 0 | 1) => format!("{} shared", used.name),
        (ResourceMode::Shared, permits) => format!("{} permits {permits}", used.name),
        _ => used.name.clone(),
    }
}

/// One of the field `resources`: its name, or an object with `name`, `mode` and `permits`.
pub(super) fn from_json(value: &Value) -> Result<ResourceUse, String> {
    let wrong = || {
        r#"write `["orders", {"name": "pool", "permits": 2}]`; `mode` is exclusive or shared"#
            .to_owned()
    };
    let object = match value {
        Value::String(name) => &Map::from_iter([("name".to_owned(), json!(name))]),
        Value::Object(object) => object,
        _ => return Err(wrong()),
    };
    let known = |key: &String| ["name", "mode", "permits"].contains(&key.as_str());
    let name = object.get("name").and_then(Value::as_str);
    let name = name.filter(|name| !name.is_empty() && object.keys().all(known));
    let permits = object.get("permits").map_or(Some(0), Value::as_i64);
    let permits = permits.and_then(|permits| i32::try_from(permits).ok());
    let permits = permits.filter(|permits| *permits >= 0).ok_or_else(wrong)?;
    let mode = match object.get("mode").map_or(Some(""), Value::as_str) {
        Some("" | "exclusive") if permits == 0 => ResourceMode::Exclusive,
        Some("" | "shared") => ResourceMode::Shared,
        _ => return Err(wrong()),
    };
    Ok(ResourceUse {
        name: name.ok_or_else(wrong)?.to_owned(),
        mode: mode.into(),
        permits,
    })
}

/// As [`from_json`] takes it.
pub(super) fn json(used: &ResourceUse) -> Value {
    match used.mode() {
        ResourceMode::Shared => {
            json!({"name": used.name, "mode": "shared", "permits": used.permits.max(1)})
        }
        _ => json!({"name": used.name, "mode": "exclusive"}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_json_say_the_same() {
        for said in [
            "orders",
            "tenant/7 shared",
            "pool permits 2",
            "my permits",
            "a b shared",
        ] {
            let used = parse(said).expect(said);
            assert_eq!(text(&used), said);
            let permits = used
                .permits
                .max(i32::from(used.mode() == ResourceMode::Shared));
            let again = from_json(&json(&used)).expect(said);
            assert_eq!(again, ResourceUse { permits, ..used });
        }
        assert_eq!(parse("pool permits 1").unwrap().permits, 1);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(parse(" ").is_err());
        assert!(parse("pool permits none").unwrap_err().contains("`none`"));
        let bad = [
            json!({"name": "a", "mode": "exclusive", "permits": 2}),
            json!({"name": "a", "permit": 2}),
            json!({"mode": "shared"}),
            json!({"name": "a", "permits": -1}),
            json!(7),
        ];
        assert!(bad.iter().all(|value| from_json(value).is_err()));
    }
}
