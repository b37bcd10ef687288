//! The door for executors of other replicas.

use super::{
    fencing::ExecutorChange,
    pool::{Host, Instruction, Joining, Pool, Route},
};
use crate::{
    assignment::{ExecutorId, ExecutorReport, Snapshot},
    core::Epoch,
    journal::{JournalError, Sessions},
};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// The door for executors. Cheap to clone.
#[derive(Clone)]
pub struct Registration {
    pub(crate) pool: Pool,
    pub(crate) sessions: Sessions,
    pub(crate) changes: mpsc::Sender<ExecutorChange>,
    pub(crate) reports: mpsc::Sender<ExecutorReport>,
}

/// What became of an executor that wants to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    /// It works, under this name.
    Admitted(ExecutorId),
    /// It has been fenced: it must give up what it has, and come as its next incarnation.
    Fenced,
    /// The shard is not owned here, or not yet.
    NotNow,
}

impl Registration {
    /// The present ownership.
    pub fn epoch(&self) -> Epoch {
        self.pool.epoch()
    }

    /// Takes an executor in that means to work for `epoch`, by its how manieth session; it is told what to do through `out`.
    pub async fn admit(
        &self,
        host: Host,
        (epoch, session): (Epoch, u64),
        name: Arc<str>,
        snapshot: Snapshot,
        out: mpsc::Sender<Instruction>,
    ) -> Result<Registered, JournalError> {
        if self
            .sessions
            .is_fenced(host.replica, host.incarnation)
            .await?
        {
            return Ok(Registered::Fenced);
        }
        let member = self.pool.new_member();
        let joining = Joining {
            member,
            host,
            epoch,
            session,
            name,
            snapshot,
            route: Route::Remote(out),
        };
        let (answer, admitted) = oneshot::channel();
        if self
            .changes
            .send(ExecutorChange::Join(joining, answer))
            .await
            .is_err()
        {
            return Ok(Registered::NotNow);
        }
        match admitted.await {
            Ok(true) => Ok(Registered::Admitted(member)),
            Ok(false) => Ok(Registered::Fenced),
            Err(_) => Ok(Registered::NotNow),
        }
    }

    /// Passes on what an executor tells; false: nobody listens any more.
    pub async fn told(&self, told: ExecutorReport) -> bool {
        self.reports.send(told).await.is_ok()
    }

    /// The way to an executor is gone.
    pub async fn leave(&self, member: ExecutorId) {
        // Nobody listens only when the service is shutting down.
        let _ = self.changes.send(ExecutorChange::Leave(member)).await;
    }
}
