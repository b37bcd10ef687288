//! The rules: orders, limits, fairness, failure, retries, timers (design section 5).
//!
//! Pure: no async, no I/O, no clock, no tokio, sqlx, tonic or tracing. [`Shard::apply`] takes a command and the time and
//! yields [`Records`] to persist and [`Action`]s to release once they are durable. Everything here can be simulated at
//! thousands of times real speed.

mod action;
mod behind;
mod bulk;
mod command;
mod complete;
mod completion;
mod control;
mod dispatch;
mod fair;
mod finish;
mod ids;
pub mod limits;
mod output;
mod queue;
mod quota;
mod record;
mod recover;
mod requests;
mod restore;
mod retry;
mod scheduler;
mod settings;
mod shard;
mod shared;
mod sizes;
mod standing;
mod submit;
mod suspect;
mod task;
#[cfg(test)]
mod tests;
mod time;
mod timers;
mod totals;
mod unfinished;
mod upcoming;
mod watch;

pub use action::*;
pub use command::*;
pub use completion::*;
pub use ids::*;
pub use output::*;
pub use record::*;
pub use recover::*;
pub use settings::*;
pub use shard::*;
pub use sizes::blocks;
pub use task::*;
pub use time::*;
pub use upcoming::*;

use fair::{Fair, Grant, KindId, NamespaceId, Pool, Share};
use finish::Ending;
use queue::{Gate, Queue, Span};
use quota::{Load, Over, Quotas};
use requests::Accepted;
use scheduler::{History, InFlight, Scheduler};
use sizes::Sizes;
use standing::Piece;
use unfinished::Unfinished;
