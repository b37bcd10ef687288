//! The loop around the core: gather every command that is waiting, let the core decide, append the
//! records of the whole batch, release the actions. While one batch commits the next one is
//! gathered.
//!
//! Invariant: nothing is released before its records are durable. Callers use the [`Coordinator`]
//! handle; `machine` is the loop without I/O, and `driver` connects it to tokio.

mod admission;
mod assembly;
pub mod body_cache;
mod call_error;
mod caller_handle;
pub(crate) mod commands;
mod driver;
pub mod machine;
mod maintenance;
mod ownership;
pub(crate) mod streams;

pub(crate) use admission::{Admission, Capacity, Permit};
pub use assembly::Parts;
pub use call_error::CallError;
pub use caller_handle::Coordinator;
pub use ownership::{
    replica_state::{ReplicaState, ReplicaStatus},
    role::Role,
};
pub use streams::cursor::{EVENT_RESULT_BYTES, End, EventStream, Page};
