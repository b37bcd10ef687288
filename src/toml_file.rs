//! Files in TOML that people write: what they say, and everything that is wrong with them, with
//! line, key and remedy.
//!
//! What is said of a file never holds a value, since a value may be a secret in the wrong place.
//! What the keys mean is the business of whoever reads the file.

mod faults;
mod key_name;
mod length;
mod table;

pub use faults::Faults;
pub(crate) use key_name::written_key;
pub(crate) use length::Length;
pub(crate) use table::{Lines, Table};

use std::{fs, io, path::Path};

/// Reads a file. A pipe could keep whoever reads it waiting for ever.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    match fs::metadata(path)?.is_file() {
        true => fs::read_to_string(path),
        false => Err(io::Error::other("not a regular file")),
    }
}

#[cfg(test)]
mod tests;
