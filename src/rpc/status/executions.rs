//! What runs where: the slots and targets of this replica, and those of the others as they report
//! them.

use crate::rpc::forwarding::route::Route;
use futures_util::future::join_all;
use rallypoint_client::api::{self, status_service_client::StatusServiceClient};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;
use tonic::{Response, transport::Channel};

/// How long another replica may take to answer.
const REPLICA_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads the state of the executor.
#[derive(Clone)]
pub(crate) struct StatusSource {
    /// One row per slot.
    pub executions: Arc<dyn Fn() -> Vec<api::Execution> + Send + Sync>,
    /// One row per target.
    pub targets: Arc<dyn Fn() -> Vec<api::TargetStatus> + Send + Sync>,
}

/// The slots of all replicas.
#[derive(Clone)]
pub(crate) struct Executions {
    /// This replica.
    pub source: StatusSource,
    /// Route to the others; `None`: only this one is reported.
    pub route: Option<Route>,
}

impl Executions {
    /// One row per slot, and per target and replica; replicas that do not answer are named.
    pub(crate) async fn of_all_replicas(&self) -> api::ListExecutionsResponse {
        let mut found = api::ListExecutionsResponse {
            executions: (self.source.executions)(),
            targets: (self.source.targets)(),
            ..Default::default()
        };
        let others = self.route.as_ref().map(Route::others).unwrap_or_default();
        let answers = join_all(
            others
                .into_iter()
                .map(|(name, channel)| async { (of_replica(channel).await, name) }),
        )
        .await;
        for (answer, name) in answers {
            match answer {
                Some(answer) => {
                    found.executions.extend(answer.executions);
                    found.targets.extend(answer.targets);
                }
                None => found.unreachable.push(name),
            }
        }
        found
    }
}

async fn of_replica(channel: Option<Channel>) -> Option<api::ListExecutionsResponse> {
    let mut client = StatusServiceClient::new(channel?);
    let answer = timeout(
        REPLICA_TIMEOUT,
        client.list_executions(api::ListExecutionsRequest {}),
    )
    .await
    .ok()?;
    answer.ok().map(Response::into_inner)
}
