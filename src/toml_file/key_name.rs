//! How keys of a file are called in what is said of them.

use std::ops::Range;

/// A name as a key of TOML is written: in quotes, unless it is plain.
pub(crate) fn written_key(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    match !name.is_empty() && name.chars().all(is_plain) {
        true => name.to_owned(),
        // JSON quotes like TOML.
        false => serde_json::Value::from(name).to_string(),
    }
}

/// The key that begins the line of a value; `None`: the value may be inside of that of the key. It
/// is one of small letters alone: in a text that is no TOML anything else may be a secret.
pub(super) fn key_of_line<'t>(text: &'t str, value: &Range<usize>) -> Option<&'t str> {
    let line = text.get(..value.start)?.rsplit('\n').next()?;
    let (key, between) = line.split_once('=')?;
    let key = key.trim();
    let is_plain = |c: char| c.is_ascii_lowercase() || "_.".contains(c);
    let is_whole = !between.contains(['{', '[']);
    (is_whole && !key.is_empty() && key.chars().all(is_plain)).then_some(key)
}
