//! Who owns the shard, who is alive, and which sessions run on which target.

pub(crate) mod executors;
pub(crate) mod heartbeat;
pub(crate) mod lease;
pub(crate) mod pending_fences;
pub(crate) mod replica;
pub(crate) mod target_sessions;
