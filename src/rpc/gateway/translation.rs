//! Messages of the API as JSON, whatever they are.

use super::messages;
use bytes::Bytes;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use serde_json::json;
use tonic::Status;

/// gRPC puts five bytes before each message: a compression flag and the length.
pub(super) const PREFIX_BYTES: usize = 5;
/// Longer messages are translated aside, so that nobody waits behind them.
const LONG_BYTES: usize = 64 << 10;
/// The field with which a stream is resumed: of its messages, and of its request.
pub(super) const RESUME_TOKEN: &str = "resume_token";
const STATUS: &str = "google.rpc.Status";

/// The JSON of a message.
pub(super) struct Translated {
    pub text: String,
    /// Where a stream goes on behind it, if it says so.
    pub resume_token: Option<String>,
}

pub(super) async fn translated(
    message: Bytes,
    kind: MessageDescriptor,
) -> Result<Translated, Status> {
    let is_long = message.len() > LONG_BYTES;
    let translate = move || {
        let message = DynamicMessage::decode(kind, message).ok()?;
        let token = message.get_field_by_name(RESUME_TOKEN);
        Some(Translated {
            resume_token: token.and_then(|token| Some(token.as_str()?.to_owned())),
            text: messages::json(&message)?,
        })
    };
    let translated = match is_long {
        false => translate(),
        true => tokio::task::spawn_blocking(translate).await.ok().flatten(),
    };
    translated.ok_or_else(untranslatable)
}

pub(super) fn untranslatable() -> Status {
    Status::internal("the answer cannot be said in JSON")
}

/// `google.rpc.Status` in JSON, with its details.
pub(super) fn status_json(status: &Status) -> String {
    let detailed = || {
        if status.details().is_empty() {
            return None;
        }
        let kind = messages::pool().get_message_by_name(STATUS)?;
        messages::json(&DynamicMessage::decode(kind, status.details()).ok()?)
    };
    let code = i32::from(status.code());
    let plain = || json!({"code": code, "message": status.message(), "details": []}).to_string();
    detailed().unwrap_or_else(plain)
}
