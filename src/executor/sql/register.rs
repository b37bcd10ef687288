//! The executor's way to the register of sessions, which outlives it.
//!
//! Invariant: no task runs on a session that is not durably registered, so that a new owner can end
//! it; and nobody waits for the end of a session without the register showing why.

use crate::{
    core::Time,
    executor_protocol::{Host, Postmaster},
};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot,
    },
    time::timeout,
};

/// How long the register may take to note that the end of a session is awaited.
const NOTE_TIMEOUT: Duration = Duration::from_secs(10);

/// A backend of a target that runs our tasks, as the register knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The executor that opened it; `None`: this one.
    pub host: Option<Host>,
    pub target: Arc<str>,
    pub slot: u32,
    /// Process id of the backend.
    pub pid: i32,
    /// When the backend started: process ids are reused.
    pub backend_start: Time,
    /// The server it runs on; `None`: a version that did not record it has registered it.
    pub postmaster: Option<Postmaster>,
}

/// For the register of sessions.
#[derive(Debug)]
pub enum SessionNote {
    /// Record it durably, then answer. Dropping `done` unanswered refuses the session.
    Register {
        session: Session,
        done: oneshot::Sender<()>,
    },
    /// It has ended, or will never run anything again.
    Forget(Session),
    /// Its end is awaited and cannot be shown, for this reason.
    Pending {
        session: Session,
        why: String,
        /// The answer: an operator has declared it dead.
        declared_dead: oneshot::Sender<bool>,
    },
}

/// A session could not be registered, and so must not be used.
#[derive(Debug, thiserror::Error)]
#[error("the coordination database did not register a session")]
pub(crate) struct Unregistered;

/// Where notes go; `None`: nobody keeps a register.
#[derive(Clone, Debug)]
pub(crate) struct Register(Option<mpsc::Sender<SessionNote>>);

impl Register {
    pub(crate) fn new(notes: Option<mpsc::Sender<SessionNote>>) -> Self {
        Register(notes)
    }

    /// Returns when the session is durably registered.
    pub(crate) async fn register(&self, session: &Session) -> Result<(), Unregistered> {
        let Some(notes) = &self.0 else {
            return Ok(());
        };
        let (done, registered) = oneshot::channel();
        let session = session.clone();
        let note = SessionNote::Register { session, done };
        notes.send(note).await.map_err(|_| Unregistered)?;
        registered.await.map_err(|_| Unregistered)
    }

    /// It need not be kept. Nobody waits for that: many may end at once.
    pub(crate) fn forget(&self, session: Session) {
        let Some(notes) = &self.0 else {
            return;
        };
        if let Err(TrySendError::Full(note)) = notes.try_send(SessionNote::Forget(session)) {
            let notes = notes.clone();
            // While the database takes nothing none is registered, so there are few of them.
            tokio::spawn(async move { notes.send(note).await.ok() });
        }
    }

    /// Notes why the end of a session cannot be shown. Returns whether an operator has declared it
    /// dead; false as long as the register does not answer.
    pub(crate) async fn is_declared_dead(&self, session: &Session, why: String) -> bool {
        let Some(notes) = &self.0 else {
            return false;
        };
        let (declared_dead, answer) = oneshot::channel();
        let note = SessionNote::Pending {
            session: session.clone(),
            why,
            declared_dead,
        };
        let asked = async { notes.send(note).await.is_ok() && answer.await.unwrap_or(false) };
        timeout(NOTE_TIMEOUT, asked).await.unwrap_or(false)
    }
}
