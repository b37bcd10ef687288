//! Asks the register of executors and sessions on behalf of the hub: one statement for each
//! request. A failure is an answer too; the hub tries again.

use crate::{
    executor,
    hub::event::{Answer, RegisterRequest},
    journal::{Session, Sessions},
};
use std::time::Duration;

/// An executor of another replica that was not seen for so long is not waited for.
const LIVENESS_WINDOW: Duration = Duration::from_secs(3);

pub(super) async fn ask(sessions: &Sessions, request: RegisterRequest) -> Answer {
    let answer = match request {
        RegisterRequest::NotFenced => {
            let others = sessions.others(LIVENESS_WINDOW).await;
            others.map(Answer::Executors)
        }
        RegisterRequest::IsFenced(host) => {
            let fenced = sessions.is_fenced(host.replica, host.incarnation).await;
            fenced.map(Answer::Fenced)
        }
        RegisterRequest::Fence(host, epoch) => {
            tracing::warn!(replica = %host.replica, "an executor is gone; its sessions are ended");
            let fenced = sessions.fence(host.replica, host.incarnation, epoch).await;
            fenced.map(Answer::Fenced)
        }
        RegisterRequest::SessionsOfFenced => sessions.of_fenced().await.map(Answer::Sessions),
        RegisterRequest::Forget(Session {
            target,
            backend_pid,
            backend_start,
            ..
        }) => {
            let forgotten = sessions.forget(&target, backend_pid, backend_start).await;
            forgotten.map(|()| Answer::Done)
        }
    };
    answer.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot use the register of sessions");
        Answer::Failed
    })
}

/// A session as the executor ends it.
pub(super) fn on_target(session: Session) -> executor::Session {
    executor::Session {
        target: session.target,
        slot: session.slot,
        pid: session.backend_pid,
        backend_start: session.backend_start,
        postmaster: session.postmaster,
    }
}
