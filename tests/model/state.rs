//! The state of the model: the database, the replicas, the messages between them, and one task.

pub(crate) const REPLICAS: usize = 2;

/// A line of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Record {
    /// Of an ownership that has begun.
    Begun,
    Submitted,
    /// By the attempt with this token.
    Ended(u8),
}

/// A batch of one record, under its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Batch {
    pub no: u8,
    pub epoch: u8,
    pub record: Record,
}

/// What an owner knows of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum View {
    Unknown,
    /// It may run somewhere.
    InDoubt,
    Queued,
    /// On a replica, under a token.
    Running(usize, u8),
    Ended,
}

/// An owner, or a replica that believes to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub epoch: u8,
    /// Batches known to be in the journal.
    pub durable: u8,
    /// Sent, and of unknown fate.
    pub in_flight: Option<Record>,
    pub task: View,
    /// Replicas that have reported or were fenced.
    pub cleared: [bool; REPLICAS],
    /// Crashed replicas were fenced.
    pub dead_cleared: bool,
}

/// What an executor does with the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Work {
    None,
    /// Under a token; its backend may have been ended.
    Running(u8),
    /// Done, and not yet known to be durable.
    Done(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Replica {
    pub owner: Option<Owner>,
    pub work: Work,
    /// The epoch in which it last reported.
    pub seen: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub epoch: u8,
    pub journal: Vec<Batch>,
    /// Reports of the present epoch.
    pub reports: [Option<Work>; REPLICAS],
    /// Replicas whose sessions were ended, and who may have no more under their old name.
    pub fenced: [bool; REPLICAS],
    pub replicas: [Replica; REPLICAS],
    /// Backends that run the task on the target: the token and the replica of the session. Numbers
    /// from `REPLICAS` on: replicas that have crashed.
    pub backends: Vec<(u8, usize)>,
    /// A send that may still arrive.
    pub limbo: Option<Batch>,
    /// Work on its way to an executor.
    pub dispatched: Option<(usize, u8)>,
    /// Tokens are never given twice: epoch and attempt in one number.
    pub next_token: u8,
    pub acknowledged_submit: bool,
    pub acknowledged_end: bool,
    pub starts: u8,
    /// Attempts that were lost with their host or ended by a fence.
    pub losses: u8,
    pub crashes: u8,
    /// A write of a former owner was refused.
    pub refused: bool,
    /// An attempt went on under a new owner, and ended the task.
    pub adopted: bool,
    /// A batch of unknown outcome was recognised.
    pub recognised: bool,
    /// A batch of an older epoch was taken.
    pub stale_write: bool,
    /// A task ended by an attempt that was not the live one.
    pub wrong_end: bool,
}

impl State {
    /// The first replica owns the shard, and everybody knows.
    pub(crate) fn new() -> State {
        let owner = Owner {
            epoch: 1,
            durable: 0,
            in_flight: None,
            task: View::Unknown,
            cleared: [true; REPLICAS],
            dead_cleared: true,
        };
        let replica = Replica {
            owner: None,
            work: Work::None,
            seen: 1,
        };
        let mut replicas = [replica; REPLICAS];
        replicas[0].owner = Some(owner);
        State {
            epoch: 1,
            journal: Vec::new(),
            reports: [Some(Work::None); REPLICAS],
            fenced: [false; REPLICAS],
            replicas,
            backends: Vec::new(),
            limbo: None,
            dispatched: None,
            next_token: 1,
            acknowledged_submit: false,
            acknowledged_end: false,
            starts: 0,
            losses: 0,
            crashes: 0,
            refused: false,
            adopted: false,
            recognised: false,
            stale_write: false,
            wrong_end: false,
        }
    }

    pub(crate) fn holds(&self, wanted: impl Fn(&Record) -> bool) -> bool {
        self.journal.iter().any(|batch| wanted(&batch.record))
    }
}
