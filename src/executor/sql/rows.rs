//! The result of the last statement: its count, and its first rows as JSON. Memory is bounded by
//! the limit of a result, however much a statement returns.

use crate::core::{TaskResult, model::limits::RESULT_BYTES};
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{DataRowBody, Fields};
use std::{
    collections::HashMap,
    io::{self, Write},
    str,
};

/// Collects rows while the statements of a text run one after another.
#[derive(Default)]
pub(crate) struct Rows {
    max_rows: u32,
    row_count: u32,
    affected: i64,
    json: Vec<u8>,
    truncated: bool,
    columns: Vec<Field>,
    /// Rows of a statement are arriving.
    arriving: bool,
}

/// A column: its name as a JSON key with its colon, and how its text is read.
struct Field {
    key: Vec<u8>,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// Its text is JSON as it stands.
    Verbatim,
    /// So is a float's, unless it is not a number or not finite.
    Float,
    Bool,
    Text,
    /// Of a binary cursor, in the form of its type: its bytes as `bytea` has them.
    Binary,
}

impl Rows {
    pub(crate) fn new(max_rows: u32) -> Self {
        Rows {
            max_rows,
            ..Rows::default()
        }
    }

    /// The next statement returns rows of these columns.
    pub(crate) fn begin(&mut self, columns: Fields<'_>) {
        *self = Rows::new(self.max_rows);
        self.arriving = true;
        if self.max_rows > 0 {
            self.json.push(b'[');
            match fields(columns) {
                Ok(columns) => self.columns = columns,
                // The text has chosen an encoding in which a name is no text for JSON.
                Err(_) => self.truncated = true,
            }
        }
    }

    /// A row of the running statement.
    pub(crate) fn add(&mut self, row: &DataRowBody) {
        if self.max_rows == 0 {
            return;
        }
        if self.truncated || self.row_count == self.max_rows || !self.append(row) {
            self.truncated = true;
        }
    }

    /// The one row of a function that has run a text: how many rows that has affected.
    pub(crate) fn count(&mut self, row: &DataRowBody) {
        let first = row.ranges().next().ok().flatten().flatten();
        let text = first.and_then(|range| str::from_utf8(&row.buffer()[range]).ok());
        self.affected = text.and_then(|text| text.parse().ok()).unwrap_or(0);
    }

    /// A row that is too large for any result.
    pub(crate) fn omit(&mut self) {
        self.truncated = self.max_rows > 0;
    }

    /// The running statement has ended; the server says with what.
    pub(crate) fn end(&mut self, tag: &str) {
        if !self.arriving {
            *self = Rows::new(self.max_rows);
        }
        self.arriving = false;
        let count = tag.rsplit(' ').next().unwrap_or_default();
        self.affected = count.parse().unwrap_or(0);
    }

    pub(crate) fn into_result(mut self) -> TaskResult {
        if !self.json.is_empty() {
            self.json.push(b']');
        }
        // A row that did not fit leaves its room behind, and this is kept for readers.
        self.json.shrink_to_fit();
        TaskResult {
            rows_affected: self.affected,
            rows_json: self.json.into(),
            truncated: self.truncated,
        }
    }

    /// False, and nothing appended, when the row does not fit any more.
    fn append(&mut self, row: &DataRowBody) -> bool {
        let before = self.json.len();
        if self.row_count > 0 {
            self.json.push(b',');
        }
        self.json.push(b'{');
        let mut values = row.ranges();
        for (index, column) in self.columns.iter().enumerate() {
            if index > 0 {
                self.json.push(b',');
            }
            self.json.extend_from_slice(&column.key);
            let value = values.next().ok().flatten().flatten();
            let value = value.map(|range| &row.buffer()[range]);
            let fits = write_value(&mut self.json, column.kind, value);
            if !fits || self.json.len() + 2 > RESULT_BYTES {
                self.json.truncate(before);
                return false;
            }
        }
        self.json.push(b'}');
        self.row_count += 1;
        true
    }
}

fn fields(columns: Fields<'_>) -> io::Result<Vec<Field>> {
    let mut seen = HashMap::new();
    let mut field = |name: &str, kind| {
        let mut key = Vec::new();
        write_text(&mut key, &unique(name.to_owned(), &mut seen));
        key.push(b':');
        Field { key, kind }
    };
    let fields = columns.map(|column| {
        let kind = kind(column.type_oid(), column.format());
        Ok(field(column.name(), kind))
    });
    fields.collect()
}

/// Two columns may have one name, two keys of an object should not. `seen` has the last number that
/// was put behind each key, so that a thousand columns of one name do not count up to it each time.
fn unique(name: String, seen: &mut HashMap<String, u32>) -> String {
    let Some(last) = seen.get(&name) else {
        seen.insert(name.clone(), 1);
        return name;
    };
    let mut number = *last;
    loop {
        number += 1;
        let candidate = format!("{name}_{number}");
        if !seen.contains_key(&candidate) {
            seen.insert(candidate.clone(), 1);
            seen.insert(name, number);
            return candidate;
        }
    }
}

/// `format`: 0 is text.
fn kind(type_oid: u32, format: i16) -> Kind {
    match type_oid {
        _ if format != 0 => Kind::Binary,
        16 => Kind::Bool,
        // int8, int2, int4, oid; json, jsonb.
        20 | 21 | 23 | 26 | 114 | 3802 => Kind::Verbatim,
        700 | 701 => Kind::Float,
        _ => Kind::Text,
    }
}

/// False when the value alone is over the limit.
fn write_value(json: &mut Vec<u8>, kind: Kind, value: Option<&[u8]>) -> bool {
    let Some(bytes) = value else {
        json.extend_from_slice(b"null");
        return true;
    };
    if bytes.len() > RESULT_BYTES {
        return false;
    }
    match kind {
        Kind::Verbatim if str::from_utf8(bytes).is_ok() => json.extend_from_slice(bytes),
        Kind::Float
            if bytes
                .iter()
                .all(|b| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e')) =>
        {
            json.extend_from_slice(bytes)
        }
        Kind::Binary => {
            json.extend_from_slice(br#""\\x"#);
            for byte in bytes {
                // Nothing fails when it is written into memory.
                let _ = write!(json, "{byte:02x}");
            }
            json.push(b'"');
        }
        Kind::Bool => json.extend_from_slice(if bytes == b"t" { b"true" } else { b"false" }),
        Kind::Verbatim | Kind::Float | Kind::Text => match str::from_utf8(bytes) {
            Ok(text) => write_text(json, text),
            Err(_) => write_text(json, &String::from_utf8_lossy(bytes)),
        },
    }
    true
}

/// Writes a text as JSON.
fn write_text(json: &mut Vec<u8>, text: &str) {
    // Nothing fails when a text is written into memory.
    let _ = serde_json::to_writer(json, text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_json_whatever_their_bytes() {
        let cases: [(Kind, &[u8], &str); 10] = [
            (Kind::Text, br#"a "b" \c"#, r#""a \"b\" \\c""#),
            (
                Kind::Text,
                "\n\t\u{1}ä\u{2028}".as_bytes(),
                "\"\\n\\t\\u0001ä\u{2028}\"",
            ),
            (Kind::Text, b"a\xffb", "\"a\u{fffd}b\""),
            (Kind::Text, b"", r#""""#),
            (Kind::Verbatim, br#"{"a": 1}"#, r#"{"a": 1}"#),
            (Kind::Verbatim, b"\xff", "\"\u{fffd}\""),
            (Kind::Float, b"-1.5e-07", "-1.5e-07"),
            (Kind::Float, b"-Infinity", r#""-Infinity""#),
            (Kind::Bool, b"t", "true"),
            (Kind::Binary, b"\x01\"", r#""\\x0122""#),
        ];
        for (kind, bytes, expected) in cases {
            let mut json = Vec::new();
            assert!(write_value(&mut json, kind, Some(bytes)));
            assert_eq!(str::from_utf8(&json), Ok(expected));
        }
    }

    #[test]
    fn columns_of_one_name_become_keys_of_their_own() {
        let mut seen = HashMap::new();
        let keys: Vec<_> = ["a", "a", "a_2", "a"]
            .into_iter()
            .map(|name| unique(name.into(), &mut seen))
            .collect();
        assert_eq!(keys, ["a", "a_2", "a_2_2", "a_3"]);
        assert_eq!(seen["a"], 3, "the next one begins there");
    }
}
