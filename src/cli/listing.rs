//! A message in full, a field a line, for people: the names are those of its JSON
//! (`done.error.code`), but numbers that are times are shown as times, and what is not set is left
//! out.

use super::{json, output, terminal_text::clean, time_text};
use prost::{Message, Name};
use prost_reflect::{DynamicMessage, Kind, MapKey, ReflectMessage, Value};
use prost_types::{Duration, Timestamp};
use std::borrow::Cow;

/// Writes it on stdout.
pub(super) fn print<M: Message + Name>(message: &M) {
    lines(&json::described(message))
        .iter()
        .for_each(output::line);
}

fn lines(message: &DynamicMessage) -> Vec<String> {
    let mut fields = Vec::new();
    gather("", message, &mut fields);
    let widest = fields.iter().map(|(name, _)| name.chars().count()).max();
    let widest = widest.unwrap_or(0);
    fields
        .iter()
        .flat_map(|(name, value)| field(name, value, widest))
        .collect()
}

/// `name  value`; a value of several lines begins below its name, indented.
fn field(name: &str, value: &str, widest: usize) -> Vec<String> {
    let text: Vec<String> = value
        .lines()
        .map(|line| clean(&line.replace('\t', "    ")))
        .collect();
    match &text[..] {
        [line] => vec![format!("{name:<widest$}  {line}")],
        lines => {
            let indented = lines
                .iter()
                .map(|line| format!("    {line}").trim_end().to_owned());
            std::iter::once(name.to_owned()).chain(indented).collect()
        }
    }
}

/// The fields that are set, each with its path.
fn gather(path: &str, message: &DynamicMessage, fields: &mut Vec<(String, String)>) {
    for (field, value) in message.fields() {
        let (name, value) = as_time(field.name(), value);
        let path = match path {
            "" => name,
            path => format!("{path}.{name}"),
        };
        gather_value(path, &field.kind(), &value, fields);
    }
}

/// A number of microseconds since 1970, such as `started_us`, as the time `started_at`.
fn as_time<'a>(name: &str, value: &'a Value) -> (String, Cow<'a, Value>) {
    match (name.strip_suffix("_us"), value) {
        (Some(stem), Value::I64(us)) => {
            let time = Value::String(time_text::time(*us));
            (format!("{stem}_at"), Cow::Owned(time))
        }
        _ => (name.to_owned(), Cow::Borrowed(value)),
    }
}

fn gather_value(path: String, kind: &Kind, value: &Value, fields: &mut Vec<(String, String)>) {
    match value {
        Value::Message(message) => match text_of(message) {
            Some(text) => fields.push((path, text)),
            None => gather(&path, message, fields),
        },
        Value::List(values) => {
            for (index, value) in values.iter().enumerate() {
                gather_value(format!("{path}[{index}]"), kind, value, fields);
            }
        }
        Value::Map(map) => {
            let mut entries: Vec<_> = map.iter().map(|(key, value)| (name(key), value)).collect();
            entries.sort_by(|one, other| one.0.cmp(&other.0));
            for (key, value) in entries {
                gather_value(format!("{path}.{key}"), kind, value, fields);
            }
        }
        value => fields.push((path, scalar(kind, value))),
    }
}

fn name(key: &MapKey) -> String {
    match key {
        MapKey::String(key) => key.clone(),
        key => format!("{key:?}"),
    }
}

/// A time or a duration; `None`: another message.
fn text_of(message: &DynamicMessage) -> Option<String> {
    match message.descriptor().full_name() {
        "google.protobuf.Timestamp" => {
            let time: Timestamp = message.transcode_to().ok()?;
            Some(time_text::time(time_text::micros(Some(&time))))
        }
        "google.protobuf.Duration" => {
            let duration: Duration = message.transcode_to().ok()?;
            Some(time_text::duration(time_text::duration_us(Some(&duration))))
        }
        _ => None,
    }
}

fn scalar(kind: &Kind, value: &Value) -> String {
    match (value, kind) {
        (Value::EnumNumber(number), Kind::Enum(values)) => {
            let value = values.get_value(*number);
            let value = value.map(|value| value.name().to_owned());
            value.map_or_else(|| number.to_string(), |name| word(values.name(), &name))
        }
        (Value::String(text), _) => text.clone(),
        (Value::Bytes(bytes), _) => String::from_utf8_lossy(bytes).into_owned(),
        (Value::Bool(yes), _) => yes.to_string(),
        (Value::I32(number), _) => number.to_string(),
        (Value::I64(number), _) => number.to_string(),
        (Value::U32(number), _) => number.to_string(),
        (Value::U64(number), _) => number.to_string(),
        (Value::F64(number), _) => number.to_string(),
        (Value::F32(number), _) => number.to_string(),
        (value, _) => format!("{value:?}"),
    }
}

/// `TASK_STATE_DONE` of TaskState as `done`.
fn word(type_name: &str, value: &str) -> String {
    let mut prefix = String::new();
    for letter in type_name.chars() {
        if letter.is_uppercase() && !prefix.is_empty() {
            prefix.push('_');
        }
        prefix.extend(letter.to_uppercase());
    }
    let value = value.strip_prefix(&format!("{prefix}_")).unwrap_or(value);
    value.to_lowercase().replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rallypoint_client::api::{AsyncDone, OnFailure, Scheduler, SchedulerSettings};

    #[test]
    fn a_number_that_is_a_time_is_shown_as_one() {
        let done = AsyncDone {
            started_us: 1_000_000,
            ..AsyncDone::default()
        };
        let shown = lines(&json::described(&done));
        assert_eq!(shown, ["started_at  1970-01-01 00:00:01.000Z"]);
    }

    #[test]
    fn fields_have_their_paths_and_enumerations_their_words() {
        let settings = SchedulerSettings {
            display_name: "a\nb\u{202e}c\x1b".to_owned(),
            weight: Some(0.5),
            on_failure: OnFailure::CancelRest.into(),
            idle_timeout: Some(Duration {
                seconds: 90,
                nanos: 0,
            }),
            labels: [("team".to_owned(), "sales".to_owned())].into(),
            ..SchedulerSettings::default()
        };
        let scheduler = Scheduler {
            handle: "h".to_owned(),
            settings: Some(settings),
            running: 3,
            ..Scheduler::default()
        };
        let expected = "\
handle                 h
settings.display_name
    a
    b\u{fffd}c
settings.weight        0.5
settings.on_failure    cancel rest
settings.idle_timeout  1 min 30 s
settings.labels.team   sales
running                3";
        assert_eq!(lines(&json::described(&scheduler)).join("\n"), expected);
    }
}
