//! What a session is told ahead of the text of a task that brings options.
//!
//! Invariant: a text runs only when all of its options are in force. They travel in the extended
//! protocol, ahead of the text and in the same write, without a Sync between: when one of them
//! fails, the server skips everything up to the Sync behind the text. They are in a transaction of
//! their own, so that the text finds none. Nothing is quoted: names and values are parameters.

use super::extended_query;
use crate::core::{Isolation, SessionOptions, Token};
use bytes::BytesMut;
use std::io;

/// The setting in which a text finds the fencing token of its resources.
const TOKEN: &str = "rallypoint.token";

/// The setting in which a step of a job finds the due time of its run, as RFC 3339 has it.
const DUE: &str = "rallypoint.due";

/// Puts the preparation into `out`. Returns how many commands it is; none, without options and
/// token.
pub(super) fn put(
    options: &SessionOptions,
    token: Option<Token>,
    out: &mut BytesMut,
) -> io::Result<u32> {
    let token = token.map(|token| (TOKEN, token.0.to_string()));
    let settings: Vec<_> = token.into_iter().chain(settings(options)).collect();
    if settings.is_empty() {
        return Ok(0);
    }
    let set = |index: usize| {
        let (name, value) = (2 * index + 1, 2 * index + 2);
        format!("pg_catalog.set_config(${name}, ${value}, false)")
    };
    let set: Vec<String> = (0..settings.len()).map(set).collect();
    let text = format!("select {}", set.join(", "));
    let params = settings
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value]);
    let params: Vec<_> = params.map(Some).collect();
    let commands = [
        ("begin", Vec::new()),
        (&text, params),
        ("commit", Vec::new()),
    ];
    for (text, params) in &commands {
        extended_query::put_command(text, params, out)?;
    }
    Ok(commands.len() as u32)
}

/// Sets the role alone, for the transaction that is open.
pub(super) fn put_role(role: &str, out: &mut BytesMut) -> io::Result<()> {
    let text = "select pg_catalog.set_config('role', $1, true)";
    extended_query::put_command(text, &[Some(role.to_owned())], out)
}

/// Settings of Postgres and their values. The role comes last: the others are for the login to set.
fn settings(options: &SessionOptions) -> Vec<(&'static str, String)> {
    let SessionOptions {
        read_only,
        isolation,
        search_path,
        statement_timeout,
        role,
        due,
    } = options;
    let on_off = |on: bool| if on { "on" } else { "off" }.to_owned();
    let path = (!search_path.is_empty()).then(|| {
        let quoted = |schema: &String| format!("\"{}\"", schema.replace('"', "\"\""));
        search_path
            .iter()
            .map(quoted)
            .collect::<Vec<_>>()
            .join(", ")
    });
    [
        ("default_transaction_read_only", read_only.map(on_off)),
        ("default_transaction_isolation", isolation.map(level)),
        ("search_path", path),
        (
            "statement_timeout",
            statement_timeout.map(|limit| format!("{}ms", limit.as_millis())),
        ),
        (DUE, due.map(|due| due.to_string())),
        ("role", role.clone()),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect()
}

fn level(isolation: Isolation) -> String {
    match isolation {
        Isolation::ReadCommitted => "read committed",
        Isolation::RepeatableRead => "repeatable read",
        Isolation::Serializable => "serializable",
    }
    .to_owned()
}
