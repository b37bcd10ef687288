//! The one JSON form of the command line: messages of the API in protobuf's JSON mapping, with the
//! names of the proto files and numbers as numbers (`docs/cli.md`).
//!
//! What the mapping says of bytes would hide rows of a result in base64; they are JSON already and
//! stand as such.

use base64::{Engine, engine::general_purpose::STANDARD};
use prost::{Message, Name};
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use rallypoint_client::api::DESCRIPTOR;
use serde_json::{Value, value::Serializer};
use std::sync::LazyLock;

/// The field of bytes that hold JSON.
const ROWS: &str = "rows_json";

static MESSAGES: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTOR).expect("descriptors of our own making"));

/// A message as JSON. Fields without a value are there with their default, unless they can be
/// absent. No number is over 2^53, so none is a string.
pub(super) fn of<M: Message + Name>(message: &M) -> Value {
    let dynamic = described(message);
    let options = SerializeOptions::new()
        .use_proto_field_name(true)
        .stringify_64_bit_integers(false)
        .skip_default_fields(false);
    let json = dynamic.serialize_with_options(Serializer, &options);
    let mut json = json.expect("every message has its JSON");
    unpack_rows(&mut json);
    json
}

/// A message with the names of its fields.
pub(super) fn described<M: Message + Name>(message: &M) -> DynamicMessage {
    let name = M::full_name();
    let descriptor = MESSAGES.get_message_by_name(&name).expect("it is ours");
    let mut described = DynamicMessage::new(descriptor);
    described.transcode_from(message).expect("the same message");
    described
}

fn unpack_rows(json: &mut Value) {
    match json {
        Value::Array(values) => values.iter_mut().for_each(unpack_rows),
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), &*value) {
                    (ROWS, Value::String(bytes)) => *value = rows(bytes),
                    _ => unpack_rows(value),
                }
            }
        }
        _ => {}
    }
}

/// The rows; null when none were requested.
fn rows(bytes: &str) -> Value {
    let json = STANDARD.decode(bytes).ok();
    json.and_then(|json| serde_json::from_slice(&json).ok())
        .unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rallypoint_client::api::{AsyncDone, ListTasksResponse, Outcome, TaskResult, TaskView};
    use serde_json::json;

    #[test]
    fn a_message_has_the_names_of_the_proto_files_and_numbers_as_numbers() {
        let done = AsyncDone {
            seq: (1 << 53) - 1,
            outcome: Outcome::TimedOut.into(),
            ..AsyncDone::default()
        };
        let json = of(&done);
        assert_eq!(json["seq"], 9_007_199_254_740_991_i64);
        assert_eq!(json["outcome"], "OUTCOME_TIMED_OUT");
        assert_eq!(
            (&json["done_no"], &json["notices"]),
            (&json!(0), &json!(""))
        );
        assert_eq!(json.get("error"), None, "{json}");
    }

    #[test]
    fn rows_of_a_result_are_json() {
        let result = TaskResult {
            rows_json: r#"[{"a": 1}]"#.into(),
            ..TaskResult::default()
        };
        let done = AsyncDone {
            result: Some(result),
            ..AsyncDone::default()
        };
        let task = TaskView {
            done: Some(done),
            ..TaskView::default()
        };
        let tasks = ListTasksResponse {
            tasks: vec![task],
            ..ListTasksResponse::default()
        };
        let json = of(&tasks);
        let result = &json["tasks"][0]["done"]["result"];
        assert_eq!(result["rows_json"], json!([{ "a": 1 }]), "{json}");
        assert_eq!(of(&TaskResult::default())["rows_json"], Value::Null);
    }
}
