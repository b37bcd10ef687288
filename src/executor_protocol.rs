//! What an owner and its executors exchange: assignments one way, reports the other. Types only.
//!
//! Every assignment carries the token of its owner, so that nobody mistakes one ownership for
//! another.

use crate::core::{Assignment, Completion, Epoch, Running, Time, Work};
use bytes::Bytes;
use std::{fmt, sync::Arc};
use tokio::sync::mpsc;
use uuid::Uuid;

/// Tasks that an executor keeps in line for each slot while tasks are short, so that a slot goes on
/// without a word of the owner.
pub const LINE_PER_SLOT: u32 = 2;

/// Tasks of one slot that may be unfinished by the journal although they have begun: the one that
/// runs, those in line behind it, and those before it whose ends are not durable yet. The register
/// of executors counts so many for each slot, and a new owner takes so many to be in doubt.
pub const BEGUN_PER_SLOT: u32 = 16;

/// An executor as fences name it: the run of a replica, and how often it has begun afresh after a
/// fence. Later incarnations are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Host {
    pub replica: Uuid,
    /// From 1.
    pub incarnation: i32,
}

/// One start of the Postgres server of a target, by which a fence knows that it asks the right one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Postmaster {
    /// Identifies its data, and those of its standbys.
    pub system: i64,
    /// As the server sees it; `None`: a Unix socket.
    pub address: Option<Arc<str>>,
    pub port: i32,
    pub started: Time,
}

impl Postmaster {
    /// Whether both are the same start of the same server, whichever way it was reached.
    pub fn is(&self, other: &Postmaster) -> bool {
        (self.system, self.started) == (other.system, other.started)
    }

    /// Whether `present` is a later start of this server: Postgres does not start on data that an
    /// earlier backend still uses. Another address may be another machine with a copy of the data.
    pub fn ended_before(&self, present: &Postmaster) -> bool {
        let place = |one: &Postmaster| (one.system, one.address.clone(), one.port);
        place(self) == place(present) && self.started != present.started
    }
}

impl fmt::Display for Postmaster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address.as_deref().unwrap_or("a Unix socket");
        let Postmaster { system, port, .. } = self;
        write!(f, "{address} port {port} (system {system})")
    }
}

/// What an executor says first in a session.
#[derive(Clone, Debug)]
pub struct Hello {
    pub host: Host,
    /// The ownership it means to work for.
    pub epoch: Epoch,
    /// Session number within this process; lower numbers are stale.
    pub session: u64,
    /// Name of its replica, for people.
    pub name: Arc<str>,
    pub snapshot: Snapshot,
}

/// The answer to a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It works for this owner, who calls it by this id.
    Admitted(ExecutorId),
    /// It has been fenced: it must give up what it has and come as its next incarnation.
    Fenced,
    /// The shard is not owned here, or not yet, or the hello is stale.
    NotNow,
}

/// What an owner tells an executor.
#[derive(Clone, Debug)]
pub enum Instruction {
    Run(Box<Dispatch>),
    /// Its completion tells what came first, the stop or the end.
    Stop(Token),
    /// These completions are durable, or stale.
    Acknowledge(Vec<Token>),
}

/// What an owner calls an assignment: nobody else's has the same, in this ownership or another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token {
    /// The ownership.
    pub epoch: Epoch,
    /// Its number there.
    pub serial: u64,
}

/// An assignment for an executor.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// As the owner calls it.
    pub token: Token,
    /// What is to be run.
    pub assignment: Assignment,
    /// It stands in line until more slots than these are free there, or a task ends. `None`: a slot
    /// is free for it, or is about to be.
    pub leaves_free: Option<u32>,
    /// The statement.
    pub body: Body,
}

/// What a task brings besides its assignment.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// The statement.
    pub payload: Bytes,
    /// JSON array of text or null, one per parameter.
    pub params: Option<Bytes>,
}

/// What the executor tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// It has so many slots (0: the target is away).
    Slots {
        /// For what.
        work: Work,
        /// How many, busy ones included.
        total: u32,
    },
    /// An assignment has ended.
    Completed(Token, Completion),
}

/// Names an executor among those of an owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExecutorId(pub u64);

/// What an executor tells the owner.
#[derive(Debug)]
pub struct ExecutorReport {
    /// Who, as the owner calls it.
    pub member: ExecutorId,
    /// What.
    pub events: Vec<Event>,
    /// Its session has ended: nothing more comes from it.
    pub ended: bool,
}

impl ExecutorReport {
    /// What an executor says while its session lasts.
    pub fn of(member: ExecutorId, events: Vec<Event>) -> Self {
        ExecutorReport {
            member,
            events,
            ended: false,
        }
    }

    /// The end of a session. It travels behind what was said in it, so that a report which has
    /// arrived counts even when its executor dies at once.
    pub fn end_of(member: ExecutorId) -> Self {
        ExecutorReport {
            member,
            events: Vec::new(),
            ended: true,
        }
    }
}

/// The way to the owner of the shard.
#[derive(Clone, Debug)]
pub struct Link {
    /// The ownership. Assignments of an older one are not taken any more.
    pub epoch: Epoch,
    /// What the owner calls this executor.
    pub member: ExecutorId,
    /// Where it listens.
    pub out: mpsc::Sender<ExecutorReport>,
}

/// All that an owner must know of an executor.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Its slots, busy ones included.
    pub slots: Vec<(Work, u32)>,
    /// How many tasks each of them counts for in the register of executors; 0: an older version,
    /// one.
    pub begun_per_slot: u32,
    /// How many tasks it keeps in line for each of them.
    pub line_per_slot: u32,
    /// What it runs, or has done without an acknowledgement.
    pub attempts: Vec<HeldAssignment>,
    /// Of those, the completions.
    pub completions: Vec<(Token, Completion)>,
}

/// An assignment that an executor keeps.
#[derive(Clone, Debug)]
pub struct HeldAssignment {
    /// As the owner called it.
    pub token: Token,
    /// Which tasks, and since when.
    pub running: Running,
    /// On which kind of slot.
    pub work: Work,
}
