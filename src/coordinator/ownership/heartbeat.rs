//! The heartbeat: renews the lease, measures the time of the database, and reads who is there, in
//! one statement.
//!
//! It publishes what it has read; what follows for the ownership is decided in `ownership`.

use super::{
    lease_watch::{LeaseTiming, Poll},
    liveness::Liveness,
    logged_error::LoggedError,
    replica_state::ReplicaState,
};
use crate::{
    clock::{Clock, uptime},
    journal::{Heartbeat, Membership, Replica},
};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::{Notify, watch};
use uuid::Uuid;

/// Has the next heartbeat run early. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeartbeatTrigger {
    wake: Arc<Notify>,
    stopping: Arc<AtomicBool>,
    declines_until: Arc<Mutex<Option<Instant>>>,
}

impl HeartbeatTrigger {
    pub(crate) fn fire(&self) {
        self.wake.notify_one();
    }

    /// From now on the heartbeats say that this replica is going down.
    pub(crate) fn announce_stopping(&self) {
        self.stopping.store(true, Ordering::Release);
        self.fire();
    }

    /// For so long the heartbeats say that this replica takes nothing over.
    pub(crate) fn decline_for(&self, time: Duration) {
        *self.declines_until() = Some(Instant::now() + time);
        self.fire();
    }

    /// Whether this replica takes nothing over.
    pub(crate) fn declines(&self) -> bool {
        self.is_stopping()
            || self
                .declines_until()
                .is_some_and(|until| Instant::now() < until)
    }

    fn declines_until(&self) -> MutexGuard<'_, Option<Instant>> {
        let until = self.declines_until.lock();
        until.unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

/// Runs the heartbeats of one process.
pub(crate) struct HeartbeatTask {
    pub heartbeat: Heartbeat,
    pub replica: Replica,
    /// The log says that another process has the name of this one.
    pub namesake_warned: bool,
    /// What the log says of heartbeats that have failed.
    pub logged: LoggedError,
    pub timing: LeaseTiming,
    pub liveness: Liveness,
    pub clock: Clock,
    pub state: ReplicaState,
    pub trigger: HeartbeatTrigger,
    pub polls: watch::Sender<Option<Poll>>,
    pub membership: watch::Sender<Membership>,
}

impl HeartbeatTask {
    /// Runs until nobody listens any more.
    pub(crate) async fn run(mut self) {
        while !self.polls.is_closed() {
            let begun = Instant::now();
            let next = self.beat().await;
            let wait = next.saturating_sub(begun.elapsed());
            tokio::select! {
                () = tokio::time::sleep(wait.max(self.timing.min_interval)) => {}
                () = async {
                    tokio::time::sleep(self.timing.min_interval).await;
                    self.trigger.wake.notified().await;
                } => {}
            }
        }
    }

    /// One heartbeat; returns when the next one is due.
    async fn beat(&mut self) -> Duration {
        let (epoch, at, sent) = (self.state.owned_epoch(), Instant::now(), uptime());
        self.heartbeat.stopping = self.trigger.declines();
        // What the owner of it has said itself counts, too: a database that fails over by then may
        // not know of that ownership, and would give its epoch to another one.
        let known = self.membership.borrow().epoch;
        self.heartbeat.heard = self.heartbeat.heard.max(known);
        self.heartbeat.requests_since = self.state.requests_since(self.clock.now());
        let reading = match self.heartbeat.renew(epoch).await {
            Ok(reading) => reading,
            Err(error) => {
                // During a shutdown the database may stop first.
                if !self.trigger.is_stopping() && self.logged.is_due(&error) {
                    tracing::warn!(%error, "heartbeat failed");
                }
                self.state.set_error(error.to_string());
                return self.timing.heartbeat;
            }
        };
        if self.logged.is_over() {
            tracing::info!("the coordination database answers again");
        }
        // By the uptime, as the machine may have been suspended before the answer was read.
        self.clock
            .correct(reading.now, uptime().saturating_sub(sent));
        if let (Some(epoch), Some(_)) = (epoch, reading.lease_until) {
            self.state.lease_renewed(epoch, sent + self.timing.lease);
        }
        let membership = self.liveness.observe(at, &reading);
        self.warn_of_namesake(membership.owner);
        self.membership.send_if_modified(|known| {
            // A heartbeat that was under way during a change of owner is older than what is known
            // of it.
            let changed = membership.epoch >= known.epoch && *known != membership;
            if changed {
                *known = membership;
            }
            changed
        });
        let next = self.timing.next_poll(&reading);
        self.polls.send_replace(Some(Poll {
            at,
            answered: Instant::now(),
            epoch,
            reading,
        }));
        next
    }

    /// Says once that another process has the name of this one. Of an owner the log tells when the
    /// claim to what it owns does not hold.
    fn warn_of_namesake(&mut self, owner: Option<Uuid>) {
        let namesake = self.liveness.namesake(self.replica.id);
        if namesake.is_some_and(|member| Some(member.id) != owner) && !self.namesake_warned {
            self.namesake_warned = true;
            tracing::warn!(
                name = &*self.replica.name,
                "another process of this name is running, and `status` shows both: give this one \
                 a name of its own (--replica-name)"
            );
        }
    }
}
