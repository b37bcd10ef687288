//! What a text in JSON is like, before a message is made of it: it has a bounded number of values,
//! each of which takes many times its text as a part of a message, and no key stands twice in an
//! object, nor a field under both of its names, since which of the two counts would have to be
//! guessed.

use crate::likeness::shortened;
use crate::rpc::errors::{self, reason::Reason};
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::{collections::HashSet, fmt};
use tonic::Status;

/// A call of 10 000 tasks with some options each has fewer.
const MAX_VALUES: usize = 250_000;

/// How many values the text of a message has; [`None`]: it is no JSON, and whoever reads it says
/// where.
pub(super) fn values(kind: &MessageDescriptor, text: &[u8]) -> Result<Option<usize>, Status> {
    let mut shape = Shape::default();
    let mut json = serde_json::Deserializer::from_slice(text);
    let value = Value {
        shape: &mut shape,
        is: Is::Message(kind.clone()),
    };
    let read = value.deserialize(&mut json);
    match (shape.fault, read) {
        (Some(Fault::Many), _) => Err(errors::gateway::too_many_values(MAX_VALUES)),
        (Some(Fault::Twice(key)), _) => {
            let message = format!("`{}` stands twice in one object", shortened(&key));
            Err(errors::gateway::field(
                "",
                Reason::MessageMalformed,
                message,
            ))
        }
        (None, read) => Ok(read.ok().map(|()| shape.values)),
    }
}

#[derive(Default)]
struct Shape {
    values: usize,
    fault: Option<Fault>,
}

enum Fault {
    Many,
    Twice(String),
}

/// Looks at the next value, and all that is in it.
struct Value<'a> {
    shape: &'a mut Shape,
    is: Is,
}

/// What an object is; of a list, each of its objects.
#[derive(Clone)]
enum Is {
    Message(MessageDescriptor),
    /// Its keys are no fields, and its values are this.
    Map(Box<Is>),
    /// Whatever it is, it has no fields.
    Other,
}

impl Is {
    fn of(kind: Kind) -> Is {
        match kind {
            Kind::Message(message) => Is::Message(message),
            _ => Is::Other,
        }
    }

    fn field(&self, key: &str) -> Option<FieldDescriptor> {
        match self {
            Is::Message(message) => message
                .get_field_by_json_name(key)
                .or_else(|| message.get_field_by_name(key)),
            _ => None,
        }
    }

    /// What stands under a key.
    fn value(&self, field: Option<&FieldDescriptor>) -> Is {
        match (self, field.map(FieldDescriptor::kind)) {
            (_, Some(Kind::Message(entry))) if entry.is_map_entry() => {
                Is::Map(Box::new(Is::of(entry.map_entry_value_field().kind())))
            }
            (_, Some(kind)) => Is::of(kind),
            (Is::Map(value), None) => (**value).clone(),
            (_, None) => Is::Other,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        self.shape.values += 1;
        if self.shape.values > MAX_VALUES {
            self.shape.fault = Some(Fault::Many);
            return Err(D::Error::custom("too many values"));
        }
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        let Value { shape, is } = self;
        loop {
            let value = Value {
                shape: &mut *shape,
                is: is.clone(),
            };
            if values.next_element_seed(value)?.is_none() {
                return Ok(());
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            let field = self.is.field(&key);
            let name = field.as_ref().map_or(&*key, FieldDescriptor::name);
            if !keys.insert(name.to_owned()) {
                self.shape.fault = Some(Fault::Twice(name.to_owned()));
                return Err(A::Error::custom("a key stands twice"));
            }
            entries.next_value_seed(Value {
                shape: &mut *self.shape,
                is: self.is.value(field.as_ref()),
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::gateway::messages;

    fn values(text: &[u8]) -> Result<Option<usize>, Status> {
        let method = messages::method("/rallypoint.v1.SchedulerService/ExecAsync");
        super::values(&method.expect("a method").input(), text)
    }

    #[test]
    fn values_are_counted_at_any_depth() {
        let text = br#"{"a": [1, "x", {"b": null}], "b": {"a": true}}"#;
        assert_eq!(values(text).expect("no fault"), Some(8));
        assert_eq!(values(b"{").expect("no fault"), None);
    }

    #[test]
    fn a_key_that_stands_twice_is_refused() {
        let refused = values(br#"{"tasks": [{"a": 1, "b": 2, "a": 3}]}"#).expect_err("refused");
        assert!(refused.message().contains("`a` stands twice"), "{refused}");
    }

    #[test]
    fn a_field_that_stands_under_both_of_its_names_is_refused() {
        let refused = |text: &str| {
            values(text.as_bytes())
                .expect_err("refused")
                .message()
                .to_owned()
        };
        let twice = refused(r#"{"request_id": "a", "requestId": "b"}"#);
        assert!(twice.contains("`request_id` stands twice"), "{twice}");
        let nested =
            refused(r#"{"tasks": [{"options": {"totalTimeout": "1s", "total_timeout": "2s"}}]}"#);
        assert!(nested.contains("`total_timeout` stands twice"), "{nested}");
        let labels = r#"{"tasks": [{"options": {"labels": {"a_b": "1", "aB": "2"}}}]}"#;
        assert_eq!(values(labels.as_bytes()).expect("two labels"), Some(7));
    }

    #[test]
    fn a_text_of_many_values_is_refused_before_it_is_a_message() {
        let text = format!("[{}{{}}]", "{},".repeat(MAX_VALUES));
        assert!(values(text.as_bytes()).is_err());
    }
}
