//! What the core wants remembered: the records of one batch. They are durable before any action of
//! the batch is released.

use super::{
    Attempt, Done, DoneNo, Handle, JobRecords, Order, PauseChange, ResourceRecords, SchedulerImage,
    Seq, Spec, Submit, TaskError, Time,
};
use bytes::Bytes;
use std::{collections::BTreeMap, sync::Arc};

/// The records of one batch, by table.
#[derive(Debug, Default)]
pub struct Records {
    /// Accepted calls, in order.
    pub submissions: Vec<SubmissionRecord>,
    /// Outcomes: rows of consecutive events of one scheduler.
    pub completions: Vec<Arc<CompletionRecord>>,
    /// Attempts worth a row.
    pub attempts: Vec<AttemptRecord>,
    /// Changed schedulers, the last image of each.
    pub schedulers: BTreeMap<Handle, SchedulerImage>,
    /// Pauses of targets, and their ends, in order.
    pub pauses: Vec<PauseRecord>,
    /// What happened to resources and claims.
    pub resources: ResourceRecords,
    /// What happened to jobs and their runs.
    pub jobs: JobRecords,
}

/// A target is paused or resumed.
#[derive(Clone, Debug, PartialEq)]
pub struct PauseRecord {
    /// What was asked for, and changed something.
    pub change: PauseChange,
    /// When.
    pub at: Time,
}

/// One accepted ExecAsync call.
#[derive(Clone, Debug)]
pub struct SubmissionRecord {
    /// Its scheduler.
    pub handle: Handle,
    /// Who made it, as the caller names itself.
    pub caller: Arc<str>,
    /// Number of its first task.
    pub first_seq: Seq,
    /// When it was accepted.
    pub submitted_at: Time,
    /// The last event before it.
    pub done_no: DoneNo,
    /// Runs, bodies and request as submitted.
    pub submit: Arc<Submit>,
    /// Per run: the order in force and the spec with defaults filled in.
    pub resolved: Vec<(Option<Order>, Arc<Spec>)>,
}

/// Consecutive events of one scheduler.
#[derive(Clone, Debug)]
pub struct CompletionRecord {
    /// Its scheduler.
    pub handle: Handle,
    /// Number of the first event.
    pub first_done_no: DoneNo,
    /// The outcomes in the order of their numbers.
    pub done: Vec<Done>,
}

/// Something worth remembering about an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptRecord {
    /// Its scheduler.
    pub handle: Handle,
    /// Its task.
    pub seq: Seq,
    /// Its number.
    pub attempt: Attempt,
    /// What happened.
    pub what: AttemptEvent,
    /// When.
    pub at: Time,
    /// Where it ran, when it is over and did.
    pub ran: Option<Ran>,
}

/// When and where an attempt ran that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    /// When it started.
    pub started: Time,
    /// Which slot ran it.
    pub slot: u32,
    /// Which backend of the target; 0: none.
    pub backend_pid: i32,
    /// What else is known of it: [`super::model::diagnostics::Diagnostics`] as JSON.
    pub diagnostics: Bytes,
}

/// What happened to an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum AttemptEvent {
    /// It began (recorded when it outlives 100 ms, repeats another one, or must not be repeated).
    Start,
    /// A caller asked to cancel it.
    CancelRequested {
        /// Who, and what was meant; `None`: an older version has not written it down.
        why: Option<Arc<TaskError>>,
    },
    /// It is not known to have begun, or its executor gave it back: no loss, another one follows.
    HandedBack,
    /// It ended with its host or connection, or by a transient error; the next one may begin at
    /// `next_at`.
    Lost {
        /// When.
        next_at: Time,
        /// Why, when known.
        error: Option<Arc<TaskError>>,
    },
    /// It failed; the next one may begin at `next_at`.
    Failed {
        /// When.
        next_at: Time,
        /// Why.
        error: Arc<TaskError>,
    },
    /// Not of an attempt: the task has ended, and a caller had it submitted once more. Its attempt
    /// number is 0.
    Retried {
        /// Number of the copy.
        retry: Seq,
    },
}

impl AttemptEvent {
    /// Its number in the journal, which sorts by it.
    pub fn number(&self) -> i16 {
        match self {
            AttemptEvent::Start => 1,
            AttemptEvent::CancelRequested { .. } => 2,
            AttemptEvent::Lost { .. } => 3,
            AttemptEvent::Failed { .. } => 4,
            AttemptEvent::HandedBack => 5,
            AttemptEvent::Retried { .. } => 6,
        }
    }
}

impl Records {
    /// Nothing to remember.
    pub fn is_empty(&self) -> bool {
        self.completions.is_empty() && self.brings_only_ends()
    }

    /// Nothing but ends of tasks.
    pub(crate) fn brings_only_ends(&self) -> bool {
        self.submissions.is_empty()
            && self.attempts.is_empty()
            && self.schedulers.is_empty()
            && self.pauses.is_empty()
            && self.resources.is_empty()
            && self.jobs.is_empty()
    }
}

impl CompletionRecord {
    /// How many events.
    pub fn count(&self) -> u32 {
        self.done.iter().map(|done| done.count).sum()
    }

    /// Number of the last event.
    pub fn last_done_no(&self) -> DoneNo {
        DoneNo(self.first_done_no.0 + i64::from(self.count()) - 1)
    }
}
