//! What `grpc.health.v1` reports: serving while callers are served, by this replica or through it
//! by the owner. Not serving before the shard is owned, while the coordination database is
//! unavailable, or during a shutdown. It asks nobody, but reads what the coordinator already knows.

use super::Statuses;
use crate::{
    coordinator::Coordinator,
    rpc::{forwarding::route::Route, scheduler::Schedulers},
};
use rallypoint_client::api::{
    scheduler_service_server::SchedulerServiceServer, status_service_server::StatusServiceServer,
};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tonic::server::NamedService;
use tonic_health::{ServingStatus, server::HealthReporter};

/// How often the state is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Reports every change until `stopping`, which is reported last.
pub(crate) async fn report(
    health: HealthReporter,
    coordinator: Coordinator,
    route: Route,
    stopping: CancellationToken,
) {
    let mut reported = ServingStatus::Unknown;
    while !stopping.is_cancelled() {
        let served = coordinator.replica_status().available || route.reaches_owner();
        let available = served && !coordinator.is_stopping();
        let status = if available {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        if status != reported {
            reported = status;
            set(&health, status).await;
        }
        stopping
            .run_until_cancelled(tokio::time::sleep(POLL_INTERVAL))
            .await;
    }
    set(&health, ServingStatus::NotServing).await;
}

/// Sets the status of the server as a whole and of each service.
async fn set(health: &HealthReporter, status: ServingStatus) {
    let services = [
        "",
        SchedulerServiceServer::<Schedulers>::NAME,
        StatusServiceServer::<Statuses>::NAME,
    ];
    for service in services {
        health.set_service_status(service, status).await;
    }
}
