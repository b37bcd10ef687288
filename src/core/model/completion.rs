//! What an executor reports when an assignment has ended. It decides nothing: what follows is for
//! the core to judge.

use crate::core::{Attempt, Handle, Seq, TaskError, TaskResult, Time};
use bytes::Bytes;
use std::sync::Arc;

/// What became of an assignment.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// Which scheduler.
    pub handle: Handle,
    /// The assignment's first task.
    pub first: Seq,
    /// Its attempt. A completion of another attempt than the running one is ignored.
    pub attempt: Attempt,
    /// What happened.
    pub report: Report,
    /// When the attempt began.
    pub started: Time,
    /// When it ended.
    pub ended: Time,
    /// Which slot ran it.
    pub slot: u32,
    /// Which backend of the target; 0: none.
    pub backend_pid: i32,
    /// What else is known of it: [`super::diagnostics::Diagnostics`] as JSON.
    pub diagnostics: Bytes,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// Well.
    Succeeded(Option<Arc<TaskResult>>),
    /// It reported an error. `transient`: an identical attempt may well succeed.
    Failed {
        /// Which.
        error: Arc<TaskError>,
        /// Counts against `max_losses`, not `max_attempts`.
        transient: bool,
    },
    /// Stopped by the executor at the assignment's time limit.
    TimedOut(Arc<TaskError>),
    /// Stopped because the core asked for it.
    Stopped,
    /// Never began: there was no session. Counts as no attempt.
    NotStarted,
    /// Its host was lost while it ran. Said in its place: when nothing of it runs any more, and of
    /// an exactly-once task again, when its target has no marker of it.
    Lost,
    /// The journal refuses to store what was reported: said in its place. The result without its
    /// rows, if it was a success.
    Unstorable(Option<Arc<TaskResult>>),
}

impl Completion {
    /// Bytes a caller or target put into it.
    pub fn bytes(&self) -> usize {
        let report = match &self.report {
            Report::Succeeded(Some(result)) => result.rows_json.len(),
            Report::Failed { error, .. } | Report::TimedOut(error) => error.message.len(),
            Report::Succeeded(None)
            | Report::Stopped
            | Report::NotStarted
            | Report::Lost
            | Report::Unstorable(_) => 0,
        };
        report + self.diagnostics.len()
    }

    /// Of work without a session, which ends when it is handed out and is never reported again.
    pub fn is_sessionless(&self) -> bool {
        self.slot == 0 && matches!(self.report, Report::Succeeded(None))
    }

    /// The same without what cannot be stored; `None` when nothing of that is left.
    pub fn without_payload(self) -> Option<Self> {
        let succeeded = match self.report {
            Report::Unstorable(_) => return None,
            Report::Succeeded(result) => {
                let result = result.as_deref().cloned().unwrap_or_default();
                Some(Arc::new(TaskResult {
                    truncated: result.truncated || !result.rows_json.is_empty(),
                    rows_json: Bytes::new(),
                    ..result
                }))
            }
            _ => None,
        };
        Some(Completion {
            report: Report::Unstorable(succeeded),
            diagnostics: Bytes::new(),
            ..self
        })
    }
}

/// An assignment that survives a recovery: its executor still runs it, or its completion is still
/// to be taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its scheduler.
    pub handle: Handle,
    /// Its first task.
    pub first: Seq,
    /// How many.
    pub count: u32,
    /// Its attempt.
    pub attempt: Attempt,
    /// When it was handed out.
    pub since: Time,
}
