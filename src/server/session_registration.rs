//! Writes the executor's database sessions into the register, where the owner of the shard finds
//! them when it has to fence this executor. A session may run a statement only once it is
//! registered: the executor waits for the acknowledgement that is sent from here. Sessions whose
//! end cannot be shown are noted there too, for operators.

use crate::{
    executor::{Session, SessionNote},
    journal::{self, JournalError, Sessions},
};
use std::{collections::HashMap, sync::Arc};
use tokio::sync::{mpsc, oneshot};

/// Session notes that may wait to be written.
const QUEUED_NOTES: usize = 256;
/// Sessions of a target that are kept in mind for a registration that has failed: they have no row,
/// most likely, and there may be many while the database is away.
const MAX_FAILED: usize = 128;

/// Starts the task that writes session notes; returns where the executor sends them.
pub(super) fn spawn(sessions: Sessions) -> mpsc::Sender<SessionNote> {
    let (notes, mut received) = mpsc::channel(QUEUED_NOTES);
    tokio::spawn(async move {
        let mut register = Register {
            sessions,
            over: HashMap::new(),
        };
        while let Some(note) = received.recv().await {
            if let Err(error) = register.write(note).await {
                tracing::warn!(%error, "cannot write the register of sessions");
            }
        }
    });
    notes
}

struct Register {
    sessions: Sessions,
    /// Sessions that are over and may still have their rows, by target: the last one, which shows
    /// that something may have run there until another one does, and those that the database has
    /// not let go. An owner that fences this executor would wait for their end, which cannot be
    /// shown once the target has moved.
    over: HashMap<Arc<str>, Vec<Session>>,
}

impl Register {
    async fn write(&mut self, note: SessionNote) -> Result<(), JournalError> {
        match note {
            SessionNote::Register { session, done } => self.register(session, done).await,
            SessionNote::Forget(session) => self.let_go(session).await,
            SessionNote::Pending {
                session,
                why,
                declared_dead,
            } => self.note_pending(session, &why, declared_dead).await,
        }
    }

    async fn note_pending(
        &self,
        session: Session,
        why: &str,
        answer: oneshot::Sender<bool>,
    ) -> Result<(), JournalError> {
        let (target, pid, start) = (&session.target, session.pid, session.backend_start);
        let declared = self.sessions.note_pending(target, pid, start, why).await?;
        // Who no longer waits asks again.
        if declared.is_none() && !answer.is_closed() {
            // Lost with its database, perhaps. Who waits shows it, for operators to decide.
            self.enter_again(&session).await?;
            self.sessions.note_pending(target, pid, start, why).await?;
        }
        let _ = answer.send(declared.unwrap_or(false));
        Ok(())
    }

    /// As a session of the executor that opened it: what is entered as one of this executor is
    /// forgotten when it leaves, and no later owner asks for it before this one is fenced.
    async fn enter_again(&self, session: &Session) -> Result<(), JournalError> {
        let Some(host) = session.host else {
            let (server, slot) = (session.postmaster.as_ref(), session.slot);
            let (target, pid, start) = (&session.target, session.pid, session.backend_start);
            let registered = self.sessions.register(target, slot, pid, start, server);
            return registered.await.map(drop);
        };
        let lost = journal::Session {
            replica: host.replica,
            incarnation: host.incarnation,
            target: session.target.clone(),
            slot: session.slot,
            backend_pid: session.pid,
            backend_start: session.backend_start,
            postmaster: session.postmaster.clone(),
        };
        self.sessions.enter_again(&lost).await
    }

    async fn register(
        &mut self,
        session: Session,
        done: oneshot::Sender<()>,
    ) -> Result<(), JournalError> {
        let registered = self.sessions.register(
            &session.target,
            session.slot,
            session.pid,
            session.backend_start,
            session.postmaster.as_ref(),
        );
        match registered.await {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => {
                // Its row may be there.
                self.keep(session, MAX_FAILED);
                return Err(error);
            }
        }
        let target = session.target.clone();
        if done.send(()).is_err() {
            // Nothing runs on it: its slot no longer waits, and opens another one.
            return self.let_go(session).await;
        }
        let mut over = self.over.remove(&target).unwrap_or_default();
        while let Some(session) = over.pop() {
            let (pid, start) = (session.pid, session.backend_start);
            // Another row is there by now: what has none any more needs nothing.
            if let Err(error) = self.sessions.let_go(&target, pid, start).await {
                over.push(session);
                self.over.insert(target, over);
                return Err(error);
            }
        }
        Ok(())
    }

    async fn let_go(&mut self, session: Session) -> Result<(), JournalError> {
        let (target, pid, start) = (&session.target, session.pid, session.backend_start);
        let gone = self.sessions.let_go(target, pid, start).await;
        if !matches!(gone, Ok(true)) {
            self.keep(session, usize::MAX);
        }
        gone.map(drop)
    }

    /// Keeps it in mind, unless there are so many of its target.
    fn keep(&mut self, session: Session, most: usize) {
        let over = self.over.entry(session.target.clone()).or_default();
        if over.len() < most {
            over.push(session);
        }
    }
}
