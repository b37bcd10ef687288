//! The result of the last statement: its count, and its first rows as JSON. Memory is bounded by
//! the limit of a result, however much a statement returns.

use crate::core::{TaskResult, model::limits::RESULT_BYTES};
use sqlx::{
    Column, Row, TypeInfo as _, ValueRef,
    postgres::{PgRow, PgTypeInfo, PgValueRef},
};
use std::collections::HashSet;

/// Collects rows while the statements of a text run one after another.
#[derive(Default)]
pub(crate) struct Rows {
    max_rows: u32,
    row_count: u32,
    affected: i64,
    json: Vec<u8>,
    truncated: bool,
    columns: Vec<Field>,
    /// Rows of a statement are arriving, or have arrived last.
    arriving: bool,
    has_rows: bool,
}

/// A column: its name as a JSON key with its colon, and how its text is read.
struct Field {
    key: String,
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
}

impl Rows {
    pub(crate) fn new(max_rows: u32) -> Self {
        Rows {
            max_rows,
            ..Rows::default()
        }
    }

    /// A row of the running statement.
    pub(crate) fn add(&mut self, row: &PgRow) {
        if !self.arriving {
            self.begin(row);
        }
        if self.max_rows == 0 {
            return;
        }
        if self.truncated || self.row_count == self.max_rows || !self.append(row) {
            self.truncated = true;
        }
    }

    /// The running statement has ended.
    pub(crate) fn end(&mut self, affected: u64) {
        if !self.arriving {
            self.reset();
        }
        self.arriving = false;
        self.affected = i64::try_from(affected).unwrap_or(i64::MAX);
    }

    pub(crate) fn into_result(mut self) -> TaskResult {
        if self.has_rows && self.max_rows > 0 {
            self.json.push(b']');
        }
        TaskResult {
            rows_affected: self.affected,
            rows_json: self.json.into(),
            truncated: self.truncated,
        }
    }

    fn reset(&mut self) {
        *self = Rows::new(self.max_rows);
    }

    fn begin(&mut self, row: &PgRow) {
        self.reset();
        self.arriving = true;
        self.has_rows = true;
        if self.max_rows > 0 {
            self.json.push(b'[');
            self.columns = fields(row);
        }
    }

    /// False, and nothing appended, when the row does not fit any more.
    fn append(&mut self, row: &PgRow) -> bool {
        let before = self.json.len();
        if self.row_count > 0 {
            self.json.push(b',');
        }
        self.json.push(b'{');
        for (index, column) in self.columns.iter().enumerate() {
            if index > 0 {
                self.json.push(b',');
            }
            self.json.extend_from_slice(column.key.as_bytes());
            let fits = row
                .try_get_raw(index)
                .is_ok_and(|value| write_value(&mut self.json, column.kind, &value));
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

fn fields(row: &PgRow) -> Vec<Field> {
    let mut seen = HashSet::new();
    let name_and_kind =
        |column: &sqlx::postgres::PgColumn| (column.name().to_owned(), kind(column.type_info()));
    let columns = row.columns().iter().map(name_and_kind);
    columns
        .map(|(name, kind)| Field {
            key: format!("{}:", quoted(&unique(name, &mut seen))),
            kind,
        })
        .collect()
}

/// Two columns may have one name, two keys of an object should not.
fn unique(name: String, seen: &mut HashSet<String>) -> String {
    let mut candidate = name.clone();
    let mut number = 1;
    while !seen.insert(candidate.clone()) {
        number += 1;
        candidate = format!("{name}_{number}");
    }
    candidate
}

fn kind(info: &PgTypeInfo) -> Kind {
    if info.is_null() {
        return Kind::Text;
    }
    match info.oid().map_or(0, |oid| oid.0) {
        16 => Kind::Bool,
        // int8, int2, int4, oid; json, jsonb.
        20 | 21 | 23 | 26 | 114 | 3802 => Kind::Verbatim,
        700 | 701 => Kind::Float,
        _ => Kind::Text,
    }
}

/// False when the value alone is over the limit.
fn write_value(json: &mut Vec<u8>, kind: Kind, value: &PgValueRef<'_>) -> bool {
    if value.is_null() {
        json.extend_from_slice(b"null");
        return true;
    }
    let bytes = value.as_bytes().unwrap_or_default();
    if bytes.len() > RESULT_BYTES {
        return false;
    }
    match kind {
        Kind::Verbatim => json.extend_from_slice(bytes),
        Kind::Float
            if bytes
                .iter()
                .all(|b| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e')) =>
        {
            json.extend_from_slice(bytes)
        }
        Kind::Bool => json.extend_from_slice(if bytes == b"t" { b"true" } else { b"false" }),
        Kind::Float | Kind::Text => {
            json.extend_from_slice(quoted(&String::from_utf8_lossy(bytes)).as_bytes())
        }
    }
    true
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_one_name_become_keys_of_their_own() {
        let mut seen = HashSet::new();
        let keys: Vec<_> = ["a", "a", "a_2", "a"]
            .into_iter()
            .map(|name| unique(name.into(), &mut seen))
            .collect();
        assert_eq!(keys, ["a", "a_2", "a_2_2", "a_3"]);
    }
}
