//! What is wrong with a request: every field at fault, named by its path in the proto message. Paths cost nothing until
//! something is wrong, so that the good calls stay cheap. Never echoes more of a request than a shortened map key.

use super::reason::Reason;
use std::fmt;

/// As many as a trailer can carry to any client (8 KiB is a common limit); the rest is counted.
const REPORTED: usize = 20;
/// Bytes of a map key that are shown.
const KEY_SHOWN: usize = 40;

/// The place of a field in a request, built on the stack.
#[derive(Clone, Copy)]
pub enum Path<'a> {
    /// The request itself.
    Root,
    /// A field of a message.
    Field(&'a Path<'a>, &'static str),
    /// An element of a list.
    Index(&'a Path<'a>, usize),
    /// An entry of a map.
    Key(&'a Path<'a>, &'a str),
}

/// The fields at fault.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Violations {
    reported: Vec<Violation>,
    count: usize,
}

/// One field at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which field.
    pub field: String,
    /// Why, for programs.
    pub reason: Reason,
    /// Why, for people.
    pub message: String,
}

impl<'a> Path<'a> {
    /// The field `name` of the message here.
    pub fn field(&'a self, name: &'static str) -> Path<'a> {
        Path::Field(self, name)
    }

    /// The element `index` of the list here.
    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path::Index(self, index)
    }

    /// The entry `key` of the map here.
    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path::Key(self, key)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => f.write_str(name),
            Path::Field(parent, name) => write!(f, "{parent}.{name}"),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Path::Key(parent, key) if key.len() <= KEY_SHOWN => write!(f, "{parent}[{key:?}]"),
            Path::Key(parent, key) => write!(
                f,
                "{parent}[{:?}…]",
                &key[..key.floor_char_boundary(KEY_SHOWN)]
            ),
        }
    }
}

impl Violations {
    /// Adds one.
    pub fn add(&mut self, field: Path<'_>, reason: Reason, message: impl Into<String>) {
        self.count += 1;
        if self.reported.len() < REPORTED {
            self.reported.push(Violation {
                field: field.to_string(),
                reason,
                message: message.into(),
            });
        }
    }

    /// `value` when nothing is wrong.
    pub fn or_else<T>(self, value: T) -> Result<T, Violations> {
        if self.count == 0 {
            Ok(value)
        } else {
            Err(self)
        }
    }

    /// The first ones.
    pub fn reported(&self) -> &[Violation] {
        &self.reported
    }

    /// How many there are, reported or not.
    pub fn count(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_in_the_proto() {
        let (tasks, long) = (Path::Root.field("tasks"), "é".repeat(100));
        let (task, labels) = (tasks.index(3), Path::Root.field("labels"));
        let sql = task.field("sql");
        assert_eq!(sql.field("statement").to_string(), "tasks[3].sql.statement");
        assert_eq!(labels.key("a\"b").to_string(), r#"labels["a\"b"]"#);
        assert!(labels.key(&long).to_string().len() < 60);
    }

    #[test]
    fn what_is_too_much_for_a_trailer_is_counted() {
        let mut violations = Violations::default();
        for _ in 0..10_000 {
            violations.add(Path::Root.field("x"), Reason::KIND_MISSING, "no");
        }
        assert_eq!(
            (violations.reported().len(), violations.count()),
            (REPORTED, 10_000)
        );
    }
}
