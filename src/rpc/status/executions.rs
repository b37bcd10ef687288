//! What runs where: the slots and targets of this replica, and those of the others as they report
//! them.

use super::shared::Shared;
use crate::{
    core::{Attempt, TaskId},
    rpc::forwarding::route::Route,
};
use futures_util::future::{BoxFuture, join_all};
use rallypoint_client::api::{
    self,
    peer::{ExplainAttemptRequest, ExplainAttemptResponse, peer_service_client::PeerServiceClient},
    status_service_client::StatusServiceClient,
};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;
use tonic::{Response, Status, transport::Channel};

/// How long another replica may take to answer.
const REPLICA_TIMEOUT: Duration = Duration::from_secs(1);
/// The same when it asks a target first.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);

/// What a replica says of an attempt, if it runs it.
pub(crate) type Explained = BoxFuture<'static, ExplainAttemptResponse>;

/// Reads the state of the executor.
#[derive(Clone)]
pub(crate) struct StatusSource {
    /// One row per slot.
    pub executions: Arc<dyn Fn() -> Vec<api::Execution> + Send + Sync>,
    /// One row per target.
    pub targets: Arc<dyn Fn() -> Vec<api::TargetStatus> + Send + Sync>,
    /// An attempt that runs here.
    pub attempt: Arc<dyn Fn(TaskId, Attempt) -> Explained + Send + Sync>,
}

/// The slots of all replicas.
#[derive(Clone)]
pub(crate) struct Executions {
    /// This replica.
    source: StatusSource,
    /// Route to the others.
    route: Option<Route>,
    latest: Shared<api::ListExecutionsResponse>,
}

impl Executions {
    /// Of this replica, and of the others by their route; `None`: only of this one.
    pub(crate) fn new(source: StatusSource, route: Option<Route>) -> Self {
        Executions {
            source,
            route,
            latest: Shared::default(),
        }
    }

    /// One row per slot, by replica, kind and number, and per target and replica; replicas that do
    /// not answer are named.
    pub(crate) async fn of_all_replicas(&self) -> api::ListExecutionsResponse {
        let all = self.clone();
        let read = async move { all.read().await };
        let found = self.latest.get(read).await;
        found.unwrap_or_else(|| api::ListExecutionsResponse {
            unreachable: vec!["executions".to_owned()],
            ..Default::default()
        })
    }

    async fn read(&self) -> api::ListExecutionsResponse {
        let mut found = api::ListExecutionsResponse {
            executions: (self.source.executions)(),
            targets: (self.source.targets)(),
            ..Default::default()
        };
        let others = self.route.as_ref().map(Route::others).unwrap_or_default();
        let answers = join_all(
            others
                .into_iter()
                .map(|(member, channel)| async move { (of_replica(channel).await, member.name) }),
        )
        .await;
        for (answer, name) in answers {
            match answer {
                Some(answer) => {
                    found.executions.extend(answer.executions);
                    found.targets.extend(answer.targets);
                }
                None => found.unreachable.push(name.to_string()),
            }
        }
        // The process of before a restart is silent; the one that has its name now is not.
        let there = &found.executions;
        let is_away = |name: &String| !there.iter().any(|row| row.replica == *name);
        found.unreachable.retain(is_away);
        found.executions.sort_by(|one, other| {
            let place = |row: &api::Execution| (row.replica.clone(), target_of(row), row.slot);
            place(one).cmp(&place(other))
        });
        found
    }

    /// An attempt of a task, from whoever runs it; who does not answer is named when nobody does.
    pub(crate) async fn of_task(
        &self,
        task: TaskId,
        attempt: Attempt,
    ) -> (ExplainAttemptResponse, Vec<String>) {
        let here = (self.source.attempt)(task, attempt).await;
        if here.attempt.is_some() {
            return (here, Vec::new());
        }
        let others = self.route.as_ref().map(Route::others).unwrap_or_default();
        let answers = others.into_iter().map(|(member, channel)| async move {
            let request = ExplainAttemptRequest {
                handle: task.handle.to_string(),
                seq: task.seq.0,
                attempt: attempt.0,
            };
            let answer = explain_attempt(channel, request).await;
            (answer, member.name.to_string())
        });
        let (mut there, mut unreachable) = (Vec::new(), Vec::new());
        for (answer, name) in join_all(answers).await {
            match answer {
                Some(answer) if answer.attempt.is_some() => return (answer, Vec::new()),
                Some(_) => there.push(name),
                None => unreachable.push(name),
            }
        }
        unreachable.retain(|name| !there.contains(name));
        (here, unreachable)
    }
}

async fn explain_attempt(
    channel: Option<Channel>,
    request: ExplainAttemptRequest,
) -> Option<ExplainAttemptResponse> {
    let mut client = PeerServiceClient::new(channel?);
    let answer = timeout(ATTEMPT_TIMEOUT, client.explain_attempt(request));
    answer.await.ok()?.ok().map(Response::into_inner)
}

async fn of_replica(channel: Option<Channel>) -> Option<api::ListExecutionsResponse> {
    let client = StatusServiceClient::new(channel?);
    let all = timeout(REPLICA_TIMEOUT, all_pages(client)).await;
    all.ok()?.ok()
}

async fn all_pages(
    mut client: StatusServiceClient<Channel>,
) -> Result<api::ListExecutionsResponse, Status> {
    let mut all = api::ListExecutionsResponse::default();
    let mut request = api::ListExecutionsRequest::default();
    loop {
        let page = client.list_executions(request.clone()).await?.into_inner();
        all.executions.extend(page.executions);
        all.targets = page.targets;
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return Ok(all);
        }
    }
}

/// The target of a slot; `None`: it needs none.
fn target_of(slot: &api::Execution) -> Option<String> {
    match slot.kind.as_ref()?.kind.as_ref()? {
        api::slot_kind::Kind::SqlTarget(target) => Some(target.clone()),
        api::slot_kind::Kind::Noop(()) => None,
    }
}
