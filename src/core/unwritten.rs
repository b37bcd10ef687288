//! What a batch has decided and the journal does not hold yet, as far as it matters for the start
//! of tasks.
//!
//! A task that depends on none of it may start before the batch is durable. What is not told apart
//! here keeps a whole scheduler waiting: that costs it a commit, and never a promise.

use super::{Handle, Order, Seq, fairness::slot_kinds::KindId};
use rustc_hash::FxHashMap;

/// The changes of one batch.
#[derive(Debug, Default)]
pub struct Unwritten {
    schedulers: FxHashMap<Handle, Changes>,
    /// Attempts whose end executors have reported, by kind.
    reported: FxHashMap<KindId, u32>,
    /// A pause of targets has ended.
    holds_everything: bool,
    /// It brings more than ends after which their schedulers go on, or a free slot waits for it.
    is_awaited: bool,
}

/// What has become of one scheduler.
#[derive(Debug, Default)]
struct Changes {
    /// Its row (settings, pause, halt, cancellation, release), or a task whose end or next attempt
    /// is not simply what its executor reported.
    holds_all: bool,
    /// Its first new task.
    new_from: Option<Seq>,
    /// The lowest order in which a task has ended.
    ended_in: Option<Order>,
}

impl Unwritten {
    /// Tasks from `first` on are new.
    pub(crate) fn submitted(&mut self, handle: Handle, first: Seq) {
        let changes = self.schedulers.entry(handle).or_default();
        changes.new_from.get_or_insert(first);
        self.is_awaited = true;
    }

    /// Tasks of this order have ended as their executor reported.
    pub(crate) fn ended(&mut self, handle: Handle, order: Option<Order>) {
        let changes = self.schedulers.entry(handle).or_default();
        changes.ended_in = match (changes.ended_in, order) {
            (Some(lowest), Some(order)) => Some(lowest.min(order)),
            (lowest, order) => lowest.or(order),
        };
    }

    /// Nothing of this scheduler starts before the batch is durable.
    pub(crate) fn hold(&mut self, handle: Handle) {
        self.schedulers.entry(handle).or_default().holds_all = true;
        self.is_awaited = true;
    }

    /// Nothing at all starts before the batch is durable.
    pub(crate) fn hold_everything(&mut self) {
        self.holds_everything = true;
        self.is_awaited = true;
    }

    pub(crate) fn holds_everything(&self) -> bool {
        self.holds_everything
    }

    /// An executor has reported the end of an attempt on a slot of this kind.
    pub(crate) fn reported(&mut self, kind: KindId) {
        *self.reported.entry(kind).or_default() += 1;
    }

    pub(crate) fn reports(&self, kind: KindId) -> u32 {
        self.reported.get(&kind).copied().unwrap_or(0)
    }

    /// The kinds of slots on which ends have been reported, and how many.
    pub(crate) fn all_reports(&self) -> impl Iterator<Item = (KindId, u32)> {
        self.reported.iter().map(|(kind, ends)| (*kind, *ends))
    }

    /// The next task of a scheduler waits for it, a free slot does, or a scheduler has no next
    /// task.
    pub(crate) fn awaited(&mut self) {
        self.is_awaited = true;
    }

    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// Whether the start of a task depends on it: on its submission, on the end of a lower order,
    /// or on anything else about its scheduler.
    pub(crate) fn concerns(&self, handle: Handle, seq: Seq, order: Option<Order>) -> bool {
        let Some(changes) = self.schedulers.get(&handle) else {
            return false;
        };
        let is_new = changes.new_from.is_some_and(|first| seq >= first);
        let follows =
            matches!((changes.ended_in, order), (Some(ended), Some(order)) if ended < order);
        changes.holds_all || is_new || follows
    }
}
