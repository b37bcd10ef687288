//! What recovery reads from the journal and hands to the core: checkpoints and what came later,
//! never bodies.

use crate::core::{
    AttemptRecord, DoneNo, Order, Outcome, Request, RetryOf, SchedulerImage, Seq, Spec, Time, Work,
};
use std::{collections::BTreeMap, sync::Arc};

/// One scheduler as the journal knows it.
#[derive(Clone, Debug)]
pub struct RecoveredScheduler {
    /// Its row, with the checkpoint.
    pub image: SchedulerImage,
    /// Whether an owner since its opening could not read it. What executors reported to that owner
    /// is not on record, and they do not report it again.
    pub was_set_aside: bool,
    /// Every submission that holds a task unfinished at the checkpoint or is later, by ascending
    /// `first_seq`.
    pub runs: Vec<RecoveredRun>,
    /// Every outcome after the checkpoint's `done_no`, ascending.
    pub outcomes: Vec<RecoveredOutcome>,
    /// The copies among the tasks in `runs`, in any sequence.
    pub copies: Vec<(Seq, RetryOf)>,
    /// Attempts of the tasks in `runs`, in any sequence.
    pub attempts: Vec<AttemptRecord>,
    /// Requests that may be repeated ([`crate::core::RequestMemory`]).
    pub requests: Vec<RecoveredRequest>,
}

/// How many tasks of each kind the earlier owners of a shard may have been running, or have seen
/// end without having that on record.
pub type InDoubtWindow = BTreeMap<Work, u32>;

/// Consecutive tasks of one order and spec.
#[derive(Clone, Debug, PartialEq)]
pub struct RecoveredRun {
    /// The first.
    pub first: Seq,
    /// How many.
    pub count: u32,
    /// The order in force.
    pub order: Option<Order>,
    /// With defaults filled in.
    pub spec: Arc<Spec>,
    /// When they were submitted.
    pub submitted_at: Time,
    /// What each counts for in the quota of bytes, as [`crate::core::blocks`] says for its call.
    pub blocks: u32,
}

/// Consecutive events of tasks that ended alike.
#[derive(Clone, Debug, PartialEq)]
pub struct RecoveredOutcome {
    /// Number of the first event.
    pub done_no: DoneNo,
    /// The first task.
    pub first: Seq,
    /// How many.
    pub count: u32,
    /// How they ended.
    pub outcome: Outcome,
}

/// An accepted call that may be repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct RecoveredRequest {
    /// The caller's name for it.
    pub request: Request,
    /// The first task it was given.
    pub first_seq: Seq,
    /// How many.
    pub count: u32,
    /// The last event before it.
    pub done_no: DoneNo,
    /// When it was accepted.
    pub at: Time,
}
