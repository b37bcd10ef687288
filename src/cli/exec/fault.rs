//! What is wrong with a line of a file, and what to write instead.

use crate::cli::error::CliError;

/// A line that cannot be read as tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Number of the line, from 1.
    pub line: usize,
    pub why: String,
    pub next: String,
}

impl Fault {
    pub(super) fn new(line: usize, why: impl Into<String>, next: impl Into<String>) -> Fault {
        Fault {
            line,
            why: why.into(),
            next: next.into(),
        }
    }

    /// The same as an error of the command, which names the file.
    pub(super) fn of(self, file: &str) -> CliError {
        CliError::new(format!("{file}, line {}: {}", self.line, self.why)).next(self.next)
    }
}
