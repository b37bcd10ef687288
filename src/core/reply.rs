//! What the core answers, and what it shows of its schedulers.

use super::{
    Attempt, ClaimCounts, DoneNo, Explanation, Halt, Handle, JobCounts, JobReject, JobReply,
    Namespace, Order, Outcome, ResourceReject, ResourceReply, SchedulerImage, Seq, Snapshot,
    TargetPause, TaskError, TaskId, TaskResult, TaskState, Time, Work, model::limits::Limit,
};
use bytes::Bytes;
use std::{sync::Arc, time::Duration};

/// The answer to a command, released when everything it rests on is durable.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Open, Update, Pause, Resume, Describe.
    Scheduler(Box<SchedulerView>),
    /// Open: none was opened, since this one is open under the name.
    Found(Box<SchedulerView>),
    /// Submit, Submitted.
    Submitted {
        /// Number of the first task.
        first_seq: Seq,
        /// How many.
        count: u32,
        /// Last event before these tasks.
        done_no: DoneNo,
        /// An earlier call under the same request id brought them.
        repeated: bool,
    },
    /// Submitted: no call is remembered under this request id.
    NotSubmitted {
        /// The last event.
        done_no: DoneNo,
    },
    /// Watch.
    Watching {
        /// Whose stream it is: one that nobody takes is closed again.
        handle: Handle,
        /// Tasks up to this number count.
        last_seq: Seq,
        /// Unfinished ones that count (ALL, FIRST_FAILURE: all; ORDER: of that order or lower).
        outstanding: i64,
        /// Last event when the stream opened: events after it with a counting task reduce
        /// `outstanding`.
        done_no: DoneNo,
    },
    /// Release.
    Released {
        /// It had been released before.
        already: bool,
        /// Unfinished tasks.
        pending: i64,
        /// Last event given: with `pending`, the number of the event to wait for.
        done_no: DoneNo,
    },
    /// Cancel. What is in neither count had ended before, or was not asked for.
    Cancelled {
        /// Tasks that waited, and have ended as CANCELLED.
        waiting: u32,
        /// Tasks that run, and are being stopped.
        running: u32,
    },
    /// Locate: for each task, its state and attempts begun; `None`: it has ended, or never was at
    /// that place.
    Located(Vec<Option<(TaskState, Attempt)>>),
    /// Explain: `None`: it has ended, or never was at that place.
    Explained(Option<Box<Explanation>>),
    /// Snapshot: `None`: it has ended.
    Snapshot(Option<Box<Snapshot>>),
    /// Select.
    Selected {
        /// Newest first; perhaps fewer than wanted although there are more.
        seqs: Vec<Seq>,
        /// Where to look on: before this one; `None`: there are no more.
        next: Option<Seq>,
    },
    /// ChangePause.
    Pauses(Box<PauseAnswer>),
    /// Resource.
    Resource(Box<ResourceReply>),
    /// Job.
    Job(Box<JobReply>),
    /// Status.
    Status(Box<CoreStatus>),
    /// Checkpoint.
    Checkpointed,
    /// Cleared: whatever was lost is on record.
    Cleared,
    /// No effect, and why.
    Rejected(Reject),
}

/// Why a command had no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reject {
    /// Not there, not yours, or ended and left to the journal.
    UnknownHandle,
    /// Released: takes no tasks.
    Released,
    /// A task is below the current order.
    OrderClosed {
        /// Its place in the call.
        index: usize,
        /// Its order.
        order: Order,
        /// The lowest order open.
        current: Order,
    },
    /// The request id was used with another payload.
    RequestIdReused,
    /// An open scheduler has the name.
    NameTaken {
        /// Which.
        holder: Handle,
    },
    /// A limit is reached.
    LimitReached {
        /// Which.
        limit: Limit,
        /// Whose.
        namespace: Namespace,
        /// Its value.
        value: i64,
        /// When to try again; `None`: that would not help.
        wait: Option<Duration>,
    },
    /// `after` lies beyond the last event.
    CursorAhead {
        /// The last event.
        last: DoneNo,
    },
    /// No such task in this scheduler.
    UnknownTask,
    /// The task has a retry already.
    Retried {
        /// Its number.
        seq: Seq,
        /// That of its retry.
        retry: Seq,
    },
    /// There may be retries behind those that the caller has found: search again.
    RetriesUnknown,
    /// A task of the call cannot have a resource.
    TaskResource {
        /// Its place in the call.
        index: usize,
        /// Which of its resources, by its place in `resources`, sorted by name.
        name: Arc<str>,
        /// Whether it has it from the default options of its scheduler.
        by_default: bool,
        /// Why.
        reject: ResourceReject,
    },
    /// What is wrong with a call about resources.
    Resource(ResourceReject),
    /// What is wrong with a call about jobs.
    Job(JobReject),
    /// The database refused to store it.
    JournalRejected,
}

/// A scheduler with its counts.
#[derive(Clone, Debug)]
pub struct SchedulerView {
    /// Its row.
    pub image: SchedulerImage,
    /// Unfinished tasks by state.
    pub counts: Counts,
    /// The lowest order with unfinished tasks.
    pub current_order: Option<Order>,
    /// Running tasks above the limit.
    pub surplus: i64,
}

/// Unfinished tasks by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counts {
    pub blocked: i64,
    pub queued: i64,
    pub running: i64,
    pub retrying: i64,
}

/// Unfinished tasks that do not run, by what they wait for first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// For a slot, and what they need together with it: resources, a target that is not paused.
    pub slot: i64,
    /// For a task of their scheduler to end: `max_parallelism` run.
    pub max_parallelism: i64,
    /// For the end of an earlier order.
    pub order: i64,
    /// For their `not_before`.
    pub not_before: i64,
    /// For their next attempt.
    pub retry: i64,
    /// For their scheduler, which is paused, to be resumed.
    pub paused: i64,
    /// For the halt of their scheduler to be lifted.
    pub halted: i64,
}

/// What a stream needs to know of a scheduler besides its events; true as of the batch it came
/// with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Last event.
    pub done_no: DoneNo,
    /// Unfinished tasks.
    pub pending: i64,
    /// Of them, blocked by the halt.
    pub blocked: i64,
    /// The halt.
    pub halt: Option<Halt>,
    /// It takes no more tasks.
    pub released: bool,
}

/// Counts over all schedulers.
#[derive(Clone, Debug, Default)]
pub struct CoreStatus {
    /// Schedulers that are open, or released with tasks left.
    pub schedulers: i64,
    /// Their unfinished tasks.
    pub counts: Counts,
    /// What those of them wait for that do not run.
    pub waiting: Waiting,
    /// By kind of slot: for how long its next scheduler has been served less than its share.
    pub lags: Vec<(Work, Duration)>,
    /// Slots: kind, total, busy, reserved.
    pub slots: Vec<(Work, u32, u32, u32)>,
    /// By kind of slot: tasks that would start at once if there were slots enough.
    pub startable: Vec<(Work, i64)>,
    /// Submission time of the oldest task that may run.
    pub oldest_queued: Option<Time>,
    /// Tasks that have ended in this core.
    pub ended: i64,
    /// Of them, those that failed.
    pub failed: i64,
    /// Pauses of targets.
    pub pauses: Vec<PauseView>,
    /// Claims on resources.
    pub claims: ClaimCounts,
    /// Jobs and their runs.
    pub jobs: JobCounts,
}

/// What a change of a pause has led to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PauseAnswer {
    /// The call has changed something.
    pub changed: bool,
    /// The pause that was asked for, as it is in force.
    pub own: Option<PauseView>,
    /// Other pauses of the same target, or of all of them; of all targets: every one.
    pub others: Vec<PauseView>,
    /// Tasks that still run there, some of them.
    pub tasks: Vec<TaskId>,
}

/// A pause in force, and what still runs under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseView {
    /// The pause.
    pub pause: TargetPause,
    /// Tasks that executors are known to run.
    pub running: u32,
    /// Tasks that may run besides, at most: an earlier owner may have handed them out, and no
    /// executor has said so yet.
    pub in_doubt: u32,
}

/// An outcome as an event tells it: `count` tasks that ended alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// First of the tasks; its event has the lowest number.
    pub first: Seq,
    /// How many, consecutive.
    pub count: u32,
    /// Their effective order.
    pub order: Option<Order>,
    /// The task of which it is a copy; then it is one task.
    pub retry_of: Option<Seq>,
    /// How they ended.
    pub outcome: Outcome,
    /// The last attempt.
    pub attempt: Attempt,
    /// Its start; `None`: never started.
    pub started: Option<Time>,
    /// When they ended.
    pub ended: Time,
    /// Where.
    pub slot: u32,
    /// Which backend; 0: none.
    pub backend_pid: i32,
    /// What else is known of the last attempt: [`super::model::diagnostics::Diagnostics`] as JSON.
    pub diagnostics: Bytes,
    /// Why, unless succeeded.
    pub error: Option<Arc<TaskError>>,
    /// What came back.
    pub result: Option<Arc<TaskResult>>,
}
