//! Who still runs what: the roll call after a takeover, and the fence for an executor that is gone.
//!
//! Invariant: a task that may have run on a host is given back only when that host has reported, or can open no more
//! sessions and those it had are known to have ended; and a session is forgotten only when what follows from its end is
//! durable, so that the next owner would fence it again. Everything here ends with the ownership.

use super::pool::{Host, Joining, Pool};
use crate::coordinator::commands::{NoReply, WeakCommandSender};
use crate::{
    assignment::ExecutorId,
    core::{Command, Epoch, InDoubtWindow, Work},
    executor::{self, Executor},
    journal::{Enrolled, JournalError, Session, Sessions},
};
use futures_util::future::join_all;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};

/// How long an executor may take to report to a new owner, or to come back: two heartbeats and a bit.
const PATIENCE: Duration = Duration::from_millis(2_500);
/// An executor that was not seen for so long is not waited for.
const LATELY: Duration = Duration::from_secs(3);
/// Between looks at who has reported.
const LOOK: Duration = Duration::from_millis(10);
/// Before what failed is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// Something about executors that the loop must know.
pub(crate) enum ExecutorChange {
    /// One wants to work; the answer says whether it may.
    Join(Joining, oneshot::Sender<bool>),
    /// The way to one is gone.
    Leave(ExecutorId),
    /// Nothing of a kind runs any more that a lost one was given.
    Fenced {
        /// Which one.
        host: Host,
        /// Which kind.
        work: Work,
        /// Some of it may have run.
        began: bool,
        /// To be answered when the loop has taken it in.
        taken: oneshot::Sender<()>,
    },
}

/// What it needs. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Fencing {
    pub pool: Pool,
    pub executor: Executor,
    pub sessions: Sessions,
    pub changes: mpsc::Sender<ExecutorChange>,
    pub commands: WeakCommandSender,
}

impl Fencing {
    /// Before the journal is read by a new owner: what others may have been running. An executor that was fenced meanwhile
    /// begins afresh.
    pub(crate) async fn prepare(&self) -> Result<InDoubtWindow, JournalError> {
        self.sessions
            .begin_afresh(|| self.executor.give_up())
            .await?;
        self.sessions.window().await
    }

    /// After a takeover: waits for those who live, fences the others, and tells the core kind by kind that nothing else runs.
    pub(crate) async fn call(self, since: Epoch, works: Vec<Work>) {
        let end = Instant::now() + PATIENCE;
        let others = insist(|| self.sessions.others(LATELY)).await;
        join_all(
            others
                .into_iter()
                .map(|other| self.wait_or_fence(other, end)),
        )
        .await;
        let mut left: BTreeMap<Work, Vec<Session>> =
            works.into_iter().map(|work| (work, Vec::new())).collect();
        for session in insist(|| self.sessions.of_fenced()).await {
            // What one has left who had reported is for those who bury it.
            if self.pool.was_here(Host {
                replica: session.replica,
                incarnation: session.incarnation,
            }) {
                continue;
            }
            left.entry(Work::Sql {
                target: session.target.clone(),
            })
            .or_default()
            .push(session);
        }
        join_all(
            left.into_iter()
                .map(|(work, sessions)| self.clear(since, work, sessions)),
        )
        .await;
    }

    async fn wait_or_fence(&self, other: Enrolled, end: Instant) {
        let host = Host {
            replica: other.replica,
            incarnation: other.incarnation,
        };
        while other.alive && Instant::now() < end && !self.pool.has_reported(host) {
            sleep(LOOK).await;
        }
        if !self.pool.has_reported(host) && self.pool.shut_out(host) {
            tracing::warn!(replica = %host.replica, "an executor has not reported; its sessions are ended");
            self.fence(host).await;
        }
    }

    /// Only the present owner fences: who has been overtaken must not shut out who works for another one by now. It tries until
    /// its ownership ends, which ends this.
    async fn fence(&self, host: Host) {
        while !insist(|| {
            self.sessions
                .fence(host.replica, host.incarnation, self.pool.epoch())
        })
        .await
        {
            sleep(RETRY).await;
        }
    }

    async fn clear(&self, since: Epoch, work: Work, sessions: Vec<Session>) {
        join_all(sessions.iter().map(|session| self.end(session))).await;
        let lost = !sessions.is_empty();
        self.ask(|| Command::Cleared {
            work: Some(work.clone()),
            lost,
            since,
        })
        .await;
        self.forget(sessions).await;
    }

    /// An executor that had reported is gone: unless it comes back soon it is fenced, and what it was given goes to others.
    pub(crate) async fn gone(self, host: Host) {
        sleep(PATIENCE).await;
        if !self.pool.shut_out(host) {
            return;
        }
        self.fence(host).await;
        let mut left: BTreeMap<Work, Vec<Session>> = self
            .pool
            .given_to(host)
            .into_iter()
            .map(|work| (work, Vec::new()))
            .collect();
        let fenced = insist(|| self.sessions.of_fenced()).await;
        // Those it had before it began afresh are for the roll call.
        let its = |session: &Session| {
            (session.replica, session.incarnation) == (host.replica, host.incarnation)
        };
        for session in fenced.into_iter().filter(its) {
            left.entry(Work::Sql {
                target: session.target.clone(),
            })
            .or_default()
            .push(session);
        }
        if !left.is_empty() {
            tracing::warn!(replica = %host.replica, "an executor is lost; what it ran goes to others");
        }
        join_all(
            left.into_iter()
                .map(|(work, sessions)| self.bury(host, work, sessions)),
        )
        .await;
    }

    async fn bury(&self, host: Host, work: Work, sessions: Vec<Session>) {
        join_all(sessions.iter().map(|session| self.end(session))).await;
        let (taken, answer) = oneshot::channel();
        let change = ExecutorChange::Fenced {
            host,
            work,
            began: !sessions.is_empty(),
            taken,
        };
        if self.changes.send(change).await.is_err() || answer.await.is_err() {
            return;
        }
        // An answer of the core is given when everything before it is durable.
        self.ask(|| Command::Status).await;
        self.forget(sessions).await;
    }

    async fn end(&self, session: &Session) {
        let Session {
            target,
            slot,
            backend_pid,
            backend_start,
            ..
        } = session.clone();
        let session = executor::Session {
            target,
            slot,
            pid: backend_pid,
            backend_start,
        };
        self.executor.end_session(&session).await;
    }

    async fn forget(&self, sessions: Vec<Session>) {
        for session in sessions {
            insist(|| {
                self.sessions
                    .forget(&session.target, session.backend_pid, session.backend_start)
            })
            .await;
        }
    }

    /// Asks the loop until it answers, which it does when the answer rests on what is durable.
    async fn ask(&self, command: impl Fn() -> Command) {
        while let Err(NoReply::Dropped) = self.commands.call(command()).await {
            sleep(RETRY).await;
        }
    }
}

/// Tries until the register of sessions answers.
async fn insist<T, F: Future<Output = Result<T, JournalError>>>(ask: impl Fn() -> F) -> T {
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => tracing::warn!(%error, "cannot use the register of sessions"),
        }
        sleep(RETRY).await;
    }
}
