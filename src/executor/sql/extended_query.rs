//! Commands of the extended protocol, as they are sent. Every parameter and every value of a result
//! is text.

use bytes::BytesMut;
use postgres_protocol::{IsNull, message::frontend};
use std::io;

const TEXT_FORMAT: i16 = 0;
/// The statement without a name is replaced by the next one, and the portal ends with its
/// transaction.
const UNNAMED: &str = "";

/// The only command of a task.
pub(super) fn put(text: &str, params: &[Option<String>], out: &mut BytesMut) -> io::Result<()> {
    put_bound(text, params, out)?;
    frontend::describe(b'P', UNNAMED, out)?;
    frontend::execute(UNNAMED, 0, out)?;
    frontend::sync(out);
    Ok(())
}

/// A command of ours, whose rows nobody reads.
pub(super) fn put_command(
    text: &str,
    params: &[Option<String>],
    out: &mut BytesMut,
) -> io::Result<()> {
    put_bound(text, params, out)?;
    frontend::execute(UNNAMED, 0, out)
}

/// The command of a task that has been prepared under this name.
pub(super) fn put_prepared(
    name: &str,
    params: &[Option<String>],
    out: &mut BytesMut,
) -> io::Result<()> {
    bind(name, params, out)?;
    frontend::describe(b'P', UNNAMED, out)?;
    frontend::execute(UNNAMED, 0, out)
}

fn put_bound(text: &str, params: &[Option<String>], out: &mut BytesMut) -> io::Result<()> {
    frontend::parse(UNNAMED, text, [], out)?;
    bind(UNNAMED, params, out)
}

fn bind(name: &str, params: &[Option<String>], out: &mut BytesMut) -> io::Result<()> {
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
        name,
        [TEXT_FORMAT],
        params,
        value,
        [TEXT_FORMAT],
        out,
    )
    .map_err(|error| match error {
        frontend::BindError::Conversion(error) => io::Error::other(error),
        frontend::BindError::Serialization(error) => error,
    })
}
