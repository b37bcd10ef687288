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

mod classes;
mod durations;
mod ends;
mod lengths;
mod replay;
mod restart;
#[cfg(test)]
mod tests;
mod trials;
mod units;

pub use durations::{Observation, Observations};
pub use ends::{Ending, Reason};

use crate::core::{Handle, Order, Seq, Snapshot, Time, Work};
use std::collections::BTreeMap;
use trials::Trials;

/// What is asked, and what it may cost.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Tasks whose end is wanted, beside those of all orders and of the scheduler.
    pub tasks: Vec<Seq>,
    /// Slots to assume, in place of those there are.
    pub slots: BTreeMap<Work, u32>,
    /// What the statements of waiting and running tasks hash to, as far as that is known.
    pub texts: BTreeMap<Seq, u64>,
    /// Runs at most; `None`: as many as the quantiles use.
    pub runs: Option<u32>,
    /// Determines all chance.
    pub seed: u64,
}

/// When everything will have ended.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// The scheduler it is about.
    pub handle: Handle,
    /// The time from which it looks ahead.
    pub at: Time,
    /// Runs of the core that it rests on.
    pub runs: u32,
    /// The end of all tasks submitted so far.
    pub all: Ending,
    /// Unfinished tasks.
    pub unfinished: i64,
    /// The end of each order, the tasks without one first.
    pub orders: Vec<OrderForecast>,
    /// The end of each task asked for that is unfinished.
    pub tasks: Vec<(Seq, Ending)>,
    /// The slots it counts with.
    pub slots: Vec<(Work, u32)>,
    /// What it takes the durations of tasks from.
    pub basis: Vec<Basis>,
    /// What it leaves out.
    pub omissions: Vec<Omission>,
}

/// When an order will have ended.
#[derive(Clone, Debug)]
pub struct OrderForecast {
    /// Which; `None`: tasks without order.
    pub order: Option<Order>,
    /// Unfinished tasks.
    pub unfinished: i64,
    /// When they will have ended.
    pub end: Ending,
}

/// Ended tasks that durations were taken from.
#[derive(Clone, Debug)]
pub struct Basis {
    /// Where they ran.
    pub work: Work,
    /// Their labels, if all of them have the same.
    pub labels: Option<BTreeMap<String, String>>,
    /// All of them had the same statement.
    pub same_statement: bool,
    /// How many.
    pub seen: usize,
    /// How long they lasted on average, in seconds.
    pub mean: f64,
    /// How many of a hundred attempts failed.
    pub failed_percent: f64,
}

/// What a forecast leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Omission {
    /// Waiting tasks that are taken to be like those before them.
    Assumed(i64),
    /// Unfinished tasks in orders above those looked at.
    Beyond(i64),
    /// Tasks were run by the dozen, up to so many as one.
    Grouped(u32),
    /// Tasks without a session are taken to end at once.
    AtOnce,
    /// How long tasks of other schedulers last is known from their averages alone.
    OthersByAverage(usize),
}

/// When the scheduler of `snapshot` will have ended. `go_on` says whether there is time for one
/// more run.
pub fn forecast(
    snapshot: &Snapshot,
    seen: &Observations,
    question: &Question,
    go_on: impl Fn() -> bool,
) -> Forecast {
    Trials::new(snapshot, seen, question).forecast(go_on)
}
