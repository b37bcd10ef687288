//! The one JSON form of the command line: messages of the API in protobuf's JSON mapping, with the
//! names of the proto files and numbers as numbers (`docs/cli.md`).

use prost::{Message, Name};
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use rallypoint_client::api::DESCRIPTOR;
use serde_json::{Value, value::Serializer};
use std::sync::LazyLock;

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
    json.expect("every message has its JSON")
}

/// A message with the names of its fields.
pub(super) fn described<M: Message + Name>(message: &M) -> DynamicMessage {
    let name = M::full_name();
    let descriptor = MESSAGES.get_message_by_name(&name).expect("it is ours");
    let mut described = DynamicMessage::new(descriptor);
    described.transcode_from(message).expect("the same message");
    described
}

#[cfg(test)]
mod tests {
    use super::*;
    use rallypoint_client::api::{AsyncDone, Outcome};
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
}
