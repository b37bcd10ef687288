//! What operators ask: the state of the service, what runs, pauses of targets, and the end of
//! sessions.

use crate::{Client, api, error::Result};
use std::time::Duration;
use tonic::Streaming;

impl Client {
    /// Replicas, slots, targets, backlog and journal.
    pub async fn status(&self) -> Result<api::GetStatusResponse> {
        self.call(
            "/rallypoint.v1.StatusService/GetStatus".into(),
            api::GetStatusRequest {},
        )
        .await
    }

    /// Says that sessions have ended whose end the service awaits and cannot show. Returns how many
    /// there were.
    pub async fn declare_dead(&self, request: api::DeclareDeadRequest) -> Result<i64> {
        let path = "/rallypoint.v1.OperatorService/DeclareDead".to_owned();
        let response: api::DeclareDeadResponse = self.call(path, request).await?;
        Ok(response.sessions)
    }

    /// Keeps everything from starting on a target, or on all of them.
    pub async fn pause_target(
        &self,
        request: api::PauseTargetRequest,
    ) -> Result<api::PauseTargetResponse> {
        let path = "/rallypoint.v1.OperatorService/PauseTarget".to_owned();
        self.call(path, request).await
    }

    /// Ends the pause of a target, or the one of all of them.
    pub async fn resume_target(
        &self,
        request: api::ResumeTargetRequest,
    ) -> Result<api::ResumeTargetResponse> {
        let path = "/rallypoint.v1.OperatorService/ResumeTarget".to_owned();
        self.call(path, request).await
    }

    /// What runs on each slot of each replica: all pages.
    pub async fn executions(&self) -> Result<api::ListExecutionsResponse> {
        let path = "/rallypoint.v1.StatusService/ListExecutions".to_owned();
        let mut request = api::ListExecutionsRequest::default();
        let mut all = Vec::new();
        loop {
            let page: api::ListExecutionsResponse =
                self.call(path.clone(), request.clone()).await?;
            all.extend(page.executions);
            request.page_token.clone_from(&page.next_page_token);
            if request.page_token.is_empty() {
                return Ok(api::ListExecutionsResponse {
                    executions: all,
                    ..page
                });
            }
        }
    }

    /// What runs on each slot, sent again after every change, at most once per `interval` (100 ms
    /// to 60 s). The stream is not resumed when it breaks.
    pub async fn watch_executions(
        &self,
        interval: Duration,
    ) -> Result<Streaming<api::WatchExecutionsResponse>> {
        let interval = prost_types::Duration {
            seconds: i64::try_from(interval.as_secs()).unwrap_or(i64::MAX),
            nanos: interval.subsec_nanos() as i32,
        };
        let request = self.request(api::WatchExecutionsRequest {
            interval: Some(interval),
        });
        let mut client = api::status_service_client::StatusServiceClient::new(self.channel());
        Ok(client.watch_executions(request).await?.into_inner())
    }
}
