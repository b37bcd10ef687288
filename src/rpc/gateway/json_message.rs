//! The message of a call, read as JSON: protobuf's JSON mapping, in which a field that is not known
//! is an error. It becomes one gRPC frame. Nothing is read before the frame is asked for, and what
//! has arrived by then has room like any message.

use super::{json_shape, misplaced, translation::RESUME_TOKEN};
use crate::rpc::{errors, room::Place};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use prost::Message;
use prost_reflect::{DynamicMessage, FieldDescriptor, MessageDescriptor, Value};
use std::pin::Pin;
use tonic::{Status, body::Body};

/// Longer texts are read aside, so that nobody waits behind them.
const LONG_BYTES: usize = 64 << 10;
/// What a value takes as a part of a message, besides its text.
const VALUE_BYTES: usize = 350;

/// How the text of a call is read.
pub(super) struct JsonMessage {
    pub kind: MessageDescriptor,
    /// Where a stream goes on, if its request has a place for it.
    pub resume_token: Option<String>,
    pub place: Place,
    /// The longest text.
    pub largest: usize,
}

impl JsonMessage {
    /// The body of the gRPC call.
    pub(super) fn read(self, text: Body) -> Body {
        let frame = async move { self.frame(text).await.map(Frame::data) };
        Body::new(StreamBody::new(stream::once(Box::pin(frame))))
    }

    async fn frame(self, text: Body) -> Result<Bytes, Status> {
        let text = collect(text, &self.place, self.largest).await?;
        if text.len() <= LONG_BYTES {
            return self.framed(&text);
        }
        // It keeps its room until it is done, also if nobody waits for it any more.
        let aside = tokio::task::spawn_blocking(move || self.framed(&text));
        aside.await.map_err(|_| errors::message_malformed())?
    }
}

impl JsonMessage {
    fn framed(&self, text: &[u8]) -> Result<Bytes, Status> {
        let values = json_shape::values(&self.kind, text)?.unwrap_or_default();
        if !self.place.take(2 * text.len() + values * VALUE_BYTES) {
            return Err(errors::no_message_room());
        }
        frame(&self.kind, self.resume_token.clone(), text)
    }
}

async fn collect(mut text: Body, place: &Place, largest: usize) -> Result<BytesMut, Status> {
    let (mut collected, mut room) = (BytesMut::new(), 0);
    while let Some(frame) = Pin::new(&mut text).frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        let length = collected.len() + data.len();
        if length > largest {
            return Err(errors::gateway::text_too_large(largest));
        }
        if length > room {
            room = largest.min(2 * length);
            if !place.take(room) {
                return Err(errors::no_message_room());
            }
        }
        collected.put(data);
    }
    Ok(collected)
}

/// The frame of a message; no text is an empty message.
fn frame(
    kind: &MessageDescriptor,
    resume_token: Option<String>,
    text: &[u8],
) -> Result<Bytes, Status> {
    let text = if text.is_empty() { b"{}" } else { text };
    let mut message = read(kind, text)?;
    if let Some(token) = resume_token
        && kind.get_field_by_name(RESUME_TOKEN).is_some()
    {
        message.set_field_by_name(RESUME_TOKEN, Value::String(token));
    }
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(5 + length);
    frame.put_u8(0);
    frame.put_u32(length as u32);
    message
        .encode(&mut frame)
        .map_err(|_| errors::message_malformed())?;
    Ok(frame.freeze())
}

fn read(kind: &MessageDescriptor, text: &[u8]) -> Result<DynamicMessage, Status> {
    if masks(kind).next().is_some() {
        return read_with_masks(kind, text);
    }
    let mut json = serde_json::Deserializer::from_slice(text);
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    let message = DynamicMessage::deserialize(kind.clone(), tracked);
    let message = message.map_err(|error| misplaced::refusal(kind, &track.path(), &error))?;
    match json.end() {
        Ok(()) => Ok(message),
        Err(error) => Err(errors::gateway::not_json(error.line(), error.column())),
    }
}

/// The same of a message with field masks, in which names may stand as in the proto files, too:
/// protobuf's mapping knows them in camel case alone.
fn read_with_masks(kind: &MessageDescriptor, text: &[u8]) -> Result<DynamicMessage, Status> {
    let value = serde_json::from_slice(text);
    let mut value: serde_json::Value =
        value.map_err(|error| errors::gateway::not_json(error.line(), error.column()))?;
    for field in masks(kind) {
        for name in [field.name(), field.json_name()] {
            if let Some(serde_json::Value::String(mask)) = value.get_mut(name) {
                *mask = in_camel_case(mask);
            }
        }
    }
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(value, &mut track);
    let message = DynamicMessage::deserialize(kind.clone(), tracked);
    message.map_err(|error| misplaced::refusal(kind, &track.path(), &error))
}

/// The fields of a message that are field masks.
fn masks(kind: &MessageDescriptor) -> impl Iterator<Item = FieldDescriptor> {
    kind.fields().filter(|field| {
        let inner = field.kind();
        let inner = inner.as_message().map(|inner| inner.full_name().to_owned());
        inner.as_deref() == Some("google.protobuf.FieldMask")
    })
}

fn in_camel_case(name: &str) -> String {
    let mut after_underscore = false;
    let letters = name.chars().filter_map(|letter| {
        let was_after = std::mem::replace(&mut after_underscore, letter == '_');
        match (letter, was_after) {
            ('_', _) => None,
            (_, true) => Some(letter.to_ascii_uppercase()),
            (_, false) => Some(letter),
        }
    });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::gateway::messages;
    use rallypoint_client::api;
    use tonic_types::StatusExt;

    fn exec(text: &str) -> Result<DynamicMessage, Status> {
        let method = messages::method("/rallypoint.v1.SchedulerService/ExecAsync");
        read(&method.expect("a method").input(), text.as_bytes())
    }

    fn refused(text: &str) -> (String, String, String) {
        let status = exec(text).expect_err("refused");
        let details = status.get_error_details();
        let fields = details.bad_request().map(|bad| &bad.field_violations[..]);
        let field = fields.and_then(|fields| fields.first());
        let info = details.error_info().expect("a reason");
        assert_eq!(info.metadata["effect"], "none");
        (
            info.reason.clone(),
            field.map(|field| field.field.clone()).unwrap_or_default(),
            status.message().to_owned(),
        )
    }

    #[test]
    fn names_of_both_kinds_are_read() {
        for text in [
            r#"{"request_id": "r", "tasks": [{"sql": {"statement": "select 1"}, "order": 100}]}"#,
            r#"{"requestId": "r", "tasks": [{"order": "100", "sql": {"statement": "select 1"}}]}"#,
        ] {
            let message = exec(text).expect("it is read").encode_to_vec();
            let message = api::ExecAsyncRequest::decode(&message[..]).expect("the same message");
            assert_eq!(message.request_id, "r");
            assert_eq!(message.tasks[0].order, Some(100));
        }
    }

    /// A text, the reason of its refusal, the field, and a part of what is said.
    const WRONG: &[(&str, &str, &str, &str)] = &[
        (
            r#"{"taks": []}"#,
            "FIELD_UNKNOWN",
            "taks",
            "no field of this name",
        ),
        (
            r#"{"tasks": [{}, {"options": {"time_out": 3}}]}"#,
            "FIELD_UNKNOWN",
            "tasks[1].options.time_out",
            "no field of this name",
        ),
        (
            r#"{"tasks": [{"options": {"order": 5}}]}"#,
            "FIELD_UNKNOWN",
            "tasks[0].options.order",
            "`order` stands beside `options`",
        ),
        (
            r#"{"tasks": [{"sql": {"sql": "secret"}}]}"#,
            "FIELD_UNKNOWN",
            "tasks[0].sql.sql",
            "there are statement, params, target",
        ),
        (
            r#"{"tasks": [{"sql": {"noop": {}}}]}"#,
            "FIELD_UNKNOWN",
            "tasks[0].sql.noop",
            "there are statement, params, target",
        ),
        (
            r#"{"tasks": [{"sql": {"params": [{"null": "secret"}]}}]}"#,
            "MESSAGE_MALFORMED",
            "tasks[0].sql.params[0].null",
            r#"`{"null": null}`"#,
        ),
        (
            r#"{"tasks": [{"order": "secret"}]}"#,
            "MESSAGE_MALFORMED",
            "tasks[0].order",
            "a whole number",
        ),
        (
            r#"{"tasks": [{"options": {"totalTimeout": "secret"}}]}"#,
            "MESSAGE_MALFORMED",
            "tasks[0].options.total_timeout",
            "a duration",
        ),
        (
            r#"{"tasks": [{"options": {"delivery": "secret"}}]}"#,
            "MESSAGE_MALFORMED",
            "tasks[0].options.delivery",
            "DELIVERY_AT_LEAST_ONCE",
        ),
        (
            r#"{"tasks": [{"options": {"labels": {"a": 1}}}]}"#,
            "MESSAGE_MALFORMED",
            r#"tasks[0].options.labels["a"]"#,
            "a text",
        ),
        (
            r#"{"tasks": [{"sql": {}, "noop": {}}]}"#,
            "MESSAGE_MALFORMED",
            "tasks[0]",
            "`sql`, `noop`",
        ),
        (
            r#"{"tasks": {"secret": 1}}"#,
            "MESSAGE_MALFORMED",
            "tasks",
            "a list",
        ),
        (r#"["secret"]"#, "MESSAGE_MALFORMED", "", "an object"),
        (
            r#"{"handle": secret}"#,
            "MESSAGE_MALFORMED",
            "",
            "line 1, column 12",
        ),
        (r#"{"handle": "#, "MESSAGE_MALFORMED", "", "not JSON"),
        (r#"{} secret"#, "MESSAGE_MALFORMED", "", "not JSON"),
    ];

    #[test]
    fn what_is_wrong_is_named_by_its_field_and_never_repeated() {
        for (text, reason, field, says) in WRONG {
            let found = refused(text);
            assert_eq!(
                (&*found.0, &*found.1),
                (*reason, *field),
                "{text}: {}",
                found.2
            );
            assert!(found.2.contains(says), "{text}: {}", found.2);
            assert!(!found.2.contains("secret"), "{}", found.2);
        }
    }

    #[test]
    fn fields_of_a_mask_are_named_in_either_way() {
        let method = messages::method("/rallypoint.v1.SchedulerService/UpdateScheduler");
        let kind = method.expect("a method").input();
        for mask in ["display_name,weight", "displayName,weight"] {
            let text = format!(r#"{{"handle": "h", "update_mask": "{mask}"}}"#);
            let message = read(&kind, text.as_bytes())
                .expect("it is read")
                .encode_to_vec();
            let message = api::UpdateSchedulerRequest::decode(&message[..]);
            let mask = message.expect("the same message").update_mask;
            assert_eq!(mask.expect("a mask").paths, ["display_name", "weight"]);
        }
    }

    #[test]
    fn a_deep_text_is_refused_and_not_followed() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(
            refused(&format!(r#"{{"tasks": {deep}}}"#)).0,
            "MESSAGE_MALFORMED"
        );
    }
}
