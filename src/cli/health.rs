//! `health`: asks the `grpc.health.v1` service of a server whether it is ready; for health checks
//! and scripts. It takes the addresses that every command takes and always answers in time.

use super::{connect::Server, error::CliError, output};
use clap::Args;
use rallypoint_client::Error;
use serde_json::json;
use std::{process::ExitCode, time::Duration};
use tokio::time::timeout;
use tonic::Status;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

/// How long the server may take to answer, unless the command line says otherwise.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Arguments of `health`.
#[derive(Args, Debug)]
pub(super) struct Health {
    /// The service to ask about [default: the whole server]
    #[arg(long, default_value = "", hide_default_value = true)]
    service: String,
}

impl Health {
    /// Prints `serving` and exits 0, or exits 1.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        if serving(server, self.service).await? {
            output::document(json!({ "status": "SERVING" }), "serving");
            return Ok(ExitCode::SUCCESS);
        }
        Err(CliError::new("the server is up but not serving")
            .why("it is starting, stopping, or has lost its database"))
    }
}

/// Whether the server serves. Asked once, because a health check is about this moment.
pub(super) async fn serving(server: &Server, service: String) -> Result<bool, CliError> {
    let what = || format!("cannot ask the server at {} for its health", server.address);
    let asked = async {
        let channel = server.connect().await?.channel();
        let answer = HealthClient::new(channel)
            .check(HealthCheckRequest { service })
            .await;
        answer.map_err(|status| CliError::call(what(), &Error::from(status)))
    };
    let limit = server.request_timeout(ANSWER_TIMEOUT);
    let late = |_| {
        let status = Status::deadline_exceeded(format!("no answer within {limit:?}"));
        CliError::call(what(), &Error::from(status))
    };
    let answer = timeout(limit, asked).await.map_err(late)??;
    Ok(answer.into_inner().status() == ServingStatus::Serving)
}
