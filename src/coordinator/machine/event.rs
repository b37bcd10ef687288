//! What goes into the machine and what comes out of it.

use super::envelope::Envelope;
use crate::{
    core::{
        Action, Attempt, BatchNo, Command, Epoch, Handle, InDoubtWindow, Progress, RecoveredJobs,
        RecoveredResources, RecoveredScheduler, RequestMemory, Seq, Shard, Tally, TargetPause,
    },
    journal::{Batch, Commit},
};
use std::{sync::Arc, time::Duration};

/// Something that happened to the loop.
#[derive(Debug)]
pub enum Event {
    /// A command came in.
    Command(Envelope),
    /// The outcome of the batch in flight.
    Commit(BatchNo, Commit),
    /// The journal has been read, under a new epoch.
    Recovered {
        schedulers: Vec<RecoveredScheduler>,
        /// Pauses of targets that are in force.
        pauses: Vec<TargetPause>,
        /// Resources, and claims that are open or remembered.
        resources: RecoveredResources,
        /// Jobs, and runs that are not over.
        jobs: Box<RecoveredJobs>,
        epoch: Epoch,
        /// The last batch in the journal.
        last_batch: BatchNo,
        /// For how long calls may be repeated.
        memory: RequestMemory,
        /// What replicas that owned the shard since may have been running; `None`: no other one
        /// did.
        window: Option<InDoubtWindow>,
    },
    /// Another replica owns the shard.
    Deposed,
}

impl Event {
    /// A command that nobody waits for.
    pub(crate) fn internal(command: Command) -> Self {
        Event::Command(Envelope {
            ticket: None,
            command,
        })
    }

    pub(crate) fn is_recovery(&self) -> bool {
        matches!(self, Event::Recovered { .. })
    }
}

/// Something the loop wants done, in this order.
#[derive(Debug)]
pub enum Effect {
    /// Append this batch, after a pause (zero unless the batch is sent again).
    Append(Arc<Batch>, Duration),
    /// These are durable: release what waited for them.
    Release(Release),
    /// This core is of no use any more. To drop one of millions of tasks takes a while.
    Discard(Box<Shard>),
    /// There is no core: take the shard over again, recover, and send [`Event::Recovered`].
    Recover,
    /// Another replica owns the shard: every waiting caller and every stream must go there, and no
    /// assignment of this loop is valid any more.
    StandBy,
}

/// What a durable batch releases.
#[derive(Debug)]
pub struct Release {
    /// The batch, when it had records.
    pub batch: Option<Arc<Batch>>,
    pub actions: Vec<Action>,
    /// How far each touched scheduler is.
    pub progress: Vec<(Handle, Progress)>,
    /// Assignments with a session whose completion is durable.
    pub over: Vec<(Handle, Seq, Attempt)>,
    /// What the batch did, in numbers.
    pub tally: Tally,
}
