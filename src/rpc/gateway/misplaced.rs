//! What is wrong with a request in JSON: the field, by its path in the proto message, and what it
//! needs. What the request says there is not repeated.

use crate::{
    core::model::limits::MAX_ORDER,
    likeness::{closest, shortened},
    rpc::errors::{self, reason::Reason},
};
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::error::Category;
use serde_path_to_error::{Path, Segment};
use std::fmt::Display;
use tonic::Status;

/// Fields that are named of an object that is needed.
const FIELDS_SHOWN: usize = 5;

/// Why a text is no message of `kind`: what came of it at `path`.
pub(super) fn refusal(kind: &MessageDescriptor, path: &Path, error: &serde_json::Error) -> Status {
    if error.classify() != Category::Data {
        return errors::gateway::not_json(error.line(), error.column());
    }
    let (mut name, place) = follow(kind, path);
    let said = error.to_string();
    if let Some(unknown) = quoted_after(&said, "unrecognized field name '") {
        let separator = if name.is_empty() { "" } else { "." };
        name = format!("{name}{separator}{}", shortened(unknown));
        let known = fields_at(&place);
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let mut message = "this server has no field of this name".to_owned();
        let question = |meant: String| format!(": did you mean `{meant}`?");
        let alike = || closest(shortened(unknown), &known).map(str::to_owned);
        let inner = inner_field(&place, unknown).map(question);
        let tip = inner.or_else(|| outer_field(&place, unknown));
        match tip.or_else(|| alike().map(question)) {
            Some(tip) => message.push_str(&tip),
            None if (1..=MOST_NAMED).contains(&known.len()) => {
                message.push_str(&format!(": there are {}", known.join(", ")));
            }
            None => {}
        }
        return errors::gateway::field(&name, Reason::FieldUnknown, message);
    }
    if let Some(oneof) = quoted_after(&said, "multiple fields provided for oneof '") {
        let message = format!("only one of {} can be set", members(&place, oneof));
        return errors::gateway::field(&name, Reason::MessageMalformed, message);
    }
    let message = format!("{} is needed", needed(&place));
    errors::gateway::field(&name, Reason::MessageMalformed, message)
}

/// Fields of a message that are named where none is like the unknown one.
const MOST_NAMED: usize = 12;

/// Where in a message a path leads.
enum Place {
    Message(MessageDescriptor),
    /// A field as a whole.
    Field(FieldDescriptor),
    /// An element of it, or the value of an entry.
    Element(Kind),
    Nowhere,
}

/// The path in the names of the proto files, and where it leads.
fn follow(kind: &MessageDescriptor, path: &Path) -> (String, Place) {
    let (mut name, mut place) = (String::new(), Place::Message(kind.clone()));
    for segment in path {
        let inner = match &place {
            Place::Message(message) => Some(message.clone()),
            Place::Field(field) if !field.is_list() && !field.is_map() => {
                field.kind().as_message().cloned()
            }
            Place::Element(kind) => kind.as_message().cloned(),
            _ => None,
        };
        place = match (segment, inner, place) {
            (Segment::Map { key }, Some(message), _) => {
                let field = message.get_field_by_json_name(key);
                let Some(field) = field.or_else(|| message.get_field_by_name(key)) else {
                    return (name, Place::Message(message));
                };
                if !name.is_empty() {
                    name.push('.');
                }
                name.push_str(field.name());
                Place::Field(field)
            }
            (Segment::Seq { index }, _, Place::Field(field)) => {
                name.push_str(&format!("[{index}]"));
                Place::Element(field.kind())
            }
            (Segment::Map { key }, _, Place::Field(field)) if field.is_map() => {
                name.push_str(&format!("[{:?}]", shortened(key)));
                let entry = field.kind();
                let value = entry
                    .as_message()
                    .map(|entry| entry.map_entry_value_field());
                value.map_or(Place::Nowhere, |value| Place::Element(value.kind()))
            }
            _ => Place::Nowhere,
        };
    }
    (name, place)
}

/// The message that belongs at a place.
fn message_at(place: &Place) -> Option<MessageDescriptor> {
    match place {
        Place::Message(message) => Some(message.clone()),
        Place::Field(field) => field.kind().as_message().cloned(),
        Place::Element(kind) => kind.as_message().cloned(),
        Place::Nowhere => None,
    }
}

/// The names of the fields that may stand at a place.
fn fields_at(place: &Place) -> Vec<String> {
    let fields = message_at(place);
    let fields = fields.iter().flat_map(MessageDescriptor::fields);
    fields.map(|field| field.name().to_owned()).collect()
}

/// The one field of this name that stands one level further down.
fn inner_field(place: &Place, name: &str) -> Option<String> {
    let inner = |field: FieldDescriptor| {
        let within = field.kind();
        let within = within.as_message()?;
        // Those of Google are written as texts.
        let is_object = !within.full_name().starts_with("google.protobuf.");
        if !is_object || field.is_list() || field.is_map() {
            return None;
        }
        let found = within.get_field_by_json_name(name);
        let found = found.or_else(|| within.get_field_by_name(name))?;
        Some(format!("{}.{}", field.name(), found.name()))
    };
    let message = message_at(place)?;
    let mut found = message.fields().filter_map(inner);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// Where the field of this name is that belongs beside the place, and not into it.
fn outer_field(place: &Place, name: &str) -> Option<String> {
    let Place::Field(field) = place else {
        return None;
    };
    let around = field.parent_message();
    let found = around.get_field_by_json_name(name);
    let found = found.or_else(|| around.get_field_by_name(name))?;
    // Only one field of a oneof can be set.
    let oneof = field.containing_oneof();
    if found == *field || oneof.is_some() && oneof == found.containing_oneof() {
        return None;
    }
    let (found, within) = (found.name(), field.name());
    Some(format!(": `{found}` stands beside `{within}`, not in it"))
}

/// What belongs at a place.
fn needed(place: &Place) -> String {
    match place {
        Place::Message(_) => "an object".into(),
        Place::Field(field) if field.is_map() => "an object".into(),
        Place::Field(field) if field.is_list() => "a list".into(),
        Place::Field(field) => needed_by(&field.kind()),
        Place::Element(kind) => needed_by(kind),
        Place::Nowhere => "another value".into(),
    }
}

fn needed_by(kind: &Kind) -> String {
    match kind {
        Kind::String => "a text".into(),
        Kind::Bytes => "a text in base64".into(),
        Kind::Bool => "true or false".into(),
        Kind::Double | Kind::Float => "a number".into(),
        Kind::Enum(values) if values.full_name() == "google.protobuf.NullValue" => {
            "`null`, as in `{\"null\": null}`,".into()
        }
        Kind::Enum(values) => {
            let values = values.values().skip(1);
            let names: Vec<String> = values.map(|value| value.name().to_owned()).collect();
            format!("one of {}", names.join(", "))
        }
        Kind::Message(message) => match message.full_name() {
            "google.protobuf.Duration" => "a duration in seconds like \"1.5s\"".into(),
            "google.protobuf.Timestamp" => "a time like \"2026-12-01T08:00:00Z\"".into(),
            "google.protobuf.FieldMask" => "a text like \"weight,labels\"".into(),
            _ => {
                let fields = message.fields().take(FIELDS_SHOWN);
                let names: Vec<String> = fields.map(|one| format!("`{}`", one.name())).collect();
                match names.is_empty() {
                    true => "an object".into(),
                    false => format!("an object, with fields like {},", names.join(", ")),
                }
            }
        },
        Kind::Uint32 | Kind::Fixed32 => whole_number(u32::MAX),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => whole_number(i32::MAX),
        // None is larger than what any reader of JSON keeps exactly.
        _ => whole_number(MAX_ORDER),
    }
}

/// No number of the API is negative.
fn whole_number(most: impl Display) -> String {
    format!("a whole number from 0 to {most}")
}

/// The fields of which only one can be set.
fn members(place: &Place, oneof: &str) -> String {
    let found =
        message_at(place).and_then(|message| message.oneofs().find(|found| found.name() == oneof));
    let fields = found.map(|oneof| {
        let names = oneof.fields().map(|field| format!("`{}`", field.name()));
        names.collect::<Vec<_>>().join(", ")
    });
    fields.unwrap_or_default()
}

fn quoted_after<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(before)?;
    let (quoted, _) = after.rsplit_once('\'')?;
    Some(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_is_asked_for_by_its_range() {
        for (kind, range) in [
            (Kind::Int32, "0 to 2147483647"),
            (Kind::Uint32, "0 to 4294967295"),
            (Kind::Int64, "0 to 9007199254740991"),
            (Kind::Uint64, "0 to 9007199254740991"),
        ] {
            assert_eq!(needed_by(&kind), format!("a whole number from {range}"));
        }
    }
}
