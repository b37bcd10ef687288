//! What a caller may do in a namespace: each role may do what those before it may.

use serde::Deserialize;

/// A role, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Looks at everything of the namespace.
    Reader,
    /// Opens schedulers, submits, cancels and retries tasks, holds resources, runs jobs.
    Submitter,
    /// Defines jobs and resources, ends the holds of others.
    Operator,
    /// Decides in place of the service.
    Admin,
}

impl Role {
    /// As it is written in a configuration file.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Reader => "reader",
            Role::Submitter => "submitter",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}
