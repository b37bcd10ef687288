//! A table that is read key by key, so that one wrong value does not hide the others: every fault
//! of a file is found in one go.

use super::{
    Faults,
    faults::{Fault, line, none_of, unknown_key},
    key_name::written_key,
};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use toml::{
    Spanned,
    de::{DeTable, DeValue, ValueDeserializer},
};

/// A table, what it is called, and what has been read of it.
pub(crate) struct Table<'t, 'f> {
    text: &'t str,
    /// Its name with those around it; empty: the whole file.
    path: String,
    lines: Lines,
    entries: DeTable<'t>,
    /// The keys that were asked for.
    known: Vec<&'static str>,
    faults: &'f mut Faults,
}

/// Where in its file a table is.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    /// The line on which it begins.
    first: usize,
    keys: BTreeMap<String, usize>,
}

impl Lines {
    /// The line of a key, or of one below it (`every.phase`); of the table itself for a key that it
    /// does not have, and if the key is empty.
    pub(crate) fn of(&self, key: &str) -> usize {
        let first = key.split('.').next().unwrap_or_default();
        let line = self.keys.get(key).or_else(|| self.keys.get(first));
        line.copied().unwrap_or(self.first)
    }

    /// With the line of this key as that of the table itself.
    pub(crate) fn led_by(mut self, key: &str) -> Lines {
        self.first = self.of(key);
        self
    }
}

/// The word of a few as which the value would do if its letters were large, or small.
fn in_another_case(error: &toml::de::Error) -> Option<String> {
    let (wrong, known) = none_of(error.message())?;
    let word = known.iter().find(|word| word.eq_ignore_ascii_case(wrong));
    word.map(|word| (*word).to_owned())
}

impl<'t, 'f> Table<'t, 'f> {
    /// The whole file; what is no TOML is a fault.
    pub(crate) fn of_file(text: &'t str, faults: &'f mut Faults) -> Self {
        let (document, errors) = DeTable::parse_recoverable(text);
        faults.add_toml(text, &errors);
        Table::new(text, String::new(), 1, document.into_inner(), faults)
    }

    fn new(
        text: &'t str,
        path: String,
        at: usize,
        entries: DeTable<'t>,
        faults: &'f mut Faults,
    ) -> Self {
        let line_of = |key: &Spanned<_>| line(text, &key.span());
        let keys = entries.keys();
        let keys = keys.map(|key| (key.get_ref().to_string(), line_of(key)));
        let lines = Lines {
            first: at,
            keys: keys.collect(),
        };
        Table {
            lines,
            known: Vec::new(),
            text,
            path,
            entries,
            faults,
        }
    }

    /// The line on which it begins.
    pub(crate) fn line(&self) -> usize {
        self.lines.first
    }

    /// The lines of it and of its keys.
    pub(crate) fn lines(&self) -> Lines {
        self.lines.clone()
    }

    /// The keys that it has.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.lines.keys.keys().cloned().collect()
    }

    /// It has this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.lines.keys.contains_key(key)
    }

    /// The value of this key, which is still to be taken, is an empty list.
    pub(crate) fn has_empty_list(&self, key: &str) -> bool {
        let value = self.entries.get(key).map(Spanned::get_ref);
        matches!(value, Some(DeValue::Array(values)) if values.is_empty())
    }

    /// The value of this key, which is still to be taken, is a text.
    pub(crate) fn has_text(&self, key: &str) -> bool {
        let value = self.entries.get(key).map(Spanned::get_ref);
        matches!(value, Some(DeValue::String(_)))
    }

    /// The value of a key; `None`: it has none, or one of another form, which is a fault.
    pub(crate) fn take<T: DeserializeOwned>(&mut self, key: &'static str) -> Option<T> {
        self.known.push(key);
        self.take_any(key)
    }

    /// The value of a key that must be there. `example`: one.
    pub(crate) fn require<T: DeserializeOwned>(
        &mut self,
        key: &'static str,
        example: &str,
    ) -> Option<T> {
        if !self.has(key) {
            self.fault(key, format!("missing: write `{key} = {example}`"));
        }
        self.take(key)
    }

    /// The value of a key that a table of free names has.
    pub(crate) fn take_any<T: DeserializeOwned>(&mut self, key: &str) -> Option<T> {
        let value = self.entries.remove(key)?;
        let span = value.span();
        let read = |value| T::deserialize(ValueDeserializer::from(value));
        let value = read(value).or_else(|error| match in_another_case(&error) {
            Some(word) => read(Spanned::new(span, DeValue::String(word.into()))),
            None => Err(error),
        });
        let wrong = |error| self.fault(key, Fault::of_toml(self.text, &error).what);
        value.map_err(wrong).ok()
    }

    /// Leaves the value of a key alone, about which all was said.
    pub(crate) fn forget(&mut self, key: &str) {
        self.entries.remove(key);
    }

    /// The table that is the value of a key.
    pub(crate) fn table(&mut self, key: &'static str) -> Option<Table<'t, '_>> {
        self.known.push(key);
        self.table_any(key)
    }

    /// The table that is the value of a key, and is mostly written in braces like `example`.
    pub(crate) fn table_like(&mut self, key: &'static str, example: &str) -> Option<Table<'t, '_>> {
        self.known.push(key);
        self.table_or_fault(key, &format!("a table, like `{key} = {example}`"))
    }

    /// The table under a free name.
    pub(crate) fn table_any(&mut self, key: &str) -> Option<Table<'t, '_>> {
        self.table_or_fault(key, "a table")
    }

    fn table_or_fault(&mut self, key: &str, expected: &str) -> Option<Table<'t, '_>> {
        let value = self.entries.remove(key)?;
        let at = self.lines.of(key);
        match value.into_inner() {
            DeValue::Table(entries) => {
                let path = self.path_of(key);
                Some(Table::new(self.text, path, at, entries, self.faults))
            }
            _ => {
                self.fault_of_form(key, expected);
                None
            }
        }
    }

    /// What `read` makes of each table in the list that is the value of a key. `example`: one.
    pub(crate) fn tables<R>(
        &mut self,
        key: &'static str,
        example: &str,
        mut read: impl FnMut(Table<'t, '_>) -> Option<R>,
    ) -> Vec<R> {
        self.known.push(key);
        let Some(value) = self.entries.remove(key) else {
            return Vec::new();
        };
        let DeValue::Array(values) = value.into_inner() else {
            let written = format!(
                "a list of tables (each begins with `[[{}]]`)",
                self.path_of(key)
            );
            self.fault_of_form(key, &written);
            return Vec::new();
        };
        let list = self.path_of(key);
        let mut made = Vec::new();
        for (index, value) in values.into_iter().enumerate() {
            let at = line(self.text, &value.span());
            let path = format!("{list}[{}]", index + 1);
            match value.into_inner() {
                DeValue::Table(entries) => {
                    let table = Table::new(self.text, path, at, entries, self.faults);
                    made.extend(read(table));
                }
                _ => {
                    let what = format!(
                        "{path}: expected a table, and found something else: begin it with \
                         `[[{list}]]`, or write it in braces, like `{example}`"
                    );
                    self.faults.add(Some(at), what);
                }
            }
        }
        made
    }

    /// How many faults of the file have been found so far.
    pub(crate) fn count_faults(&self) -> usize {
        self.faults.count()
    }

    /// Something is wrong with this key, or with one below it (`every.phase`); with the table
    /// itself, if the key is empty.
    pub(crate) fn fault(&mut self, key: &str, what: impl Into<String>) {
        let (at, path, what) = (self.lines.of(key), self.path_of(key), what.into());
        self.faults.add(Some(at), format!("{path}: {what}"));
    }

    /// The value of a key has another form than the expected one.
    fn fault_of_form(&mut self, key: &str, expected: &str) {
        self.fault(
            key,
            format!("expected {expected}, and found something else"),
        );
    }

    /// Has all that was not asked for be a fault.
    pub(crate) fn finish(mut self) {
        let left: Vec<String> = self
            .entries
            .keys()
            .map(|key| key.get_ref().to_string())
            .collect();
        for key in left {
            let at = self.lines.of(&key);
            let what = unknown_key(&key, &self.known);
            let what = match &*self.path {
                "" => what,
                path => format!("{path}: {what}"),
            };
            self.faults.add(Some(at), what);
        }
        self.entries.clear();
    }

    fn path_of(&self, key: &str) -> String {
        // Else it is below one that is plain.
        let key = match self.has(key) {
            true => written_key(key),
            false => key.to_owned(),
        };
        match (&*self.path, &*key) {
            ("", key) => key.to_owned(),
            (path, "") => path.to_owned(),
            (path, key) => format!("{path}.{key}"),
        }
    }
}
