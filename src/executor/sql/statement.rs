//! The text of a task as it travels: what is sent for it, labelled, with its parameters.
//!
//! Without parameters it goes over the simple protocol: any number of statements, in autocommit and
//! without a wrapper. With parameters it is one statement of the extended protocol, whose types the
//! server infers; the values stand beside the text, where nothing that shows statements shows them.
//! Text and parameters are never logged.

use super::error::Failure;
use crate::{
    core::{Handle, Seq, SessionReset, ShardId, TaskId},
    executor_protocol::Body,
};
use bytes::{Bytes, BytesMut};
use postgres_protocol::{IsNull, message::frontend};
use std::{io, str};

/// What the protocol can count.
const MAX_PARAMS: usize = i16::MAX as usize;
/// Every parameter and every value of a result is text.
const TEXT_FORMAT: i16 = 0;
/// The statement without a name is replaced by the next one, and the portal ends with its
/// transaction.
const UNNAMED: &str = "";

/// Cleans a session, and says whether that was possible.
pub(crate) const CLEAN: &str = "discard all";

/// Puts what is sent for a task into `out`: its text, and behind it the cleaning, if that is due
/// after every task.
pub(crate) fn put(
    body: &Body,
    task: TaskId,
    reset: SessionReset,
    out: &mut BytesMut,
) -> Result<(), Failure> {
    let text = checked(&body.payload)?;
    let text = format!("{text}{}", label(task));
    let put = match &body.params {
        None => frontend::query(&text, out),
        Some(params) => put_with_params(&text, &parsed(checked(params)?)?, out),
    };
    put.and_then(|()| match reset {
        SessionReset::Task => frontend::query(CLEAN, out),
        SessionReset::Scheduler => Ok(()),
    })
    .map_err(|error| Failure::refused("BODY_INVALID", error.to_string()))
}

/// The bytes that are sent for a task with this text, for a measurement of what they cost alone.
pub fn request(text: &str, reset: SessionReset) -> Option<BytesMut> {
    let body = Body {
        payload: Bytes::copy_from_slice(text.as_bytes()),
        params: None,
    };
    let task = TaskId {
        handle: Handle::new(ShardId(0), 0, [0; 10]),
        seq: Seq(1),
    };
    let mut bytes = BytesMut::new();
    put(&body, task, reset, &mut bytes).ok()?;
    Some(bytes)
}

/// A comment behind the text, in the form of sqlcommenter. Whatever the text ends with, it changes
/// nothing: a text that has not closed a quote or a comment stays an error.
fn label(task: TaskId) -> String {
    format!(" /*task='{}%2F{}'*/", task.handle, task.seq.0)
}

fn put_with_params(text: &str, params: &[Option<String>], out: &mut BytesMut) -> io::Result<()> {
    frontend::parse(UNNAMED, text, [], out)?;
    let value = |param: &Option<String>, out: &mut BytesMut| {
        Ok(match param {
            None => IsNull::Yes,
            Some(param) => {
                out.extend_from_slice(param.as_bytes());
                IsNull::No
            }
        })
    };
    frontend::bind(
        UNNAMED,
        UNNAMED,
        [TEXT_FORMAT],
        params,
        value,
        [TEXT_FORMAT],
        out,
    )
    .map_err(|error| match error {
        frontend::BindError::Conversion(error) => io::Error::other(error),
        frontend::BindError::Serialization(error) => error,
    })?;
    frontend::describe(b'P', UNNAMED, out)?;
    frontend::execute(UNNAMED, 0, out)?;
    frontend::sync(out);
    Ok(())
}

fn parsed(params: &str) -> Result<Vec<Option<String>>, Failure> {
    let params: Vec<Option<String>> = serde_json::from_str(params).map_err(|error| {
        Failure::refused(
            "PARAMS_INVALID",
            format!("not a JSON array of text or null: {error}"),
        )
    })?;
    if params.len() > MAX_PARAMS {
        let message = format!("{} parameters are more than {MAX_PARAMS}", params.len());
        return Err(Failure::refused("PARAMS_INVALID", message));
    }
    match params.iter().flatten().any(|text| text.contains('\0')) {
        true => Err(Failure::refused(
            "BODY_NUL",
            "a parameter holds a NUL character, which Postgres does not take",
        )),
        false => Ok(params),
    }
}

fn checked(bytes: &[u8]) -> Result<&str, Failure> {
    match str::from_utf8(bytes) {
        Err(error) => Err(Failure::refused("BODY_NOT_UTF8", error.to_string())),
        Ok(text) if text.contains('\0') => Err(Failure::refused(
            "BODY_NUL",
            "the text holds a NUL character, which Postgres does not take",
        )),
        Ok(text) => Ok(text),
    }
}
