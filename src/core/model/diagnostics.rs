//! What is known of an attempt besides its result: where it ran, and what its target said. Values
//! only; the core and the journal carry it as bytes that they do not look into.

use serde::{Deserialize, Serialize};

/// It is stored as JSON, so that people with psql can read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Diagnostics {
    /// Name of the replica that ran it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replica: String,
    /// The last notices, a line each.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub notices: String,
    /// Of the error: more about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What can be done about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The functions it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The constraint that was violated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraint: Option<String>,
    /// Where in the statement, in characters from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u32>,
}
