//! The rules: orders, limits, fairness, failure, retries, timers (design section 5).
//!
//! Pure: no async, no I/O, no clock, no tokio, sqlx, tonic or tracing. [`Shard::apply`] takes a command and the time and
//! yields [`Records`] to persist and [`Action`]s to release once they are durable. Everything here can be simulated at
//! thousands of times real speed.

mod action;
mod command;
mod ids;
pub mod limits;
mod record;
mod recover;
mod settings;
mod task;
mod time;

pub use action::*;
pub use command::*;
pub use ids::*;
pub use record::*;
pub use recover::*;
pub use settings::*;
pub use task::*;
pub use time::*;
