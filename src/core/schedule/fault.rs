//! What is wrong with a schedule.

use std::fmt;

/// A field that makes no sense, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleFault {
    /// The name of the field, such as `cron`.
    pub field: &'static str,
    /// What is wrong with it, and the remedy.
    pub what: String,
}

impl ScheduleFault {
    pub(super) fn new(field: &'static str, what: impl Into<String>) -> Self {
        let what = what.into();
        ScheduleFault { field, what }
    }
}

impl fmt::Display for ScheduleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.what)
    }
}

impl std::error::Error for ScheduleFault {}
