//! Everything that is wrong with a file.

use super::key_name::key_of_line;
use crate::likeness::closest;
use std::{
    fmt, io,
    ops::Range,
    path::{Path, PathBuf},
};

/// By how much a word may be longer than the one that was meant. What is longer may be a secret
/// that begins with it.
const MORE_BYTES: usize = 2;

/// What is wrong with a file: a line of text for each fault.
#[derive(Debug)]
pub struct Faults {
    path: PathBuf,
    found: Vec<Fault>,
    /// It is no TOML: what else seems wrong may follow from that alone.
    is_no_toml: bool,
    /// Why the file itself could not be read.
    unread: Option<io::Error>,
    /// How many faults are of files that it names, which cannot be read.
    of_others: usize,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Fault {
    /// From 1.
    pub line: Option<usize>,
    pub what: String,
}

impl Faults {
    pub(crate) fn of(path: &Path) -> Self {
        Faults {
            path: path.to_owned(),
            found: Vec::new(),
            is_no_toml: false,
            unread: None,
            of_others: 0,
        }
    }

    /// The file itself cannot be read.
    pub(crate) fn of_unread(path: &Path, error: io::Error) -> Self {
        let mut faults = Faults::of(path);
        faults.add(None, format!("cannot be read: {error}"));
        faults.unread = Some(error);
        faults
    }

    /// Why the file itself could not be read, if that is what is wrong.
    pub(crate) fn unread(&self) -> Option<&io::Error> {
        self.unread.as_ref()
    }

    /// A file that this one names cannot be read, which is a fault besides.
    pub(crate) fn names_an_unread_file(&mut self) {
        self.of_others += 1;
    }

    /// Whether nothing is wrong but files that it names, which cannot be read.
    pub(crate) fn are_of_other_files(&self) -> bool {
        self.of_others == self.count()
    }

    /// Something is wrong.
    pub(crate) fn add(&mut self, line: Option<usize>, what: impl Into<String>) {
        if !self.is_no_toml {
            let what = what.into();
            self.found.push(Fault { line, what });
        }
    }

    /// What the reader of TOML says of the text. If that is no TOML, its first fault is all that is
    /// said: the others may follow from it.
    pub(super) fn add_toml(&mut self, text: &str, errors: &[toml::de::Error]) {
        let broken = errors.iter().find(|error| error.message() != DUPLICATE);
        let said = broken.map_or(errors, std::slice::from_ref);
        self.found
            .extend(said.iter().map(|error| Fault::of_text(text, error)));
        self.is_no_toml = broken.is_some();
    }

    /// A line of text for each fault: the file, the line, and what is wrong.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        let path = self.path.display();
        self.found.iter().map(move |fault| match fault.line {
            Some(line) => format!("{path} line {line}: {}", fault.what),
            None => format!("{path}: {}", fault.what),
        })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.found.len()
    }

    /// What is wrong, without where it stands.
    pub(crate) fn in_words(&self) -> String {
        let faults: Vec<&str> = self.found.iter().map(|fault| &*fault.what).collect();
        faults.join("; ")
    }

    /// The value, unless something is wrong.
    pub(crate) fn into_result<T>(mut self, value: T) -> Result<T, Faults> {
        // As a reader goes through the file; what has no line is of all of it.
        self.found.sort_by_key(|fault| fault.line);
        if self.found.is_empty() {
            Ok(value)
        } else {
            Err(self)
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().collect::<Vec<_>>().join("\n"))
    }
}

impl std::error::Error for Faults {}

impl Fault {
    /// What the reader of TOML says of a whole file, with the key of a value that it cannot read.
    fn of_text(text: &str, error: &toml::de::Error) -> Fault {
        let fault = Fault::of_toml(text, error);
        let key = error.span().and_then(|value| key_of_line(text, &value));
        match key.filter(|_| error.message() != DUPLICATE) {
            Some(key) => Fault {
                what: format!("{key}: {}", fault.what),
                ..fault
            },
            None => fault,
        }
    }

    /// What the reader of TOML says of a text, without the value that is wrong.
    pub(crate) fn of_toml(text: &str, error: &toml::de::Error) -> Fault {
        let key = || error.span().and_then(|span| text.get(span));
        Fault {
            line: error.span().map(|span| line(text, &span)),
            what: match (error.message(), key()) {
                (DUPLICATE, Some(key)) => format!("`{key}` stands twice: keep one of them"),
                (message, _) => explained(message),
            },
        }
    }
}

/// What the reader of TOML says of a key that is there already; the place is that of the key.
const DUPLICATE: &str = "duplicate key";

/// How what it says of a text without quotes begins. It takes the first letter for that of a word.
const BARE_WORD: [&str; 3] = [
    "string values must be quoted",
    "invalid boolean, expected `",
    "invalid float, expected `",
];

/// The line of a place in the text, from 1.
pub(crate) fn line(text: &str, span: &Range<usize>) -> usize {
    let before = text.as_bytes().get(..span.start).unwrap_or_default();
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

/// What is wrong, without the value that is wrong, and with the key that was probably meant.
fn explained(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    if let (true, [wrong, known @ ..]) = (message.starts_with("unknown field"), &*quoted) {
        return unknown_key(wrong, known);
    }
    if let Some(said) = wrong_word(message) {
        return said;
    }
    if BARE_WORD.iter().any(|begin| message.starts_with(begin)) {
        return "expected a number, true or false, or a text in quotes".to_owned();
    }
    let found = [
        "invalid type",
        "invalid value",
        "invalid length",
        "unknown variant",
    ];
    match message.rsplit_once(", expected ") {
        Some((_, expected)) if found.iter().any(|found| message.starts_with(found)) => {
            let found = match message.starts_with("invalid value: integer") {
                true => "one that is too small or too large",
                false => "something else",
            };
            format!("expected {}, and found {found}", type_in_words(expected))
        }
        _ => message.to_owned(),
    }
}

/// What is said of a value that is almost one of a few words: that is no secret.
fn wrong_word(message: &str) -> Option<String> {
    let (wrong, known) = none_of(message)?;
    let meant = closest(wrong, &known).filter(|meant| wrong.len() <= meant.len() + MORE_BYTES)?;
    let known: Vec<String> = known.iter().map(|word| format!("`{word}`")).collect();
    let known = known.join(", ");
    Some(format!(
        "`{wrong}` is none of {known}: did you mean `{meant}`?"
    ))
}

/// A word that is none of a few, and those, where the reader of TOML says that.
pub(super) fn none_of(message: &str) -> Option<(&str, Vec<&str>)> {
    let said = message.strip_prefix("unknown variant `")?;
    let (wrong, known) = said.rsplit_once("`, expected ")?;
    Some((wrong, known.split('`').skip(1).step_by(2).collect()))
}

/// What a reader of files calls a type of this program.
fn type_in_words(expected: &str) -> &str {
    match expected {
        "i64" | "u32" => "a whole number",
        "a boolean" => "true or false",
        "path string" => "a string",
        "a sequence" => "a list in brackets, as [\"a\", \"b\"]",
        "a map" => "a table",
        _ => expected,
    }
}

/// A key that means nothing, with the one that was probably meant.
pub(super) fn unknown_key(wrong: &str, known: &[&str]) -> String {
    match closest(wrong, known) {
        Some(key) => format!("unknown key `{wrong}`: did you mean `{key}`?"),
        None => format!(
            "unknown key `{wrong}`: it may be one of {}",
            known.join(", ")
        ),
    }
}
