//! What the core wants done once the records of its batch are durable.

use super::{
    Attempt, Handle, Namespace, Order, Reply, Seq, SessionReset, Spec, Ticket, Time, Token, Work,
};
use std::sync::Arc;

/// Something to do, released only when the records of its batch are durable.
#[derive(Clone, Debug)]
pub enum Action {
    /// Answer a command.
    Reply(Ticket, Reply),
    /// Run these tasks.
    Dispatch(Assignment),
    /// Stop an assignment; its completion reports what came first.
    Stop {
        /// Which scheduler.
        handle: Handle,
        /// The assignment's first task.
        first: Seq,
        /// Its attempt.
        attempt: Attempt,
    },
    /// Find out from its target what became of a task that runs nowhere any more. The answer is a
    /// completion: that of its marker, or [`super::Report::Lost`].
    Resolve(Unresolved),
}

/// An exactly-once attempt that was lost, and may have committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// Its scheduler.
    pub handle: Handle,
    /// Its task.
    pub seq: Seq,
    /// Its number.
    pub attempt: Attempt,
    /// Where it ran.
    pub work: Work,
}

/// Tasks handed to an executor: one, or for work without a session several consecutive ones, which
/// end alike.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// Their scheduler.
    pub handle: Handle,
    /// The first task.
    pub first: Seq,
    /// How many.
    pub count: u32,
    /// The attempt.
    pub attempt: Attempt,
    /// Their order.
    pub order: Option<Order>,
    /// What to run and how.
    pub spec: Arc<Spec>,
    /// Whose they are.
    pub namespace: Namespace,
    /// Who opened the scheduler.
    pub caller: Arc<str>,
    /// When the attempt must end at the latest: the time, and whether it is the total deadline
    /// (else the timeout).
    pub time_limit: Option<TimeLimit>,
    /// The total deadline, also where the timeout is nearer: a timeout counts from the start of the
    /// text, and a session may be long in coming.
    pub deadline: Option<Time>,
    /// The fencing token of its resources, if it has any.
    pub resource_token: Option<Token>,
    /// After what the session it runs on is cleaned.
    pub session_reset: SessionReset,
    /// No slot is free for it: it stands in line at its executor until more than this many are, or
    /// is given back. `None`: a slot is free for it.
    pub leaves_free: Option<u32>,
}

/// When an attempt must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLimit {
    /// So long after its start.
    Timeout(std::time::Duration),
    /// At this time: the task's total deadline.
    Deadline(Time),
}

impl Assignment {
    /// Whether its attempt had a row before it was handed out, whoever owned the shard: then no
    /// other hand-out has the number of this one, so that it can be told from all others. A first
    /// attempt may also have one because its task passed others that were in doubt.
    pub fn is_numbered(&self) -> bool {
        let records_start = self.spec.work.has_session() && self.spec.options.records_start();
        self.attempt > Attempt(1) || records_start
    }
}
