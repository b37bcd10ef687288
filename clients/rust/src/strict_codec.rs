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
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor, OneofDescriptor};
use std::{collections::HashMap, marker::PhantomData, sync::LazyLock};
use tonic::{
    Code, Status,
    codec::{Codec, DecodeBuf, Decoder},
};
use tonic_prost::{ProstCodec, ProstEncoder};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

static MESSAGES: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTOR).expect("descriptors of our own making"));

/// What the lists of a request may occupy once they are decoded, besides texts: a call of 10 000
/// tasks needs less, with many parts in each. Of two bytes may come as much as a task takes.
const MAX_DECODED_BYTES: usize = 128 << 20;
/// A request of so many bytes cannot be decoded into more than that.
const SMALL_BYTES: usize = 64 << 10;
/// A text, a list or a map in a decoded message.
const FIELD_BYTES: usize = 24;
/// A list that grows may have room for as much again.
const SPARE: usize = 2;
/// How deep messages may lie in each other, as prost reads them.
const MAX_DEPTH: usize = 100;

/// What each message occupies by its full name, the messages in it included, but for elements of
/// its lists.
static SIZES: LazyLock<HashMap<String, usize>> = LazyLock::new(|| {
    let sized = |message: MessageDescriptor| {
        let size = size(&message, MAX_DEPTH);
        (message.full_name().to_owned(), size)
    };
    MESSAGES.all_messages().map(sized).collect()
});

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
        let described = || MESSAGES.get_message_by_name(&R::full_name());
        if is_request
            && bytes.len() > SMALL_BYTES
            && let Some(message) = described()
            && decoded_bytes(&message, bytes.clone(), MAX_DEPTH) > MAX_DECODED_BYTES
        {
            return Err(too_large());
        }
        let message = R::decode(bytes.clone());
        let message = message.map_err(|error| Status::internal(error.to_string()))?;
        // Nearly every encoder writes what this one would; what others write is looked at field by
        // field.
        if is_request
            && message.encoded_len() != bytes.len()
            && let Some(message) = described()
            && let Some(field) = unknown_field(&message, bytes, "")
        {
            return Err(refusal(&field));
        }
        Ok(Some(message))
    }
}

/// What a message occupies: its fields, and the messages that lie in it.
fn size(message: &MessageDescriptor, depth: usize) -> usize {
    let of_field = |field: FieldDescriptor| match field.kind() {
        Kind::Message(inner) if !field.is_list() && !field.is_map() && depth > 0 => {
            size(&inner, depth - 1)
        }
        _ => FIELD_BYTES,
    };
    // Of a oneof one is set, and there is room for the largest.
    let in_oneof = |oneof: OneofDescriptor| oneof.fields().map(of_field).max();
    let others = message.fields().filter(|f| f.containing_oneof().is_none());
    let others: usize = others.map(of_field).sum();
    others + message.oneofs().filter_map(in_oneof).sum::<usize>()
}

/// What the elements of its lists occupy once the message is decoded, at all depths; no more is
/// counted than what is too much.
fn decoded_bytes(message: &MessageDescriptor, mut bytes: Bytes, depth: usize) -> usize {
    let mut sum = 0;
    while bytes.has_remaining() && sum <= MAX_DECODED_BYTES {
        // What cannot be skipped cannot be decoded.
        let Ok((number, wire)) = decode_key(&mut bytes) else {
            break;
        };
        let field = message.get_field(number);
        let is_list = field
            .as_ref()
            .is_some_and(|one| one.is_list() || one.is_map());
        match field.map(|field| field.kind()) {
            Some(Kind::Message(inner)) if wire == WireType::LengthDelimited && depth > 0 => {
                let length = decode_varint(&mut bytes).map_or(usize::MAX, |length| length as usize);
                if length > bytes.len() {
                    break;
                }
                if is_list {
                    sum += SPARE * SIZES.get(inner.full_name()).copied().unwrap_or(0);
                }
                sum += decoded_bytes(&inner, bytes.split_to(length), depth - 1);
            }
            kind => {
                let before = bytes.len();
                let context = DecodeContext::default();
                if skip_field(wire, number, &mut bytes, context).is_err() {
                    break;
                }
                sum += match kind {
                    Some(Kind::String | Kind::Bytes) if is_list => SPARE * FIELD_BYTES,
                    // Numbers may be packed: eight bytes for each of one.
                    Some(_) if is_list => SPARE * 8 * (before - bytes.len()),
                    _ => 0,
                };
            }
        }
    }
    sum
}

fn too_large() -> Status {
    let reason = ErrorReason::CallTooLarge.as_str_name();
    let mut details = ErrorDetails::new();
    let metadata = HashMap::from([
        ("effect".to_owned(), "none".to_owned()),
        (
            "limit_decoded_bytes".to_owned(),
            MAX_DECODED_BYTES.to_string(),
        ),
    ]);
    details.set_error_info(reason, "rallypoint", metadata);
    let message = "the lists of this call have too many elements: decoded they take more than \
                   128 MiB; make several calls";
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
    use crate::api::{
        CreateJobRequest, ExecAsyncRequest, JobSettings, ResourceUse, SqlTask, SqlValue, Task,
        TaskOptions, task,
    };
    use prost::encoding::{encode_key, encode_varint};

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

    fn decoded<R: Name>(bytes: &[u8]) -> usize {
        let message = MESSAGES.get_message_by_name(&R::full_name());
        let bytes = Bytes::copy_from_slice(bytes);
        decoded_bytes(&message.expect("it is ours"), bytes, MAX_DEPTH)
    }

    /// A message that has nothing but one of its fields, so many times.
    fn of_one_field<R: Name>(name: &str, value: &[u8], count: usize) -> Vec<u8> {
        let message = MESSAGES.get_message_by_name(&R::full_name());
        let field = message.and_then(|message| message.get_field_by_name(name));
        let mut bytes = Vec::new();
        let number = field.expect("it has it").number();
        encode_key(number, WireType::LengthDelimited, &mut bytes);
        encode_varint(value.len() as u64, &mut bytes);
        [bytes, value.to_vec()].concat().repeat(count)
    }

    #[test]
    fn a_call_of_all_tasks_with_all_they_may_have_is_not_too_large() {
        let value = SqlValue::default();
        let sql = SqlTask {
            statement: "call f($1)".into(),
            params: vec![value; 20],
            ..SqlTask::default()
        };
        let labels = (0..16).map(|number| (format!("label{number}"), "value".to_owned()));
        let task = Task {
            options: Some(TaskOptions {
                labels: labels.collect(),
                resources: vec![ResourceUse::default(); 8],
                ..TaskOptions::default()
            }),
            kind: Some(task::Kind::Sql(sql)),
            ..Task::default()
        };
        let call = ExecAsyncRequest {
            tasks: vec![task; 10_000],
            ..ExecAsyncRequest::default()
        };
        let bytes = call.encode_to_vec();
        let decoded = decoded::<ExecAsyncRequest>(&bytes);
        assert!(decoded < MAX_DECODED_BYTES, "{decoded}");
    }

    #[test]
    fn a_request_of_very_many_parts_is_not_decoded_wherever_they_lie() {
        let many = 2_000_000;
        let tasks = of_one_field::<ExecAsyncRequest>("tasks", &[], many);
        assert!(decoded::<ExecAsyncRequest>(&tasks) > MAX_DECODED_BYTES);
        let steps = of_one_field::<JobSettings>("steps", &[], many);
        let job = of_one_field::<CreateJobRequest>("settings", &steps, 1);
        assert!(decoded::<CreateJobRequest>(&job) > MAX_DECODED_BYTES);
        // Of one task.
        let uses = of_one_field::<TaskOptions>("resources", &[], many);
        let task = of_one_field::<Task>("options", &uses, 1);
        let call = of_one_field::<ExecAsyncRequest>("tasks", &task, 1);
        assert!(decoded::<ExecAsyncRequest>(&call) > MAX_DECODED_BYTES);
    }

    #[test]
    fn no_small_request_is_too_large() {
        let largest = SIZES.values().max().expect("there are messages");
        assert!(
            SPARE * SMALL_BYTES / 2 * largest <= MAX_DECODED_BYTES,
            "{largest}"
        );
    }

    #[test]
    fn sizes_are_about_those_of_the_messages() {
        let of = |name: String| SIZES[&name];
        for (size, real) in [
            (of(Task::full_name()), size_of::<Task>()),
            (of(SqlValue::full_name()), size_of::<SqlValue>()),
            (of(ResourceUse::full_name()), size_of::<ResourceUse>()),
        ] {
            assert!((real / 2..3 * real).contains(&size), "{size} of {real}");
        }
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
