//! The slots of the whole service, for whoever decides how many executors there should be.

use super::PART_TIMEOUT;
use crate::{
    coordinator::Coordinator,
    peer::Peers,
    rpc::forwarding::route::{Destination, Route},
};
use rallypoint_client::api::{self, status_service_client::StatusServiceClient};
use tokio::time::timeout;

/// Asks the owner of the shard, this replica or another one.
#[derive(Clone)]
pub(crate) struct Slots {
    coordinator: Coordinator,
    route: Route,
}

impl Slots {
    pub(crate) fn new(coordinator: &Coordinator, peers: Option<Peers>) -> Slots {
        Slots {
            coordinator: coordinator.clone(),
            route: Route::new(coordinator.clone(), peers),
        }
    }

    /// By kind, as the owner counts them now; `None`: none answers.
    pub(crate) async fn read(&self) -> Option<Vec<api::SlotStatus>> {
        let Destination::Remote(owner) = self.route.destination() else {
            let status = timeout(PART_TIMEOUT, self.coordinator.status()).await;
            return status.ok()?.ok().map(|core| super::slots_of(&core));
        };
        let mut client = StatusServiceClient::new(owner.channel);
        let answer = client.get_status(api::GetStatusRequest::default());
        let status = timeout(PART_TIMEOUT, answer).await.ok()?.ok()?.into_inner();
        // Without it the owner has no counts at the moment.
        status.backlog.map(|_| status.slots)
    }
}
