//! The packed rows of the log, taken apart.

pub(crate) mod attempt;
pub(crate) mod completion;
pub(crate) mod submission;
