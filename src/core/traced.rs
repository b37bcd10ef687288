//! What has ended and is to be shown in a trace. It is released with the records that say so, and
//! nothing is decided by it.

use super::{Attempt, Handle, Order, Outcome, Seq, Spec, Time};
use bytes::Bytes;
use std::sync::Arc;

/// Consecutive tasks of which something has ended.
#[derive(Clone, Debug)]
pub struct Traced {
    /// Their scheduler.
    pub handle: Handle,
    /// The first one.
    pub first: Seq,
    /// How many.
    pub count: u32,
    /// Their effective order.
    pub order: Option<Order>,
    /// What they are; it has a trace.
    pub spec: Arc<Spec>,
    /// When they were submitted.
    pub submitted_at: Time,
    /// What has ended.
    pub what: TracedEnd,
}

/// What has ended of tasks that are traced.
#[derive(Clone, Debug)]
pub enum TracedEnd {
    /// An attempt.
    Attempt(TracedAttempt),
    /// The tasks.
    Task {
        /// How.
        outcome: Outcome,
        /// The code of its error, unless succeeded. Messages are not shown.
        error: Option<String>,
        /// The last attempt.
        attempt: Attempt,
        /// When.
        ended: Time,
        /// Those among them that are copies, and of which tasks.
        copies: Vec<(Seq, Seq)>,
    },
}

/// An attempt that has ended.
#[derive(Clone, Debug)]
pub struct TracedAttempt {
    /// Its number.
    pub attempt: Attempt,
    /// When it was handed out.
    pub handed_out: Time,
    /// When it began.
    pub started: Time,
    /// When it ended.
    pub ended: Time,
    /// Which slot ran it.
    pub slot: u32,
    /// Which backend of the target; 0: none.
    pub backend_pid: i32,
    /// What else is known of it: [`super::model::diagnostics::Diagnostics`] as JSON.
    pub diagnostics: Bytes,
    /// How it ended.
    pub end: AttemptEnd,
    /// The code of its error, if it failed.
    pub error: Option<String>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// As its task.
    Last(Outcome),
    /// With an error; another one follows.
    Failed,
    /// With its host or session; another one follows.
    Lost,
    /// Its executor gave it back.
    HandedBack,
}
