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
}

impl Completion {
    /// Bytes a caller or target put into it.
    pub fn bytes(&self) -> usize {
        let report = match &self.report {
            Report::Succeeded(Some(result)) => result.rows_json.len(),
            Report::Failed { error, .. } | Report::TimedOut(error) => error.message.len(),
            Report::Succeeded(None) | Report::Stopped | Report::NotStarted => 0,
        };
        report + self.diagnostics.len()
    }

    /// Of work without a session, which ends when it is handed out and is never reported again.
    pub fn is_sessionless(&self) -> bool {
        self.slot == 0 && matches!(self.report, Report::Succeeded(None))
    }

    /// The same, but failed because its result cannot be stored; `None` when it has failed so
    /// already.
    pub fn without_payload(self) -> Option<Self> {
        const CODE: &str = "RESULT_UNSTORABLE";
        if matches!(&self.report, Report::Failed { error, .. } if error.code == CODE) {
            return None;
        }
        let message = "the database refused to store what the attempt brought back".into();
        let error = Arc::new(TaskError {
            code: CODE.into(),
            message,
        });
        Some(Completion {
            report: Report::Failed {
                error,
                transient: false,
            },
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
