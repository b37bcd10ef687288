//! What is cleared on behalf of an executor that is gone: the sessions it had on one target, until
//! what follows from their end is durable.

use crate::{
    core::{Unreported, Work},
    executor_protocol::Host,
    journal::Session,
};

/// Why an executor is fenced and its sessions are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A takeover: it has not reported to the new owner.
    Takeover,
    /// It had reported, and its session has ended for good.
    Lost(Host),
}

/// The sessions of fenced executors for one kind of work, until what follows from their end is
/// durable.
#[derive(Debug)]
pub(super) struct Clearing {
    pub(super) cause: Cause,
    pub(super) work: Work,
    pub(super) sessions: Vec<Session>,
    /// Those not known to have ended.
    pub(super) open: usize,
}

impl Clearing {
    /// What became of the tasks that nobody reported: without a session none can have begun.
    pub(super) fn unreported(&self) -> Unreported {
        match self.sessions.is_empty() {
            true => Unreported::NotBegun,
            false => Unreported::MayHaveBegun,
        }
    }
}
