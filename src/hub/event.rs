//! What happens to the hub, and what it wants done. Types only: whoever runs the machine carries
//! the effects out in their order and feeds back what became of them.

use crate::{
    core::{
        Assignment, Attempt, Command, Completion, Epoch, Handle, Report, Seq, Time, Unresolved,
        Work,
    },
    executor_protocol::{Admission, Body, ExecutorId, ExecutorReport, Hello, Host, Instruction},
    journal::Session,
};
use std::time::Duration;
use uuid::Uuid;

/// When something happens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// Database time, for what is recorded.
    pub time: Time,
    /// Monotonic time of this process, for timeouts.
    pub uptime: Duration,
}

/// Names a request of the hub until its answer arrives. Never used twice in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestNo(pub u64);

/// Something that happened to the hub.
#[derive(Debug)]
pub enum Event {
    /// An ownership begins.
    Begin {
        epoch: Epoch,
        /// Kinds of work that earlier owners may have handed out; `None`: nobody else has owned the
        /// shard since the last ownership, and all executors go on.
        inherited: Option<Vec<Work>>,
        /// The id of the executor of this process, if it joins.
        member: ExecutorId,
    },
    /// The shard is another replica's.
    Disband,
    /// The executor of this process works for this ownership from now on.
    Attached(ExecutorId, Hello),
    /// An executor of another replica wants to work, and is called so if it is admitted.
    Hello(ExecutorId, Hello),
    /// An executor has reported, or its session has ended.
    Report(ExecutorReport),
    /// An executor does not take what it is sent; its session ends.
    Unreachable(ExecutorId),
    /// These assignments of a durable batch are to be handed out, with their bodies.
    Dispatch(Vec<(Assignment, Option<Body>)>),
    /// Stop an assignment; its completion tells what came first.
    Stop {
        handle: Handle,
        first: Seq,
        attempt: Attempt,
    },
    /// An assignment is not handed out after all.
    Decline(Assignment, Report),
    /// A target is to say what became of a task that runs nowhere any more.
    Resolve(Unresolved),
    /// The completions of these are durable: executors need not keep them.
    Over(Vec<(Handle, Seq, Attempt)>),
    /// A request has been answered.
    Answered(RequestNo, Answer),
    /// A timer has gone off.
    TimePassed,
}

/// The answer to a request.
#[derive(Debug)]
pub enum Answer {
    /// To [`RegisterRequest::NotFenced`].
    Executors(Vec<Enrolled>),
    /// To [`RegisterRequest::SessionsOfFenced`].
    Sessions(Vec<Session>),
    /// To [`RegisterRequest::IsFenced`], and to [`RegisterRequest::Fence`]: whether it is fenced
    /// now.
    Fenced(bool),
    /// To [`Effect::Resolve`]: how it ended.
    Resolved(Completion),
    /// It is done.
    Done,
    /// It failed, or its answer was lost: it is to be tried again.
    Failed,
}

/// An executor that is not fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enrolled {
    /// The run of a server.
    pub replica: Uuid,
    pub incarnation: i32,
    pub life: Life,
}

/// What is known of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Its heartbeats go on.
    Alive,
    /// It has had no heartbeat for long, or it is an earlier run of this replica.
    Silent,
    /// It is gone: nothing more comes from it.
    Ended,
}

/// Something the hub wants done.
#[derive(Debug)]
pub enum Effect {
    /// The coordinator's loop must know.
    Command(Command),
    /// The loop must know, and answer when everything up to this is durable.
    Ask(RequestNo, Command),
    /// Tell an executor.
    Send(ExecutorId, Instruction),
    /// Nothing more is sent to this executor.
    HangUp(ExecutorId),
    /// The executor of this process is to work for this ownership: answered by [`Event::Attached`],
    /// or not at all when it works for a younger owner.
    Attach(ExecutorId, Epoch),
    /// Answer a hello.
    Admit(ExecutorId, Admission),
    /// Read or write the register of executors and sessions.
    Register(RequestNo, RegisterRequest),
    /// End a session on its target. Answered when it is known to have ended, however long that
    /// takes.
    EndSession(RequestNo, Session),
    /// Ask a target for the marker of a task. Answered when it has said, however long that takes.
    Resolve(RequestNo, Unresolved),
    /// Say [`Event::TimePassed`] after so long.
    Wake(Duration),
    /// What is under way on behalf of the ownership ends with it; its answers are ignored.
    EndOfOwnership,
}

/// Something asked of the register of executors and sessions.
#[derive(Clone, Debug)]
pub enum RegisterRequest {
    /// The executors of other replicas that are not fenced, and whether they live.
    NotFenced,
    /// Whether this executor is fenced.
    IsFenced(Host),
    /// From now on this executor opens no more sessions. Refused to whoever is not the owner any
    /// more.
    Fence(Host, Epoch),
    /// Sessions of fenced executors.
    SessionsOfFenced,
    /// Forget a session that has ended.
    Forget(Session),
}
