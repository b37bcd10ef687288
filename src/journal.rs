//! The journal: the append-only record in Postgres from which a coordinator recovers (design section 6).
//!
//! It owns the coordination database: no other room has SQL of it. Each duty has connections of its own: the [`Writer`]
//! appends batches, the [`Heart`] renews the lease, [`Upkeep`] makes days and drops old ones, and the
//! [`Reader`]'s small pool serves the handlers of RPCs. Handlers may be dropped at any point, so reads are single
//! autocommit statements, and handlers never touch the writer.

mod append;
mod attempt_row;
mod bodies;
mod body_chunks;
mod check;
mod completion_row;
mod connect;
mod days;
mod error;
mod events;
mod heart;
mod lease;
mod outcomes;
mod pin;
mod recover;
mod schedulers;
mod sessions;
mod status;
mod submission_row;
mod tasks;
mod upkeep;
mod wire;

pub use append::{Batch, Fate, Writer, statements};
pub use bodies::Body;
pub use body_chunks::BodyChunk;
pub use check::Check;
pub use connect::{Journal, JournalConfig};
pub use error::JournalError;
pub use events::Events;
pub use heart::{Beat, Heart, Member, Membership};
pub use lease::{Claim, Ownership, Replica, TakeOver};
pub use pin::Pin;
pub use recover::recover;
pub use schedulers::Reader;
pub use sessions::{Enrolled, Session, Sessions};
pub use status::{JournalStatus, ReplicaRow};
pub use tasks::{StoredTask, TaskPage};
pub use upkeep::Upkeep;
