//! A Postgres that crashed or was stopped, as its log has it.

/// A line with one of these tells of a crash, and not only of what comes after it.
const CRASHES: [&str; 3] = ["PANIC:", "Assertion", "terminated by signal"];
/// How one crashes now and then under a set clock (tests/README.md); no fault has it do so.
const ABORT: &str = "terminated by signal 6";

#[derive(Clone, Debug)]
pub(crate) struct Crash {
    pub database: String,
    /// A little before, it did so.
    pub at: i64,
    pub line: String,
}

impl Crash {
    pub(crate) fn is_abort(&self) -> bool {
        self.line.contains(ABORT)
    }

    /// Whether the line tells of a crash for which no reason is known unless a fault is one.
    pub(crate) fn is_unexplained(&self) -> bool {
        CRASHES.iter().any(|crash| self.line.contains(crash)) && !self.is_abort()
    }
}
