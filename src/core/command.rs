//! What may be asked of the core.

use super::{
    Completion, DoneNo, Epoch, Handle, JobVerb, Namespace, Order, PauseChange, Phase, ReleaseMode,
    Request, ResourceVerb, Running, Seq, Settings, Submit, Work,
};
use std::sync::Arc;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Unit of isolation.
    pub namespace: Namespace,
    /// Name for the log.
    pub name: Arc<str>,
}

/// Whether a name is an identity that was proven: other callers name themselves.
pub fn is_identity(name: &str) -> bool {
    let kind = name.split_once(':').map(|(kind, _)| kind);
    kind.is_some_and(|kind| IDENTITIES.contains(&kind))
}

/// Whether a caller may go on with what `maker` began: where callers are known, only the maker may.
/// Another holder of a token of the namespace is not to end it, or to keep it.
pub(crate) fn may_go_on_for(maker: &str, caller: &str) -> bool {
    !is_identity(maker) || maker == caller
}

/// What identities begin with, before a colon.
pub const IDENTITIES: [&str; 3] = ["token", "jwt", "cert"];

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
    /// From the executors: what slots they have of a kind.
    Slots {
        /// Which kind.
        work: Work,
        /// How many of it.
        slots: SlotCounts,
    },
    /// From an executor, after a takeover: what it still runs of what was handed out before, or has
    /// done and not seen acknowledged. What is not known any more is stopped.
    Reported(Vec<Running>),
    /// Every executor has reported what it runs of this kind (`None`: of any), or is fenced.
    Cleared {
        /// Which kind.
        work: Option<Work>,
        /// What became of the tasks in doubt that nobody reported.
        unreported: Unreported,
        /// Under which ownership the executors were asked.
        since: Epoch,
    },
    /// A stream opened by `Watch` has ended.
    StreamClosed(Handle),
    /// So many streams were opened by `Watch` before this core was built, and have not ended.
    StreamsOpen(Vec<(Handle, u32)>),
    /// Counts for the status page.
    Status,
    /// A caller's, about resources of its namespace.
    Resource {
        /// Who asks.
        caller: Caller,
        /// What.
        verb: ResourceVerb,
    },
    /// A caller's, about jobs of its namespace, or an operator's about the agent.
    Job {
        /// Who asks.
        caller: Caller,
        /// What.
        verb: JobVerb,
    },
    /// An operator pauses a target, or resumes it.
    ChangePause(PauseChange),
    /// Write the checkpoints of these schedulers anew: the journal wants to let go of old rows.
    Checkpoint(Vec<Handle>),
}

/// What became of a task that an earlier owner handed out, when no executor has reported it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unreported {
    /// Every executor has reported, so it has not begun.
    #[default]
    NotBegun,
    /// An executor was fenced before it reported: the task may have begun there.
    MayHaveBegun,
}

/// What a caller asks about a scheduler.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Open it under this handle, or find another one by its name.
    Open(Open),
    /// Submit tasks.
    Submit(Arc<Submit>),
    /// What a submit under this request id was answered.
    Submitted(Request),
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
    /// Cancel unfinished tasks.
    Cancel(Arc<Cancel>),
    /// Settings and counts.
    Describe,
    /// Where these unfinished tasks stand.
    Locate(Vec<TaskRef>),
    /// Why a task does not run.
    Explain(TaskRef),
    /// What a forecast of it starts from, and which of these tasks are unfinished.
    Snapshot(Arc<[Seq]>),
    /// The newest tasks of some phases.
    Select {
        /// Older than this one.
        before: Seq,
        /// Of which phases, each once.
        phases: Vec<Phase>,
        /// Only of this effective order. Not known of tasks that are done: not for them.
        order: Option<Order>,
        /// At most so many.
        limit: usize,
    },
}

impl Verb {
    /// It only looks: a dashboard that shows every scheduler keeps none of them alive.
    pub(crate) fn is_read(&self) -> bool {
        match self {
            Verb::Cancel(cancel) => cancel.dry_run,
            Verb::Describe
            | Verb::Submitted(_)
            | Verb::Locate(_)
            | Verb::Explain(_)
            | Verb::Snapshot(_)
            | Verb::Select { .. } => true,
            _ => false,
        }
    }

    /// It says how tasks run from now on.
    pub(crate) fn changes_settings(&self) -> bool {
        matches!(self, Verb::Update(_) | Verb::Pause | Verb::Resume { .. })
    }
}

/// A scheduler to open.
#[derive(Clone, Debug, Default)]
pub struct Open {
    /// What the caller sets.
    pub settings: Arc<Settings>,
    /// The name under which it is found as long as it is open.
    pub naming: Option<Naming>,
    /// Makes the call repeatable.
    pub request: Option<Request>,
}

/// A name that a scheduler is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naming {
    /// Of one open scheduler of the namespace at a time.
    pub name: Arc<str>,
    /// The one that has it is found; else it is in the way.
    pub reuse: bool,
}

/// Where to look for a task: waiting tasks are stored by order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRef {
    /// Its number.
    pub seq: Seq,
    /// The order in force for it.
    pub order: Option<Order>,
}

/// Slots of one kind, of all executors together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCounts {
    /// How many there are; 0: the target is away.
    pub total: u32,
    /// How many tasks may have begun on them whose ends are not durable: so many a later owner
    /// takes to be in doubt.
    pub window: u32,
    /// How many tasks may stand in line at their executors until a slot is free.
    pub line: u32,
    /// Room for ends that are not durable: what the window of the executor with the least leaves
    /// beside its slots and its line.
    pub spare: u32,
    /// Tasks that were handed out to executors that are away, or have no slots any more: they are
    /// open, and take none of these slots.
    pub away: u32,
    /// Those of them that were handed out while no slot was free.
    pub away_in_line: u32,
}

impl SlotCounts {
    /// So many slots, for which none stands in line, and on which none starts before the end of the
    /// last one is durable.
    pub fn of(total: u32) -> Self {
        SlotCounts {
            total,
            window: total,
            ..SlotCounts::default()
        }
    }
}

/// Consecutive tasks of one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRange {
    /// The first of them.
    pub first: Seq,
    /// The last one.
    pub last: Seq,
    /// The order in force for them.
    pub order: Option<Order>,
}

/// Tasks to cancel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// Among these, those that have not ended; no task is in two ranges. Each of them may become
    /// an event in one batch, so the caller says how many.
    pub tasks: Vec<TaskRange>,
    /// Those that wait: they end.
    pub waiting: bool,
    /// Those that run: they are stopped.
    pub running: bool,
    /// Count them, and leave them as they are.
    pub dry_run: bool,
    /// What the caller asked for, in words; `None`: these very tasks.
    pub filter: Option<Arc<str>>,
}

impl TaskRange {
    /// One task.
    pub fn one(task: TaskRef) -> Self {
        TaskRange {
            first: task.seq,
            last: task.seq,
            order: task.order,
        }
    }
}

impl Cancel {
    /// Of one task, whether it waits or runs.
    pub fn one(task: TaskRef) -> Self {
        Cancel {
            tasks: vec![TaskRange::one(task)],
            waiting: true,
            running: true,
            dry_run: false,
            filter: None,
        }
    }
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
    SessionReset,
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
