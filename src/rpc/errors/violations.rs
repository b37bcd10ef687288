//! What is wrong with a request: every field at fault, named by its path in the proto message. A
//! path is built only when something is wrong, so that valid calls stay cheap. Of a request nothing
//! is repeated but short texts, and the beginning of map keys.

use super::reason::Reason;
use crate::likeness::shortened;
use std::fmt;

/// Violations that fit a trailer of any client (8 KiB is a common limit); the rest is only counted.
const MAX_REPORTED: usize = 20;
/// Violations that the text for people names.
const MAX_NAMED: usize = 5;

/// The path of a field in a request, built on the stack.
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

/// The violations found in a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Violations {
    reported: Vec<Violation>,
    count: usize,
}

/// One field at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field.
    pub field: String,
    /// For programs.
    pub reason: Reason,
    /// For people.
    pub message: String,
}

impl<'a> Path<'a> {
    /// Path of the field `name` of this message.
    pub fn field(&'a self, name: &'static str) -> Path<'a> {
        Path::Field(self, name)
    }

    /// Path of the element `index` of this list.
    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path::Index(self, index)
    }

    /// Path of the entry `key` of this map.
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
            Path::Key(parent, key) => match shortened(key) {
                short if short == *key => write!(f, "{parent}[{key:?}]"),
                short => write!(f, "{parent}[{short:?}…]"),
            },
        }
    }
}

impl Violations {
    pub fn add(&mut self, field: Path<'_>, reason: Reason, message: impl Into<String>) {
        self.add_with(field, reason, || message.into());
    }

    /// The same with a message that takes a while to make, which it is only if it is reported: a
    /// call may have thousands of tasks, and the same may be wrong with each.
    pub fn add_with(&mut self, field: Path<'_>, reason: Reason, message: impl FnOnce() -> String) {
        self.count += 1;
        if self.reported.len() < MAX_REPORTED {
            self.reported.push(Violation {
                field: field.to_string(),
                reason,
                message: message(),
            });
        }
    }

    /// `value`, unless something is wrong.
    pub fn into_result<T>(self, value: T) -> Result<T, Violations> {
        if self.count == 0 {
            Ok(value)
        } else {
            Err(self)
        }
    }

    /// The violations to report: the first ones found.
    pub fn reported(&self) -> &[Violation] {
        &self.reported
    }

    /// Number of violations, reported or not.
    pub fn count(&self) -> usize {
        self.count
    }

    /// For people: every field at fault with what is wrong with it; of many, the first ones.
    pub fn in_words(&self) -> String {
        let said = |one: &Violation| format!("{}: {}", one.field, one.message);
        let named = self.reported.iter().take(MAX_NAMED);
        let named = named.map(said).collect::<Vec<_>>().join("; ");
        match (self.count, self.count.saturating_sub(MAX_NAMED)) {
            (0, _) => "malformed request".to_owned(),
            (1, _) => named,
            (count, 0) => format!("{count} fields are wrong: {named}"),
            (count, more) => format!("{count} fields are wrong: {named}; and {more} more"),
        }
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
    fn violations_beyond_the_reported_ones_are_counted() {
        let mut violations = Violations::default();
        for _ in 0..10_000 {
            violations.add(Path::Root.field("x"), Reason::KindMissing, "no");
        }
        assert_eq!(
            (violations.reported().len(), violations.count()),
            (MAX_REPORTED, 10_000)
        );
    }

    #[test]
    fn no_message_is_made_that_is_not_reported() {
        let (mut violations, mut made) = (Violations::default(), 0);
        for _ in 0..10_000 {
            violations.add_with(Path::Root.field("x"), Reason::KindMissing, || {
                made += 1;
                "no".to_owned()
            });
        }
        assert_eq!((made, violations.count()), (MAX_REPORTED, 10_000));
    }

    #[test]
    fn the_text_names_every_field_at_fault_and_of_many_the_first_ones() {
        let mut violations = Violations::default();
        violations.add(Path::Root.field("a"), Reason::KindMissing, "set it");
        assert_eq!(violations.in_words(), "a: set it");
        violations.add(Path::Root.field("b"), Reason::KindMissing, "leave it out");
        let two = "2 fields are wrong: a: set it; b: leave it out";
        assert_eq!(violations.in_words(), two);
        for _ in 0..9 {
            violations.add(Path::Root.field("x"), Reason::KindMissing, "no");
        }
        let many =
            "11 fields are wrong: a: set it; b: leave it out; x: no; x: no; x: no; and 6 more";
        assert_eq!(violations.in_words(), many);
    }
}
