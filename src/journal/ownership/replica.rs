//! Who writes to the journal: one run of a server process.

use std::sync::Arc;
use uuid::Uuid;

/// One run of a server process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Differs for every run.
    pub id: Uuid,
    /// The same after a restart: a new run takes over the lease of the old one.
    pub name: Arc<str>,
    /// Where other replicas reach it, as `host:port`; `None`: they do not.
    pub address: Option<Arc<str>>,
}
