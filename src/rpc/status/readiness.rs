//! What `grpc.health.v1` says: serving while callers are served, here or by the owner of the shard, which they are not
//! before it is owned, nor while the coordination database is away, nor once the server is going down. It asks nobody: it looks at what the loop knows.

use super::Statuses;
use crate::coordinator::Coordinator;
use crate::rpc::{forwarding::route::Route, scheduler::Schedulers};
use rallypoint_client::api::{
    scheduler_service_server::SchedulerServiceServer, status_service_server::StatusServiceServer,
};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tonic::server::NamedService;
use tonic_health::{ServingStatus, server::HealthReporter};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Tells every change, until `stopping`; that is the last one.
pub(crate) async fn tell(
    health: HealthReporter,
    coordinator: Coordinator,
    route: Route,
    stopping: CancellationToken,
) {
    let mut told = ServingStatus::Unknown;
    while !stopping.is_cancelled() {
        let served = coordinator.replica_status().available || route.leads_to_an_owner();
        let available = served && !coordinator.is_stopping();
        let status = if available {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        if status != told {
            told = status;
            set(&health, status).await;
        }
        stopping.run_until_cancelled(tokio::time::sleep(LOOK)).await;
    }
    set(&health, ServingStatus::NotServing).await;
}

/// For the server as a whole and for each service.
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
