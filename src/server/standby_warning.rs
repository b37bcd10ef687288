//! Says in the log why a server that does not own the shard serves nobody: it can forward calls
//! only between replicas with peer ports. It changes nothing.

use crate::coordinator::{Coordinator, Role};
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Between two lines of the log about the same.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Runs as long as the server does. `has_port`: this server has a peer port.
pub(super) async fn report(coordinator: Coordinator, has_port: bool) {
    let mut logged: Option<Instant> = None;
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let Some((owner, missing)) = obstacle(&coordinator, has_port) else {
            logged = None;
            continue;
        };
        if logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
            logged = Some(Instant::now());
            tracing::warn!(
                owner,
                "another server owns the shard and {missing} has no --peer-listen: \
                 calls cannot be forwarded, and this server is not ready until the other one ends"
            );
        }
    }
}

/// The owner that cannot be reached, and who lacks a port.
fn obstacle(coordinator: &Coordinator, has_port: bool) -> Option<(String, &'static str)> {
    if coordinator.role() != Role::Standby {
        return None;
    }
    let membership = coordinator.membership();
    let membership = membership.borrow();
    let owner = membership.owning()?;
    let missing = match (has_port, &owner.address) {
        _ if owner.id == coordinator.id() => return None,
        (false, _) => "this one",
        (true, None) => "that one",
        (true, Some(_)) => return None,
    };
    Some((owner.name.to_string(), missing))
}
