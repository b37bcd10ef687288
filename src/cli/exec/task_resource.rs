//! Resources of a task in words, as in `-- @resource pool permits 2`, and as JSON.

use super::task_option;
use crate::likeness::did_you_mean;
use rallypoint_client::api::{ResourceMode, ResourceUse};
use serde_json::{Map, Value, json};

/// How it stands in a comment.
pub(super) const FORM: &str =
    "resource NAME`, `-- @resource NAME shared` or `-- @resource NAME permits N";

/// Where the resources of a task stand: each task has its own, so no option says them of all.
pub(in crate::cli) const RESOURCES_STAND: &str = "ahead of the statement in a .sql file, as \
     `-- @resource NAME`, or in a line of JSON, as `resources`";

/// A name, in quotes if it holds spaces, and behind it how it is used: exclusively unless it is
/// said. A slip there must not become a part of the name: a pattern would take that for another
/// resource.
pub(super) fn parse(text: &str) -> Result<ResourceUse, String> {
    let (name, behind) = name(text.trim())?;
    let words: Vec<&str> = behind.split_whitespace().collect();
    let (mode, permits) = match words[..] {
        [] => (ResourceMode::Exclusive, 0),
        ["shared"] => (ResourceMode::Shared, 1),
        ["permits", number] => {
            let permits = number.parse().ok().filter(|permits| *permits > 0);
            let permits = permits.ok_or_else(|| format!("`{number}` is no number of permits"))?;
            (ResourceMode::Shared, permits)
        }
        ["permits"] => return Err("a number is missing behind `permits`".to_owned()),
        [first, ..] => return Err(misused(text.trim(), &name, first, behind.trim())),
    };
    Ok(ResourceUse {
        name,
        mode: mode.into(),
        permits,
    })
}

/// The name at the beginning, and what stands behind it. In quotes, a quote is written twice, as in
/// a name of SQL.
fn name(text: &str) -> Result<(String, &str), String> {
    let Some(quoted) = text.strip_prefix('"') else {
        return match text.split_once(char::is_whitespace) {
            Some((name, behind)) => Ok((name.to_owned(), behind)),
            None if text.is_empty() => Err("there is nothing behind it".to_owned()),
            None => Ok((text.to_owned(), "")),
        };
    };
    let mut name = String::new();
    let mut rest = quoted;
    loop {
        let (part, behind) = rest
            .split_once('"')
            .ok_or("the quote ahead of the name has none behind it")?;
        name.push_str(part);
        match behind.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None if name.is_empty() => return Err("there is no name in the quotes".to_owned()),
            None => return Ok((name, behind)),
        }
    }
}

/// What is wrong with the words behind a name.
fn misused(text: &str, name: &str, first: &str, behind: &str) -> String {
    if behind.eq_ignore_ascii_case("exclusive") {
        return format!(
            "write `{name}` without `{behind}`: a resource without a word behind its name is held \
             exclusively"
        );
    }
    let wrong = format!("`{behind}` behind the name `{name}` is neither `shared` nor `permits N`");
    let meant = did_you_mean(first, &["shared", "permits"]);
    match (text.starts_with('"'), &*meant) {
        (true, _) => wrong + &meant,
        (false, "") => format!("{wrong}; {QUOTE}: `{}`", quoted(text)),
        (false, meant) => format!("{wrong}{meant} {QUOTE}: `{}`", quoted(text)),
    }
}

const QUOTE: &str = "a name that holds spaces is quoted";

/// As [`parse`] takes it.
pub(super) fn text(used: &ResourceUse) -> String {
    let name = match used.name.starts_with('"') || used.name.contains(char::is_whitespace) {
        true => quoted(&used.name),
        false => used.name.clone(),
    };
    match (used.mode(), used.permits) {
        (ResourceMode::Shared, 0 | 1) => format!("{name} shared"),
        (ResourceMode::Shared, permits) => format!("{name} permits {permits}"),
        _ => name,
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

const KEYS: [&str; 3] = ["name", "mode", "permits"];

/// One of the field `resources`: its name, or an object with `name`, `mode` and `permits`.
pub(super) fn from_json(value: &Value) -> Result<ResourceUse, String> {
    let wrong = || {
        r#"write `["orders", {"name": "pool", "permits": 2}]`; `mode` is exclusive or shared"#
            .to_owned()
    };
    let object = match value {
        Value::String(name) => &Map::from_iter([("name".to_owned(), json!(plain(name)?))]),
        Value::Object(object) => object,
        _ => return Err(wrong()),
    };
    if let Some(key) = object.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!("`{key}`: {}", task_option::unknown(key, &KEYS)));
    }
    let name = object.get("name").and_then(Value::as_str);
    let name = name.filter(|name| !name.is_empty());
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

/// The name that a string is. With spaces it may have been meant to say how it is used.
fn plain(name: &str) -> Result<&str, String> {
    match name.split_once(char::is_whitespace) {
        None => Ok(name),
        Some((first, _)) => Err(format!(
            "a string with spaces may be a name, or a name and its use: write {} or {}",
            json!({"name": name}),
            json!({"name": first, "permits": 2}),
        )),
    }
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
            "shared",
            r#""my permits""#,
            r#""a b" shared"#,
            r#""a ""b"" c" permits 3"#,
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
        assert_eq!(parse(r#"  "pool"  shared "#), parse("pool shared"));
    }

    #[test]
    fn a_slip_behind_a_name_is_no_part_of_it() {
        for (text, why) in [
            (
                "tenant/a sharde",
                "did you mean `shared`? a name that holds spaces is quoted: `\"tenant/a sharde\"`",
            ),
            (
                "tenant/a permit 1",
                "`permit 1` behind the name `tenant/a` is neither",
            ),
            ("a exclusive", "write `a` without `exclusive`"),
            ("a shared 2", "`shared 2` behind the name"),
            ("a permits 2 3", "`permits 2 3` behind the name"),
            ("nope permits", "a number is missing"),
            ("pool permits none", "`none`"),
            (r#""a b" 2"#, "`2` behind the name `a b`"),
            (r#""a b"#, "has none behind it"),
            (r#""""#, "no name in the quotes"),
            (" ", "nothing behind it"),
        ] {
            let wrong = parse(text).expect_err(text);
            assert!(wrong.contains(why), "{text}: {wrong}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let bad = [
            json!({"name": "a", "mode": "exclusive", "permits": 2}),
            json!({"name": "a", "permit": 2}),
            json!({"mode": "shared"}),
            json!({"name": "a", "permits": -1}),
            json!(7),
        ];
        assert!(bad.iter().all(|value| from_json(value).is_err()));
        let unknown = from_json(&json!({"name": "a", "permit": 2})).unwrap_err();
        assert!(unknown.starts_with("`permit`: it is unknown: did you mean `permits`?"));
        let spaced = from_json(&json!("tenant/a sharde")).unwrap_err();
        assert!(spaced.contains(r#"{"name":"tenant/a sharde"}"#), "{spaced}");
    }
}
