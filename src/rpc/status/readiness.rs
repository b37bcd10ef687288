//! What `grpc.health.v1` reports: serving while callers are served, by this replica or through it
//! by the owner. Not serving before the shard is owned, while the coordination database or the
//! owner cannot be reached, or during a shutdown.
//!
//! It asks the database nothing, but reads what the coordinator already knows. The owner it does
//! ask, on the channel that forwarded calls take: that one is registered does not mean that its
//! name, its certificate and the network between are right.

use crate::{
    coordinator::Coordinator,
    metrics::Metrics,
    rpc::forwarding::{
        peer_service::{self, Unreached},
        route::{Destination, Route},
        successor::SuccessorSearch,
    },
};
use prost::Message;
use prost_types::{FileDescriptorProto, FileDescriptorSet};
use rallypoint_client::api::DESCRIPTOR;
use std::{sync::LazyLock, time::Duration};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic_health::{ServingStatus, server::HealthReporter};
use uuid::Uuid;

/// How often the state is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How often the owner is asked.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Reports every change until `stopping`, which is reported last.
pub(crate) async fn report(
    health: HealthReporter,
    metrics: Metrics,
    coordinator: Coordinator,
    route: Route,
    stopping: CancellationToken,
) {
    let mut reported = ServingStatus::Unknown;
    let mut search = SuccessorSearch::new(coordinator.clone(), route.clone());
    let mut probe = OwnerProbe {
        route,
        last: None,
        logged: None,
        former: None,
    };
    while !stopping.is_cancelled() {
        let looked = search.look(probe.former.is_some());
        stopping.run_until_cancelled(looked).await;
        let reached = stopping.run_until_cancelled(probe.is_reached()).await;
        let served = coordinator.replica_status().available || reached == Some(true);
        let is_stopping = coordinator.is_stopping();
        let available = served && !is_stopping;
        let status = if available {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        // Before it is said that callers are not served: it is the reason.
        metrics
            .replica
            .stopping
            .set(f64::from(u8::from(is_stopping)));
        if status != reported {
            reported = status;
            metrics.replica.ready.set(f64::from(u8::from(available)));
            set(&health, status).await;
        }
        stopping
            .run_until_cancelled(tokio::time::sleep(POLL_INTERVAL))
            .await;
    }
    metrics.replica.stopping.set(1.0);
    metrics.replica.ready.set(0.0);
    set_not_serving(&health).await;
}

/// Reports that callers are not served.
pub(crate) async fn set_not_serving(health: &HealthReporter) {
    set(health, ServingStatus::NotServing).await;
}

/// Whether the owner is another replica that can be reached.
struct OwnerProbe {
    route: Route,
    /// Who was asked, when, and whether it answered.
    last: Option<(Uuid, Instant, bool)>,
    /// Why it was not reached, as the log says.
    logged: Option<String>,
    /// An owner that has said that it is none any more: at a handover that is known a moment before
    /// the next one is.
    former: Option<Uuid>,
}

impl OwnerProbe {
    async fn is_reached(&mut self) -> bool {
        let owner = match self.route.destination() {
            Destination::Remote(owner) => owner,
            Destination::Unknown if self.route.lacks_peers() => {
                self.log(Err("start every server with --peer-listen".into()));
                return false;
            }
            _ => {
                self.former = None;
                return false;
            }
        };
        match self.last {
            Some((id, at, reached)) if id == owner.id && at.elapsed() < PROBE_INTERVAL => reached,
            _ => {
                let answer = peer_service::reach(&owner).await;
                let stands_by = answer == Err(Unreached::StandsBy);
                let before = self.former;
                self.former = match &answer {
                    Ok(()) => None,
                    Err(Unreached::StandsBy) => Some(owner.id),
                    Err(Unreached::Failed(_)) => before.filter(|id| *id == owner.id),
                };
                let reached = answer.is_ok() || stands_by && before != Some(owner.id);
                self.log(match answer {
                    _ if reached => Ok(()),
                    Err(Unreached::Failed(why)) => Err(why),
                    _ => Err("it does not own the shard any more".into()),
                });
                self.last = Some((owner.id, Instant::now(), reached));
                reached
            }
        }
    }

    /// Logs why the owner cannot be reached, each reason once.
    fn log(&mut self, answer: Result<(), String>) {
        let why = answer.err();
        if let Some(why) = why.as_ref().filter(|why| self.logged.as_ref() != Some(why)) {
            tracing::warn!(%why, "not ready: another server owns the shard, and calls cannot be forwarded to it");
        }
        self.logged = why;
    }
}

/// Sets the status of the server as a whole and of each service.
async fn set(health: &HealthReporter, status: ServingStatus) {
    health.set_service_status("", status).await;
    for service in &*SERVICES {
        health.set_service_status(service, status).await;
    }
}

/// The full names of all services of the API.
static SERVICES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let files = FileDescriptorSet::decode(DESCRIPTOR).expect("descriptors of our own making");
    let services = |file: FileDescriptorProto| {
        let package = file.package().to_owned();
        let services = file.service.into_iter();
        services.map(move |service| format!("{package}.{}", service.name()))
    };
    files.file.into_iter().flat_map(services).collect()
});
