//! The codec of the server: what it is asked must be what it knows.
//!
//! A field that a server does not know is dropped by protobuf without a word, and a caller that set
//! it is told that all is well: a task would run without its lock, a filter would admit everything.
//! Such a request is refused instead. Requests are recognised by their name, since the stubs of the
//! client use the same codec; a field of an answer may be passed over.

use crate::api::{DESCRIPTOR, ErrorReason};
use bytes::{Buf, Bytes};
use prost::{
    Message, Name,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field},
};
use prost_reflect::{DescriptorPool, Kind, MessageDescriptor};
use std::{collections::HashMap, marker::PhantomData, sync::LazyLock};
use tonic::{
    Code, Status,
    codec::{Codec, DecodeBuf, Decoder},
};
use tonic_prost::{ProstCodec, ProstEncoder};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

static MESSAGES: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTOR).expect("descriptors of our own making"));

/// The most fields of a request, those of its parts not counted: each may become as large as a
/// task, of two bytes. A call takes 10 000 tasks.
const MAX_FIELDS: usize = 100_000;

/// Encodes a `T`, decodes an `R`, whose fields must all be known if it is a request.
pub struct StrictCodec<T, R>(PhantomData<fn(T) -> R>);

/// The decoding half.
pub struct StrictDecoder<R>(PhantomData<fn() -> R>);

impl<T, R> Default for StrictCodec<T, R> {
    fn default() -> Self {
        StrictCodec(PhantomData)
    }
}

impl<T, R> Codec for StrictCodec<T, R>
where
    T: Message + 'static,
    R: Message + Name + Default + 'static,
{
    type Encode = T;
    type Decode = R;
    type Encoder = ProstEncoder<T>;
    type Decoder = StrictDecoder<R>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, R>::default().encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        StrictDecoder(PhantomData)
    }
}

impl<R: Message + Name + Default + 'static> Decoder for StrictDecoder<R> {
    type Item = R;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<R>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        let is_request = R::NAME.ends_with("Request");
        if is_request && has_many_fields(bytes.clone()) {
            return Err(too_large());
        }
        let message = R::decode(bytes.clone());
        let message = message.map_err(|error| Status::internal(error.to_string()))?;
        // Nearly every encoder writes what this one would; what others write is looked at field by
        // field.
        if is_request
            && message.encoded_len() != bytes.len()
            && let Some(message) = MESSAGES.get_message_by_name(&R::full_name())
            && let Some(field) = unknown_field(&message, bytes, "")
        {
            return Err(refusal(&field));
        }
        Ok(Some(message))
    }
}

/// Whether there are so many that the message is not to be decoded.
fn has_many_fields(mut bytes: Bytes) -> bool {
    let mut fields = 0;
    while bytes.has_remaining() && fields <= MAX_FIELDS {
        // What cannot be skipped cannot be decoded.
        let skipped = decode_key(&mut bytes).and_then(|(number, wire)| {
            skip_field(wire, number, &mut bytes, DecodeContext::default())
        });
        if skipped.is_err() {
            return false;
        }
        fields += 1;
    }
    fields > MAX_FIELDS
}

fn too_large() -> Status {
    let reason = ErrorReason::CallTooLarge.as_str_name();
    let mut details = ErrorDetails::new();
    let metadata = HashMap::from([
        ("effect".to_owned(), "none".to_owned()),
        ("limit_fields".to_owned(), MAX_FIELDS.to_string()),
    ]);
    details.set_error_info(reason, "rallypoint", metadata);
    let message = format!("a call has at most {MAX_FIELDS} fields; make several calls");
    Status::with_error_details(Code::InvalidArgument, message, details)
}

/// The path of the first field that the message does not have, with its number in the place of a
/// name.
fn unknown_field(message: &MessageDescriptor, mut bytes: Bytes, path: &str) -> Option<String> {
    let mut seen: HashMap<u32, usize> = HashMap::new();
    while bytes.has_remaining() {
        // It has been decoded before.
        let (number, wire) = decode_key(&mut bytes).ok()?;
        let Some(field) = message.get_field(number) else {
            return Some(format!("{path}{number}"));
        };
        match field.kind() {
            Kind::Message(inner) if wire == WireType::LengthDelimited => {
                let length = decode_varint(&mut bytes).ok()?;
                let index = seen.entry(number).or_default();
                let at = match field.is_list() {
                    true => format!("{path}{}[{index}].", field.name()),
                    false => format!("{path}{}.", field.name()),
                };
                *index += 1;
                let found = unknown_field(&inner, bytes.split_to(length as usize), &at);
                if found.is_some() {
                    return found;
                }
            }
            _ => skip_field(wire, number, &mut bytes, DecodeContext::default()).ok()?,
        }
    }
    None
}

fn refusal(field: &str) -> Status {
    let reason = ErrorReason::FieldUnknown.as_str_name();
    let what = "this server has no field of this number: it is of an older version than its caller, \
                or the caller's proto files are not those of Rallypoint";
    let mut details = ErrorDetails::new();
    let metadata = HashMap::from([("effect".to_owned(), "none".to_owned())]);
    details.set_error_info(reason, "rallypoint", metadata);
    details.set_bad_request(vec![FieldViolation::new(field, what)]);
    Status::with_error_details(Code::InvalidArgument, format!("{field}: {what}"), details)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{ExecAsyncRequest, Task, TaskOptions};

    fn call() -> ExecAsyncRequest {
        let options = TaskOptions {
            labels: HashMap::from([("a".to_owned(), String::new())]),
            ..TaskOptions::default()
        };
        let task = |options| Task {
            order: Some(0),
            options,
            ..Task::default()
        };
        ExecAsyncRequest {
            handle: "h".into(),
            tasks: vec![task(None), task(Some(options))],
            ..ExecAsyncRequest::default()
        }
    }

    fn unknown(bytes: Vec<u8>) -> Option<String> {
        let message = MESSAGES.get_message_by_name(&ExecAsyncRequest::full_name());
        unknown_field(&message.expect("it is ours"), bytes.into(), "")
    }

    #[test]
    fn a_request_of_very_many_parts_is_not_decoded() {
        assert!(!has_many_fields(call().encode_to_vec().into()));
        // Empty tasks.
        let tasks = |count| Bytes::from([0x1a, 0].repeat(count));
        assert!(!has_many_fields(tasks(MAX_FIELDS)));
        assert!(has_many_fields(tasks(MAX_FIELDS + 1)));
    }

    #[test]
    fn a_field_of_a_newer_version_is_named_by_its_path() {
        let known = call().encode_to_vec();
        assert_eq!(unknown(known.clone()), None);
        // Field 99, a varint.
        let newer = [0x98, 0x06, 0x01];
        assert_eq!(
            unknown([&known[..], &newer].concat()).as_deref(),
            Some("99")
        );
        // In the options (field 11) of a third task (field 3).
        let options = [&[0x5a, newer.len() as u8][..], &newer].concat();
        let task = [&[0x1a, options.len() as u8][..], &options].concat();
        let nested = [&known[..], &task].concat();
        assert_eq!(unknown(nested).as_deref(), Some("tasks[2].options.99"));
    }

    #[test]
    fn another_encoding_of_known_fields_is_none() {
        // The handle twice, and an explicit default.
        let known = call().encode_to_vec();
        let doubled = [&known[..], &known[..], &[0x12, 0x00]].concat();
        assert_eq!(unknown(doubled), None);
    }
}
