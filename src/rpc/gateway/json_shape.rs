//! What a text in JSON is like, before a message is made of it: it has a bounded number of values,
//! each of which takes many times its text as a part of a message, and no key stands twice in an
//! object, since which of the two counts would have to be guessed.

use crate::likeness::shortened;
use crate::rpc::errors::{self, reason::Reason};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::{collections::HashSet, fmt};
use tonic::Status;

/// A call of 10 000 tasks with some options each has fewer.
const MAX_VALUES: usize = 250_000;

/// How many values a text has; [`None`]: it is no JSON, and whoever reads it says where.
pub(super) fn values(text: &[u8]) -> Result<Option<usize>, Status> {
    let mut shape = Shape::default();
    let mut json = serde_json::Deserializer::from_slice(text);
    let read = Value(&mut shape).deserialize(&mut json);
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
struct Value<'a>(&'a mut Shape);

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        self.0.values += 1;
        if self.0.values > MAX_VALUES {
            self.0.fault = Some(Fault::Many);
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
        while values.next_element_seed(Value(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            if keys.contains(&key) {
                self.0.fault = Some(Fault::Twice(key));
                return Err(A::Error::custom("a key stands twice"));
            }
            keys.insert(key);
            entries.next_value_seed(Value(self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_text_of_many_values_is_refused_before_it_is_a_message() {
        let text = format!("[{}{{}}]", "{},".repeat(MAX_VALUES));
        assert!(values(text.as_bytes()).is_err());
    }
}
