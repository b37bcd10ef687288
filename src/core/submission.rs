//! Tasks as they are submitted: by a call, or as the steps of a job.

use super::{DoneNo, Packed, Request, Run, Seq};

/// Tasks to submit: all or nothing.
#[derive(Clone, Debug)]
pub struct Submit {
    /// Makes the call repeatable.
    pub request: Option<Request>,
    /// The tasks, as runs of equal order and spec.
    pub runs: Vec<Run>,
    /// One per task: the statement or payload.
    pub bodies: Packed,
    /// One per task, JSON arrays of text or null; empty when no task has any.
    pub params: Packed,
    /// They are copies of tasks that have ended: RetryTask and RetryFailed.
    pub retries: Option<Retries>,
}

impl Submit {
    /// No tasks.
    pub fn none() -> Self {
        Submit {
            request: None,
            runs: Vec::new(),
            bodies: Packed::default(),
            params: Packed::default(),
            retries: None,
        }
    }
}

/// Of which tasks those of a call are copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Where the journal was searched for earlier retries of these tasks: up to this task.
    pub searched: Seq,
    /// One per task, by ascending number.
    pub of: Vec<RetryOf>,
}

/// Of which task another one is a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryOf {
    /// That task.
    pub seq: Seq,
    /// The failure that the copy stands for: the event of that task, or, if that one was itself a
    /// copy and cancelled, of the one before it. `None`: nothing has failed.
    pub failure: Option<DoneNo>,
}
