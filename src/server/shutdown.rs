//! How a server leaves. With another replica ready, the shard is handed over first and this one
//! goes on forwarding until its calls have ended; without one, calls end first. Either way running
//! tasks get a grace period, and their outcomes become durable before the process exits.

use crate::{
    coordinator::{Coordinator, Role},
    executor::Executor,
    journal::Sessions,
    peer::Peers,
    rpc,
};
use std::time::Duration;

/// How long the last outcomes may take to become durable.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the last spans of traces may take to be sent.
pub(super) const TRACES_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a replica that shuts down waits for a successor to show up.
const SUCCESSOR_TIMEOUT: Duration = Duration::from_millis(300);

/// Hands the shard to another replica that is ready for it, if there is one, and finishes for the
/// new owner what runs here. Callers are still served, through the new owner.
pub(super) async fn leave(
    coordinator: &Coordinator,
    executor: &Executor,
    sessions: &Sessions,
    peers: Option<&Peers>,
    grace: Duration,
) {
    coordinator.announce_stopping();
    let Some(peers) = peers.filter(|_| coordinator.role() != Role::Standby) else {
        return;
    };
    if coordinator.successor().is_none() {
        // A replica that has just started is known once the heartbeat under way ends.
        let _ = tokio::time::timeout(SUCCESSOR_TIMEOUT, coordinator.membership().changed()).await;
    }
    if coordinator.successor().is_none() {
        return;
    }
    let successor = coordinator
        .hand_over()
        .await
        .and_then(|successor| successor.address);
    if let Some(address) = successor {
        rpc::request_poll(peers, &address).await;
    }
    retire(executor, sessions, grace).await;
}

/// Ends what runs here. An executor that has nothing left deletes its registration, so that nobody
/// has to fence it.
pub(super) async fn retire(executor: &Executor, sessions: &Sessions, grace: Duration) {
    executor.shutdown(grace).await;
    if executor.is_idle()
        && let Err(error) = sessions.leave().await
    {
        tracing::warn!(
            %error,
            "cannot delete this executor from the register of sessions; the next owner will"
        );
    }
}
