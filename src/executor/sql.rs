//! SQL tasks: targets, their sessions, and one attempt from its statement to its report.

pub(crate) mod attempt;
pub(crate) mod backend_control;
pub(crate) mod error;
pub(crate) mod rows;
pub(crate) mod session;
pub(crate) mod statement;
pub(crate) mod target;
