//! What an executor shows of itself: its slots and its targets. Values only.

use crate::core::{Assignment, TaskId, Time, Work};
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

/// The attempt of a task that runs here.
#[derive(Clone, Debug)]
pub struct AttemptStatus {
    /// Its slot.
    pub row: ExecutionRow,
    /// What its session waits for, or why that is not known, or why it has none; `None`: it has
    /// none, and nothing says why.
    pub wait: Option<Result<SessionWait, String>>,
}

/// What a server says of a session at a moment.
#[derive(Clone, Debug)]
pub struct SessionWait {
    /// As `pg_stat_activity` has it, and the following two; empty: nothing.
    pub state: String,
    pub wait_event_type: String,
    pub wait_event: String,
    /// The lock that it waits for.
    pub lock: Option<WaitedLock>,
    /// Who is in the way, the nearest first.
    pub blocked_by: Vec<BlockingSession>,
}

/// A lock that is not granted, as `pg_locks` has it.
#[derive(Clone, Debug)]
pub struct WaitedLock {
    pub kind: String,
    pub mode: String,
    /// If it is on one of this database.
    pub relation: Option<String>,
}

/// A session that holds a lock, or stands before ours in the queue for it.
#[derive(Clone, Debug)]
pub struct BlockingSession {
    /// 0: a prepared transaction.
    pub pid: i32,
    /// 1: it is in the way itself; 2: in the way of such a one; and so on.
    pub depth: u32,
    pub user: String,
    pub application: String,
    pub backend_type: String,
    /// `None`: the login may not see more of it than who it is.
    pub state: Option<String>,
    pub wait_event_type: String,
    pub wait_event: String,
    /// How long its transaction lasts; `None`: it has none.
    pub transaction_us: Option<i64>,
    /// The task of the same namespace that it runs here; `None`: it is no session of ours, as far
    /// as this executor knows.
    pub task: Option<TaskId>,
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
    /// Why some tasks wait for a session all the same; `None`: none does.
    pub refused: Option<String>,
}

/// Why no session can be opened, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// What the last try has met.
    pub why: String,
    /// The first of the tries that have failed in a row.
    pub since: Time,
}
