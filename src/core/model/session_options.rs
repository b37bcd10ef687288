//! What the session of a task begins with. Plain data.

use super::{limits::NAME_BYTES, time::Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The role of who has none but that of the login, as Postgres calls it: no role has this name.
pub const NO_ROLE: &str = "none";

/// What the session of an SQL task begins with. `None` or empty: not said here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionOptions {
    /// Whether transactions begin read-only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// The isolation that transactions begin with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// Schemas in which names are looked up, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub search_path: Vec<String>,
    /// After what the server ends a statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement_timeout: Option<Duration>,
    /// The role that is set, or [`NO_ROLE`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The due time of the run of a job that the task is a step of: only the service says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<Time>,
}

/// An isolation level of Postgres.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Isolation {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl SessionOptions {
    /// What a schema of the search path is.
    pub const SCHEMA_FORM: &str = "a name of 1 to 63 bytes without NUL, written without the quotes \
                                   of SQL: `My Schema` or `$user`";

    /// Whether this is a schema as [`SessionOptions::SCHEMA_FORM`] says. Quotes would silently
    /// become part of the name, and that schema is not there.
    pub fn is_schema(name: &str) -> bool {
        NAME_BYTES.contains(&name.len()) && !name.contains('\0') && !name.starts_with('"')
    }

    /// Nothing is set.
    pub fn is_default(&self) -> bool {
        *self == SessionOptions::default()
    }

    /// These options, and where they say nothing, `fallback`'s.
    pub fn or(&self, fallback: &SessionOptions) -> SessionOptions {
        SessionOptions {
            read_only: self.read_only.or(fallback.read_only),
            isolation: self.isolation.or(fallback.isolation),
            search_path: if self.search_path.is_empty() {
                fallback.search_path.clone()
            } else {
                self.search_path.clone()
            },
            statement_timeout: self.statement_timeout.or(fallback.statement_timeout),
            role: self.role.as_ref().or(fallback.role.as_ref()).cloned(),
            due: self.due.or(fallback.due),
        }
    }
}
