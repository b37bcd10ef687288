//! Reads of the journal: recovery, lists, events, bodies, status. Nothing here writes.

pub(crate) mod bodies;
pub(crate) mod body_chunks;
pub(crate) mod events;
pub(crate) mod outcomes;
pub(crate) mod recovered;
pub(crate) mod recovery;
pub(crate) mod retention_pin;
pub(crate) mod retries;
pub(crate) mod schedulers;
pub(crate) mod status;
mod target_pauses;
pub(crate) mod tasks;
