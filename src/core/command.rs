//! What may be asked of the core, and what it answers.

use super::{
    Attempt, Completion, DoneNo, Epoch, Halt, Handle, Namespace, Order, Outcome, Packed, Phase,
    ReleaseMode, Request, Run, Running, SchedulerImage, Seq, Settings, Standing, TaskError,
    TaskResult, Time, Work, limits::Limit,
};
use std::{sync::Arc, time::Duration};

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Unit of isolation.
    pub namespace: Namespace,
    /// Name for the log.
    pub name: Arc<str>,
}

/// Something asked of the core. Commands are decided in the order in which they arrive.
#[derive(Clone, Debug)]
pub enum Command {
    /// A caller's, about one scheduler. Of another namespace: as if it did not exist.
    Call {
        /// Who asks.
        caller: Caller,
        /// About which scheduler.
        handle: Handle,
        /// What.
        verb: Verb,
    },
    /// From an executor: what became of its assignments.
    Completed(Vec<Completion>),
    /// From an executor: it has `total` slots for `work` (0: the target is away).
    Slots {
        /// Which kind of slot.
        work: Work,
        /// How many.
        total: u32,
    },
    /// From an executor, after a takeover: what it still runs of what was handed out before, or has done and not seen
    /// acknowledged. What is not known any more is stopped.
    Reported(Vec<Running>),
    /// Every executor has reported what it runs of this kind (`None`: of any), or is fenced.
    Cleared {
        /// Which kind.
        work: Option<Work>,
        /// One was fenced: what nobody reported may have run. Else it has not begun.
        lost: bool,
        /// Under which ownership the executors were asked.
        since: Epoch,
    },
    /// A stream opened by `Watch` has ended.
    StreamClosed(Handle),
    /// So many streams were opened by `Watch` before this core was built, and have not ended.
    StreamsOpen(Vec<(Handle, u32)>),
    /// Counts for the status page.
    Status,
    /// Write the checkpoints of these schedulers anew: the journal wants to let go of old rows.
    Checkpoint(Vec<Handle>),
}

/// What a caller asks about a scheduler.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Open it under this handle.
    Open {
        /// What the caller sets.
        settings: Arc<Settings>,
        /// Makes the call repeatable.
        request: Option<Request>,
    },
    /// Submit tasks.
    Submit(Arc<Submit>),
    /// Open a stream of its events.
    Watch {
        /// Last event already seen.
        after: DoneNo,
        /// When the stream ends.
        until: Until,
        /// Tasks up to this number count; `None`: those submitted so far.
        last_seq: Option<Seq>,
    },
    /// Take no more tasks.
    Release(ReleaseMode),
    /// Put these settings in place of the present ones, as `fields` says.
    Update(Arc<Update>),
    /// Start nothing more.
    Pause,
    /// Go on.
    Resume {
        /// Also lift a halt.
        ignore_failures: bool,
    },
    /// Cancel one task.
    Cancel(Place),
    /// Settings and counts.
    Describe,
    /// Where these unfinished tasks stand.
    Locate(Vec<Place>),
    /// The newest tasks of a phase.
    Select {
        /// Older than this one.
        before: Seq,
        /// Of which phase.
        phase: Phase,
        /// Only of this effective order. Not known of tasks that are done: not for them.
        order: Option<Order>,
        /// At most so many.
        limit: usize,
    },
}

/// Where to look for a task: what waits is kept by order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its number.
    pub seq: Seq,
    /// The order in force for it.
    pub order: Option<Order>,
}

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
}

/// A change of settings, by field mask.
#[derive(Clone, Debug)]
pub struct Update {
    /// The new values.
    pub settings: Settings,
    /// Which of them to take.
    pub fields: Vec<SettingsField>,
}

/// A field of [`Settings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SettingsField {
    DisplayName,
    MaxParallelism,
    Weight,
    OnFailure,
    LateOrder,
    DefaultOptions,
    IdleTimeout,
    OnAbandon,
    Labels,
}

/// When a stream ends (API: `Until`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Every task submitted before has ended.
    All,
    /// Every such task of this order or a lower one.
    Order(Order),
    /// So many events, or no more can come.
    Count(u64),
    /// A failure, or `All`.
    FirstFailure,
    /// Never.
    Forever,
}

/// Names who waits for the answer to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// The answer to a command, released when everything it rests on is durable.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Open, Update, Pause, Resume, Describe.
    Scheduler(Box<SchedulerView>),
    /// Submit.
    Submitted {
        /// Number of the first task.
        first_seq: Seq,
        /// How many.
        count: u32,
        /// Last event before these tasks.
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
        /// Last event when the stream opened: events after it with a counting task reduce `outstanding`.
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
    /// Cancel.
    Cancelling {
        /// It runs and is being stopped; else it has ended (CANCELLED just now, or earlier: see the journal).
        running: bool,
        /// It was cancelled by this call.
        cancelled: bool,
    },
    /// Locate: for each task, its standing and attempts begun; `None`: it has ended, or never was at that place.
    Located(Vec<Option<(Standing, Attempt)>>),
    /// Select.
    Selected {
        /// Newest first; perhaps fewer than wanted although there are more.
        seqs: Vec<Seq>,
        /// Where to look on: before this one; `None`: there are no more.
        next: Option<Seq>,
    },
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
    /// The database refused to store it.
    JournalRejected,
}

/// A scheduler with its counts.
#[derive(Clone, Debug)]
pub struct SchedulerView {
    /// Its row.
    pub image: SchedulerImage,
    /// Unfinished tasks by standing.
    pub counts: Counts,
    /// The lowest order with unfinished tasks.
    pub current_order: Option<Order>,
    /// Running tasks above the limit.
    pub surplus: i64,
}

/// Unfinished tasks by standing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counts {
    pub blocked: i64,
    pub queued: i64,
    pub running: i64,
    pub retrying: i64,
}

/// What a stream needs to know of a scheduler besides its events; true as of the batch it came with.
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
    /// Slots: kind, total, busy, reserved.
    pub slots: Vec<(Work, u32, u32, u32)>,
    /// Submission time of the oldest task that may run.
    pub oldest_queued: Option<Time>,
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
    /// Why, unless succeeded.
    pub error: Option<Arc<TaskError>>,
    /// What came back.
    pub result: Option<Arc<TaskResult>>,
}
