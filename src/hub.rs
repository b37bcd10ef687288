//! Every executor, here or on another replica: who is connected, what each was given, and how those
//! that are gone are shown dead before their work is started again.
//!
//! The rules are in two pure machines, `machine` for the owner of the shard and `session` for an
//! executor that works for another replica. It decides nothing about tasks.

pub(crate) mod driver;
pub mod event;
pub(crate) mod executor_pool;
pub(crate) mod fencing;
pub mod machine;
pub mod session;

pub use driver::Hub;
