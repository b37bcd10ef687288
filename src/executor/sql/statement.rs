//! The text of a task as it travels: what is sent for it, labelled, with its parameters.
//!
//! Without parameters it goes over the simple protocol: any number of statements, in autocommit and
//! without a wrapper. With parameters it is one statement of the extended protocol, whose types the
//! server infers; the values stand beside the text, where nothing that shows statements shows them.
//! Text and parameters are never logged.

use super::{error::Failure, extended_query, preparation};
use crate::{
    core::{Handle, Seq, SessionOptions, SessionReset, ShardId, SpanContext, TaskId, Token},
    executor_protocol::Body,
};
use bytes::{Bytes, BytesMut};
use postgres_protocol::message::frontend;
use std::{io, str};

/// What the protocol can count.
const MAX_PARAMS: usize = i16::MAX as usize;

/// Cleans a session, and says whether that was possible. The server takes the first only alone; it
/// ends the role, also one that the session was opened with.
const CLEANING: &[&str] = &["discard all", "reset role"];

/// How the text of a task is run.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    pub(crate) task: TaskId,
    /// Rows of the result to keep.
    pub(crate) max_rows: u32,
    pub(crate) reset: SessionReset,
    /// What its session begins with.
    pub(crate) session: SessionOptions,
    /// The fencing token of its resources.
    pub(crate) token: Option<Token>,
    /// Its span, if it is traced.
    pub(crate) span: Option<SpanContext>,
}

/// What the server answers to a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    /// Commands that prepare the session, ahead of the text.
    pub(crate) commands: u32,
    /// How often it says that it is ready before the answer is over.
    pub(crate) readies: u32,
}

/// What a session is cleaned by. `has_role`: its login begins with a role that is not its own.
pub(crate) fn cleaning(has_role: bool) -> &'static [&'static str] {
    match has_role {
        true => CLEANING,
        false => &CLEANING[..1],
    }
}

/// Puts the cleaning into `out`.
pub(crate) fn put_cleaning(cleaning: &[&str], out: &mut BytesMut) -> io::Result<()> {
    cleaning
        .iter()
        .try_for_each(|statement| frontend::query(statement, out))
}

/// Puts what is sent for a task into `out`: what its session begins with, its text, and behind it
/// the cleaning, if that is due after every task.
pub(crate) fn put(
    body: &Body,
    conditions: &Conditions,
    cleaning: &[&str],
    out: &mut BytesMut,
) -> Result<Awaited, Failure> {
    let label = label(conditions.task, conditions.span);
    let text = [checked(&body.payload)?, &label].concat();
    let params = match &body.params {
        None => None,
        Some(params) => Some(parsed(checked(params)?)?),
    };
    let put = || -> io::Result<Awaited> {
        let commands = preparation::put(&conditions.session, conditions.token, out)?;
        let mut readies = 1;
        match params {
            None => frontend::query(&text, out)?,
            Some(params) => extended_query::put(&text, &params, out)?,
        }
        // Up to here the server skips what follows a preparation that has failed.
        if body.params.is_none() && commands > 0 {
            frontend::sync(out);
            readies += 1;
        }
        if conditions.reset == SessionReset::Task {
            put_cleaning(cleaning, out)?;
        }
        Ok(Awaited { commands, readies })
    };
    put().map_err(|error| Failure::refused("BODY_INVALID", error.to_string()))
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
    let conditions = Conditions {
        task,
        max_rows: 0,
        reset,
        session: SessionOptions::default(),
        token: None,
        span: None,
    };
    put(&body, &conditions, cleaning(false), &mut bytes).ok()?;
    Some(bytes)
}

/// A comment behind the text, in the form of sqlcommenter. Whatever the text ends with, it changes
/// nothing: a text that has not closed a quote or a comment stays an error.
pub(super) fn label(task: TaskId, span: Option<SpanContext>) -> String {
    let (handle, seq) = (task.handle, task.seq.0);
    match span {
        None => format!(" /*task='{handle}%2F{seq}'*/"),
        Some(span) => format!(" /*task='{handle}%2F{seq}',traceparent='{span}'*/"),
    }
}

pub(super) fn parsed(params: &str) -> Result<Vec<Option<String>>, Failure> {
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

pub(super) fn checked(bytes: &[u8]) -> Result<&str, Failure> {
    match str::from_utf8(bytes) {
        Err(error) => Err(Failure::refused("BODY_NOT_UTF8", error.to_string())),
        Ok(text) if text.contains('\0') => Err(Failure::refused(
            "BODY_NUL",
            "the text holds a NUL character, which Postgres does not take",
        )),
        Ok(text) => Ok(text),
    }
}
