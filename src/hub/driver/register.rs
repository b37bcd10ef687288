//! Asks the register of executors and sessions on behalf of the hub: one statement for each
//! request. A failure is an answer too; the hub tries again.

use crate::{
    executor,
    executor_protocol::Host,
    hub::event::{Answer, Enrolled, Life, RegisterRequest},
    journal::{ExecutorRow, JournalError, Membership, Replica, Session, Sessions},
    peer,
};
use futures_util::future::join_all;
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// How recent the heartbeat of an executor must be that is not known as a member.
const LIVENESS_WINDOW: Duration = Duration::from_secs(3);

/// The register, and what it takes to say who lives.
pub(super) struct Register {
    sessions: Sessions,
    membership: watch::Receiver<Membership>,
    /// Of this replica.
    name: Arc<str>,
}

impl Register {
    pub(super) fn new(
        sessions: &Sessions,
        membership: &watch::Receiver<Membership>,
        replica: &Replica,
    ) -> Self {
        Register {
            sessions: sessions.clone(),
            membership: membership.clone(),
            name: replica.name.clone(),
        }
    }

    pub(super) async fn ask(self, request: RegisterRequest) -> Answer {
        let answer = match request {
            RegisterRequest::NotFenced => self.not_fenced().await.map(Answer::Executors),
            RegisterRequest::IsFenced(host) => {
                let (replica, incarnation) = (host.replica, host.incarnation);
                let fenced = self.sessions.is_fenced(replica, incarnation).await;
                fenced.map(Answer::Fenced)
            }
            RegisterRequest::Fence(host, epoch) => {
                let (replica, incarnation) = (host.replica, host.incarnation);
                let fenced = self.sessions.fence(replica, incarnation, epoch).await;
                if let Ok(Some(replica)) = &fenced {
                    tracing::warn!(%replica, "an executor is gone; its sessions are ended");
                }
                fenced.map(|name| Answer::Fenced(name.is_some()))
            }
            RegisterRequest::SessionsOfFenced => {
                self.sessions.of_fenced().await.map(Answer::Sessions)
            }
            RegisterRequest::Forget(Session {
                target,
                backend_pid,
                backend_start,
                ..
            }) => {
                let forgotten = self.sessions.forget(&target, backend_pid, backend_start);
                forgotten.await.map(|()| Answer::Done)
            }
        };
        answer.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot use the register of sessions");
            Answer::Failed
        })
    }

    /// The executors of others that are not fenced, and whether they live.
    async fn not_fenced(&self) -> Result<Vec<Enrolled>, JournalError> {
        let rows = self.sessions.others(LIVENESS_WINDOW).await?;
        let judged = rows.into_iter().map(|row| {
            // One that has just been started is not known as a member yet.
            let is_there = row.fresh || self.membership.borrow().has(row.replica);
            // Another one may have the same name and live.
            let is_earlier_run = *row.name == *self.name && row.heartbeat_ended;
            let seems = match is_there && !is_earlier_run {
                true => Life::Alive,
                false => Life::Silent,
            };
            judge(row, seems)
        });
        Ok(join_all(judged).await)
    }
}

/// A process has ended when its session with the database is over, and nobody listens at its
/// address.
async fn judge(row: ExecutorRow, seems: Life) -> Enrolled {
    let has_ended = match &row.address {
        Some(address) if row.heartbeat_ended => peer::refuses(address).await,
        _ => false,
    };
    Enrolled {
        replica: row.replica,
        incarnation: row.incarnation,
        life: if has_ended { Life::Ended } else { seems },
    }
}

/// A session as the executor ends it.
pub(super) fn on_target(session: Session) -> executor::Session {
    executor::Session {
        host: Some(Host {
            replica: session.replica,
            incarnation: session.incarnation,
        }),
        target: session.target,
        slot: session.slot,
        pid: session.backend_pid,
        backend_start: session.backend_start,
        postmaster: session.postmaster,
    }
}
