//! The heartbeat: renews the lease, measures the time of the database, and looks who is there. What a look means is the
//! business of `owner`.

use super::{
    lease_watch::{LeaseTiming, Poll},
    role::Health,
};
use crate::{
    clock::Clock,
    journal::{Heartbeat, Membership},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};
use tokio::sync::{Notify, watch};

/// Asks for a look out of turn. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeartbeatTrigger {
    wake: Arc<Notify>,
    stopping: Arc<AtomicBool>,
}

impl HeartbeatTrigger {
    /// Poll again soon.
    pub(crate) fn look(&self) {
        self.wake.notify_one();
    }

    /// From now on the others are told that this replica is going down.
    pub(crate) fn stopping(&self) {
        self.stopping.store(true, Ordering::Release);
        self.look();
    }

    /// It is going down.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

/// What the heartbeat works on.
pub(crate) struct HeartbeatTask {
    pub heart: Heartbeat,
    pub pace: LeaseTiming,
    pub clock: Clock,
    pub health: Health,
    pub nudge: HeartbeatTrigger,
    pub looks: watch::Sender<Option<Poll>>,
    pub membership: watch::Sender<Membership>,
}

impl HeartbeatTask {
    /// Beats until nobody listens any more.
    pub(crate) async fn keep(mut self) {
        while !self.looks.is_closed() {
            let begun = Instant::now();
            let next = self.beat().await;
            let wait = next.saturating_sub(begun.elapsed());
            tokio::select! {
                () = tokio::time::sleep(wait.max(self.pace.shortest)) => {}
                () = async {
                    tokio::time::sleep(self.pace.shortest).await;
                    self.nudge.wake.notified().await;
                } => {}
            }
        }
    }

    /// One beat; when the next one is due.
    async fn beat(&mut self) -> std::time::Duration {
        let (epoch, at) = (self.health.owns(), Instant::now());
        self.heart.stopping = self.nudge.is_stopping();
        let beat = match self.heart.beat(epoch).await {
            Ok(beat) => beat,
            Err(error) => {
                // While it goes down the database may go first.
                if !self.nudge.is_stopping() {
                    tracing::warn!(%error, "heartbeat failed");
                }
                self.health.trouble(error.to_string());
                return self.pace.heartbeat;
            }
        };
        self.clock.correct(beat.now, at.elapsed());
        if let (Some(epoch), Some(_)) = (epoch, beat.lease_until) {
            self.health.renewed(epoch, at + self.pace.lease);
        }
        self.membership.send_if_modified(|known| {
            // A beat that was under way during a change of owner is older than what is known of it.
            let news = beat.membership.epoch >= known.epoch && *known != beat.membership;
            if news {
                known.clone_from(&beat.membership);
            }
            news
        });
        let next = self.pace.next_look(&beat);
        self.looks.send_replace(Some(Poll { at, epoch, beat }));
        next
    }
}
