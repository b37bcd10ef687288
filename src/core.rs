//! The rules: orders, limits, fairness, failure, retries, timers.
//!
//! Pure: no async, no I/O, no clock, no tokio, sqlx, tonic or tracing. [`Shard::apply`] takes a
//! command and the time and yields [`Records`] to persist and [`Action`]s to release once they are
//! durable. Everything here can be simulated at thousands of times real speed.

mod action;
mod command;
mod command_bytes;
mod explanation;
pub(crate) mod fairness;
mod job_record;
mod job_verb;
mod jobs;
pub mod model;
mod output;
mod record;
mod reply;
mod resource_record;
mod resource_verb;
mod resources;
pub mod schedule;
mod scheduler;
mod shard;
mod snapshot;
mod submission;
mod tally;
#[cfg(test)]
mod tests;
mod traced;
mod turn;
mod unwritten;

pub use action::*;
pub use command::*;
pub use explanation::*;
pub use job_record::*;
pub use job_verb::*;
#[doc(hidden)]
pub use jobs::digest::*;
pub use model::completion::*;
pub use model::filter::*;
pub use model::halt::*;
pub use model::ids::*;
pub use model::job::*;
pub use model::job_run::*;
pub use model::request_memory::RequestMemory;
pub use model::resource::*;
pub use model::run_claim::*;
pub use model::session_options::*;
pub use model::settings::*;
pub use model::target_pause::*;
pub use model::task::*;
pub use model::time::*;
pub use model::trace::*;
pub use model::want::*;
pub use output::*;
pub use record::*;
pub use reply::*;
pub use resource_record::*;
pub use resource_verb::*;
#[doc(hidden)]
pub use resources::digest::*;
pub use scheduler::body_sizes::blocks;
#[doc(hidden)]
pub use shard::digest::*;
pub use shard::lookahead::*;
pub use shard::recovered::*;
pub use shard::*;
pub use snapshot::*;
pub use submission::*;
pub use tally::Tally;
pub use traced::*;

use turn::Turn;
pub use unwritten::Unwritten;
