//! `health`: asks the `grpc.health.v1` service of a server whether it is ready; for health checks
//! and scripts. It takes the addresses that every command takes and always answers in time.

use super::{connect::Server, error::CliError, output, time_text};
use crate::core::model::limits::length_text;
use clap::Args;
use rallypoint_client::Error;
use serde_json::json;
use std::{process::ExitCode, time::Duration};
use tokio::time::{sleep, timeout};
use tonic::Status;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

/// How long the server may take to answer, unless the command line says otherwise.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two questions of `--wait`.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Arguments of `health`.
#[derive(Args, Debug)]
pub(super) struct Health {
    /// The service to ask about [default: the whole server]
    #[arg(long, default_value = "", hide_default_value = true)]
    service: String,
    /// Wait until it is ready, and how long at most [default: not at all]
    #[arg(long, value_parser = time_text::parse_or_zero, value_name = "TIME")]
    wait: Option<Duration>,
}

impl Health {
    /// Prints `serving` and exits 0, or exits 1.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        match self.wait.filter(|limit| !limit.is_zero()) {
            Some(limit) => ready_within(limit, server, &self.service).await?,
            None if serving(server, self.service).await? => {}
            None => return Err(not_serving()),
        }
        output::document(json!({ "status": "SERVING" }), "serving");
        Ok(ExitCode::SUCCESS)
    }
}

fn not_serving() -> CliError {
    CliError::new("the server is up but not serving")
        .why(
            "it is starting or stopping, has lost its database, or stands by for another server \
             that it does not reach",
        )
        .next(
            "its log says which; `rallypoint status` shows the owner of the work, to which every \
             server with --peer-listen passes calls on",
        )
}

/// Asks until the server serves. Fails at the limit with what was the matter last, and at once with
/// what does not pass by itself.
async fn ready_within(limit: Duration, server: &Server, service: &str) -> Result<(), CliError> {
    let mut last = None;
    let asked = timeout(limit, async {
        loop {
            last = match serving(server, service.to_owned()).await {
                Ok(true) => return Ok(()),
                Ok(false) => Some(not_serving()),
                Err(error) if error.may_pass() => Some(error),
                Err(error) => return Err(error),
            };
            sleep(POLL_INTERVAL).await;
        }
    });
    match asked.await {
        Ok(ended) => ended,
        Err(_) => {
            let never = || CliError::new(format!("the server at {} is silent", server.address));
            let waited = format!("waited for {}", length_text(limit));
            Err(last.unwrap_or_else(never).why(waited))
        }
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
            .next("something is there and does not answer: see its log and its load")
    };
    let answer = timeout(limit, asked).await.map_err(late)??;
    Ok(answer.into_inner().status() == ServingStatus::Serving)
}
