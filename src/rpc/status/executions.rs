//! What runs where: the slots of this replica, and those of the others as they tell.

use crate::rpc::forwarding::route::Route;
use futures_util::future::join_all;
use rallypoint_client::api::{self, status_service_client::StatusServiceClient};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;
use tonic::transport::Channel;

/// How long another replica may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the executor tells about itself.
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
    /// Of this one.
    pub source: StatusSource,
    /// To the others; `None`: only this one is told of.
    pub route: Option<Route>,
}

impl Executions {
    /// One row per slot; who does not answer is named.
    pub(crate) async fn everywhere(&self) -> api::ListExecutionsResponse {
        let mut found = api::ListExecutionsResponse {
            executions: (self.source.executions)(),
            ..Default::default()
        };
        let others = self.route.as_ref().map(Route::others).unwrap_or_default();
        let told = join_all(
            others
                .into_iter()
                .map(|(name, channel)| async { (of(channel).await, name) }),
        )
        .await;
        for (executions, name) in told {
            match executions {
                Some(executions) => found.executions.extend(executions),
                None => found.unreachable.push(name),
            }
        }
        found
    }
}

async fn of(channel: Option<Channel>) -> Option<Vec<api::Execution>> {
    let mut client = StatusServiceClient::new(channel?);
    let told = timeout(
        PATIENCE,
        client.list_executions(api::ListExecutionsRequest {}),
    )
    .await
    .ok()?;
    told.ok().map(|told| told.into_inner().executions)
}
