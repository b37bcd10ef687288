//! What a forecast says, and what it rests on.

use super::ends::Ending;
use crate::core::{Handle, Order, Seq, Time, Work};
use std::collections::BTreeMap;

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
    /// Tasks of which nobody knows whether they still run are taken to run.
    InDoubt(i64),
    /// Tasks were run by the dozen, up to so many as one.
    Grouped(u32),
    /// Tasks without a session are taken to end at once.
    AtOnce,
    /// How long tasks of other schedulers last is known from their averages alone.
    OthersByAverage(usize),
    /// Of so many other schedulers no task has ended: they are taken to be like this one.
    OthersGuessed(usize),
}
