//! `health`: asks a server's `grpc.health.v1` whether it is ready; for probes and scripts.

use super::{Failure, connect::Server, output};
use clap::Args;
use std::process::ExitCode;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

/// Arguments of `health`.
#[derive(Args, Debug)]
pub struct Health {
    /// The service to ask about [default: the whole server]
    #[arg(long, default_value = "", hide_default_value = true)]
    service: String,
}

impl Health {
    /// Prints `serving` and exits 0, or exits 1.
    pub async fn run(self, server: &Server) -> Result<ExitCode, Failure> {
        if serving(server, self.service).await? {
            output::line("serving");
            return Ok(ExitCode::SUCCESS);
        }
        Err(Failure::new("the server is up but not serving").why("it starts, stops, or has lost its database"))
    }
}

/// The server says that it serves.
pub async fn serving(server: &Server, service: String) -> Result<bool, Failure> {
    let mut client = HealthClient::new(server.channel().await?);
    let answer = client.check(HealthCheckRequest { service }).await;
    let answer = answer.map_err(|status| Failure::rpc("the server did not say how it is", &status))?;
    Ok(answer.into_inner().status() == ServingStatus::Serving)
}
