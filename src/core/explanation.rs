//! Why a task does not run: what the core answers to [`super::Verb::Explain`]. Values only.

use super::{
    Attempt, Halt, Holder, Mode, Order, ReleaseMode, Seq, TargetPause, TaskRef, TaskState, Time,
    Work,
};
use std::sync::Arc;

/// An unfinished task, and what keeps it from starting.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Which task.
    pub task: TaskRef,
    /// What it needs a slot for.
    pub work: Work,
    /// Where it stands.
    pub state: TaskState,
    /// Attempts begun.
    pub attempt: Attempt,
    /// When it must have ended.
    pub deadline: Option<Time>,
    /// Everything that keeps it from starting, what is looked at first coming first. Of a task that
    /// runs: why nobody knows where.
    pub blockers: Vec<Blocker>,
    /// What is handed out before it; `None`: it runs.
    pub ahead: Option<Ahead>,
    /// It runs, and is being stopped.
    pub stopping: bool,
}

/// Tasks of the same scheduler that come before a waiting one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// Those with lower numbers that wait for the same kind of slot, in its order or in none; of a
    /// task without order, those in the current order or in none.
    pub tasks: i64,
    /// False: there are more than were counted.
    pub exact: bool,
    /// Unfinished ones in lower orders.
    pub in_lower_orders: i64,
}

/// What keeps a task from starting.
#[derive(Clone, Debug, PartialEq)]
pub enum Blocker {
    /// Tasks are being cancelled, and none starts in their orders before that is done.
    Cancellation {
        /// The task is one of them: it ends without another attempt.
        covered: bool,
        /// Orders above this one; `None`: all tasks.
        above: Option<Order>,
        /// How the scheduler was released, if it was.
        release: Option<ReleaseMode>,
    },
    /// The scheduler is paused.
    Paused,
    /// Tasks failed in a lower order.
    Halted(Halt),
    /// A lower order has unfinished tasks.
    LowerOrder {
        /// The current order.
        current: Order,
        /// Its unfinished tasks.
        unfinished: i64,
        /// Some of them, those that run first.
        tasks: Vec<Seq>,
    },
    /// Its `not_before` is still to come.
    NotBefore {
        /// That time.
        at: Time,
    },
    /// It waits for its next attempt.
    NextAttempt {
        /// When that may start.
        at: Time,
        /// Attempts that failed.
        failures: u32,
        /// Attempts that were lost.
        losses: u32,
    },
    /// Deadlines of its scheduler's tasks have passed: these are ended before anything starts.
    Overdue {
        /// Its own is one of them.
        own: bool,
    },
    /// As many tasks of its scheduler run as may, or will before it.
    Limit {
        /// `max_parallelism`.
        max: u32,
        /// Tasks that run.
        running: u32,
        /// Of these, tasks that an earlier owner may have started.
        in_doubt: u32,
    },
    /// An operator has paused its target, or all of them.
    TargetPaused(TargetPause),
    /// No executor has said that it has slots of this kind.
    NoExecutor,
    /// Every executor that has such slots says that they cannot be used now.
    Away,
    /// All slots are busy, or free for others alone.
    Slots {
        /// How many there are.
        total: u32,
        /// How many are busy.
        busy: u32,
    },
    /// Others get the next slot by their share.
    Share(Share),
    /// Resources that it wants are not free, or others are before it.
    Resources(Vec<ResourceBlocker>),
    /// An earlier owner may have started it, and its executor has not said so yet.
    InDoubt,
    /// Its lost attempt may have committed, and its target has not said so yet.
    Resolving,
}

/// A resource that a task waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceBlocker {
    /// Its name.
    pub resource: Arc<str>,
    /// How the task would use it.
    pub mode: Mode,
    /// Permits there are; `None`: it does not exist any more.
    pub capacity: Option<u32>,
    /// Place in line, from 1. Tasks of one scheduler and order that want the same have one.
    pub position: u64,
    /// Some of those that hold it, oldest first.
    pub holders: Vec<Holder>,
}

impl Blocker {
    /// It wants nothing but a slot, as far as this goes.
    pub fn is_about_slots(&self) -> bool {
        matches!(
            self,
            Blocker::NoExecutor | Blocker::Away | Blocker::Slots { .. } | Blocker::Share(_)
        )
    }
}

/// A scheduler's place among those that wait for a kind of slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Namespaces that are next before its own.
    pub namespaces: usize,
    /// Schedulers of its namespace that are next before it.
    pub schedulers: usize,
    /// False: there are more than were counted.
    pub exact: bool,
    /// Slots that its namespace holds.
    pub held_by_namespace: u32,
    /// Slots that it holds itself.
    pub held: u32,
}
