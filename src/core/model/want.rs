//! What a claim or a task wants of a resource: values only.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How a resource is to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Mode {
    /// Nobody else uses it meanwhile: a writer.
    Exclusive,
    /// So many permits, one or more, beside others: a reader, or a user of a semaphore.
    Shared(u32),
}

/// One of the resources that a claim is about, or a task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Want {
    /// Its name.
    pub name: Arc<str>,
    /// How.
    pub mode: Mode,
}
