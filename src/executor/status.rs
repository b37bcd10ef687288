//! What an executor shows of itself: its slots and its targets. Values only.

use crate::core::{Assignment, Time, Work};
use std::sync::Arc;

/// What a slot does.
#[derive(Clone, Debug)]
pub struct ExecutionRow {
    /// The slot's kind.
    pub work: Work,
    /// Its number among them, from 1.
    pub slot: u32,
    /// Backend of its session; 0: none.
    pub backend_pid: i32,
    /// What it runs, and since when; `None`: idle.
    pub running: Option<(Assignment, Time)>,
}

/// How a target is.
#[derive(Clone, Debug)]
pub struct TargetStatus {
    /// Its name.
    pub name: Arc<str>,
    /// Its slots.
    pub slots: u32,
    /// Why it takes no tasks; `None`: it does.
    pub unavailable: Option<Outage>,
}

/// Why no session can be opened, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// What the last try has met.
    pub why: String,
    /// The first of the tries that have failed in a row.
    pub since: Time,
}
