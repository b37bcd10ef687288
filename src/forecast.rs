//! When a scheduler will have ended: the core itself, run forward many times on a copy of its
//! state, with durations like those that the log has seen.
//!
//! Orders, limits, fair share, retries and failures are not re-enacted here: each run restores a
//! real shard and tells it what executors would report. What differs from run to run is chance: how
//! long tasks last, and what nobody knows about how long they last. Nothing here reads a clock or
//! does I/O, so a seed says everything.
//!
//! What nobody knows is said: an end is given only if it follows in nearly all runs, and else why
//! it does not.

mod answer;
mod classes;
mod durations;
mod ends;
mod lengths;
mod question;
mod replay;
mod restart;
#[cfg(test)]
mod tests;
mod trials;
mod units;

pub use answer::{Basis, Forecast, Omission, OrderForecast};
pub use durations::{Observation, Observations};
pub use ends::{Ending, Reason};
pub use question::Question;

use crate::core::Snapshot;
use trials::Trials;

/// When the scheduler of `snapshot` will have ended. `go_on` says whether there is time for one
/// more run after so many.
pub fn forecast(
    snapshot: &Snapshot,
    seen: &Observations,
    question: &Question,
    go_on: impl Fn(usize) -> bool,
) -> Forecast {
    Trials::new(snapshot, seen, question).forecast(go_on)
}
