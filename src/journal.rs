//! The journal: the append-only record in Postgres from which a coordinator recovers (design section 6).
//!
//! It owns the coordination database: no other room has SQL of it. Each duty has connections of its own: the [`Writer`]
//! appends batches, the [`Heart`] renews the lease, [`Upkeep`] makes days and drops old ones, and the
//! [`Reader`]'s small pool serves the handlers of RPCs. Handlers may be dropped at any point, so reads are single
//! autocommit statements, and handlers never touch the writer.

mod append;
mod connect;
mod days;
mod encoding;
mod error;
mod maintenance;
pub(crate) mod ownership;
mod preflight;
pub(crate) mod read;
pub(crate) mod rows;

pub use append::{Batch, Fate, Writer, statements};
pub use connect::{Journal, JournalConfig};
pub use error::JournalError;
pub use maintenance::Upkeep;
pub use ownership::executor_sessions::{Enrolled, Session, Sessions};
pub use ownership::heartbeat::{Beat, Heart, Member, Membership};
pub use ownership::lease::{Claim, Ownership, Replica, TakeOver};
pub use preflight::Check;
pub use read::bodies::Body;
pub use read::body_chunks::BodyChunk;
pub use read::events::Events;
pub use read::recovery::recover;
pub use read::retention_pin::Pin;
pub use read::schedulers::Reader;
pub use read::status::{JournalStatus, ReplicaRow};
pub use read::tasks::{StoredTask, TaskPage};
