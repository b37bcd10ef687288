//! One executor in the pool, and the way to it.

use crate::{
    assignment::{Dispatch, ExecutorId, Snapshot, Token},
    core::{Epoch, Work},
    executor::Executor,
};
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::mpsc::{self, error::TrySendError};
use uuid::Uuid;

/// An executor as fences know it: a run of a replica, and how often it has begun afresh after a fence. Later ones are
/// greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Host {
    /// The run.
    pub replica: Uuid,
    /// From 1.
    pub incarnation: i32,
}

/// An executor that wants to work.
pub(crate) struct Joining {
    /// Its name in the pool.
    pub member: ExecutorId,
    /// Who it is.
    pub host: Host,
    /// The ownership it means to work for.
    pub epoch: Epoch,
    /// Its how manieth session, in the life of its process: what it says in an earlier one is older.
    pub session: u64,
    /// Of its replica.
    pub name: Arc<str>,
    /// What it has.
    pub snapshot: Snapshot,
    /// How it is told.
    pub route: Route,
}

/// Why an executor is not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is being fenced, and must come as somebody else.
    Fenced,
    /// What it says is older than what is known.
    Stale,
}

/// What an executor is told.
#[derive(Clone, Debug)]
pub enum Instruction {
    /// Run this.
    Run(Box<Dispatch>),
    /// Stop this; its completion tells what came first.
    Stop(Token),
    /// These completions are durable, or stale.
    Acknowledge(Vec<Token>),
}

/// The way to an executor.
#[derive(Clone)]
pub(crate) enum Route {
    /// It is in this process.
    Local(Executor),
    /// Through a session. Bounded: one that does not keep up is let go.
    Remote(mpsc::Sender<Instruction>),
    /// It is gone.
    Gone,
}

pub(crate) struct Member {
    pub host: Host,
    pub name: Arc<str>,
    pub slots: BTreeMap<Work, u32>,
    pub busy: BTreeMap<Work, u32>,
    route: Route,
}

impl Member {
    pub(crate) fn new(host: Host, name: Arc<str>, route: Route, slots: &[(Work, u32)]) -> Self {
        Member {
            host,
            name,
            slots: slots.iter().cloned().collect(),
            busy: BTreeMap::new(),
            route,
        }
    }

    pub(crate) fn is_local(&self) -> bool {
        matches!(self.route, Route::Local(_))
    }

    /// Its free slots; `None`: there are none.
    pub(crate) fn free(&self, work: &Work) -> Option<u32> {
        if matches!(self.route, Route::Gone) {
            return None;
        }
        let busy = self.busy.get(work).copied().unwrap_or(0);
        self.slots
            .get(work)
            .and_then(|total| total.checked_sub(busy))
            .filter(|free| *free > 0)
    }

    pub(crate) fn vacate(&mut self, work: &Work) {
        if let Some(busy) = self.busy.get_mut(work) {
            *busy = busy.saturating_sub(1);
        }
    }

    /// Never waits: who does not keep up is let go, and its session ends.
    pub(crate) fn send(&mut self, message: Instruction) {
        match &self.route {
            Route::Local(executor) => match message {
                Instruction::Run(order) => executor.dispatch(vec![*order]),
                Instruction::Stop(token) => executor.stop(token),
                Instruction::Acknowledge(tokens) => executor.acknowledge(&tokens),
            },
            Route::Remote(out) => match out.try_send(message) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => {
                    tracing::warn!(replica = %self.name, "its executor does not keep up with what it is told; it reports anew");
                    self.route = Route::Gone;
                }
                // Its session has just ended.
                Err(TrySendError::Closed(_)) => self.route = Route::Gone,
            },
            Route::Gone => {}
        }
    }
}
