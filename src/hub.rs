//! Every executor, here or on another replica: who is connected, what each was given, and how those
//! that are gone are shown dead before their work is started again.
//!
//! The rules are in two pure machines, `machine` for the owner of the shard and `session` for an
//! executor that works for another replica. It decides nothing about tasks.

pub mod event;
pub(crate) mod fencing;
pub(crate) mod handle;
pub mod machine;
pub(crate) mod pool;
pub mod session;

pub use handle::Hub;
