//! `jobs start-agent` and `jobs stop-agent`: whether jobs are fired at all.

use super::show;
use crate::cli::{connect::Server, error::CliError, output};
use clap::Args;
use rallypoint_client::api::{self, StopMode};

/// Arguments of `jobs stop-agent`.
#[derive(Args, Debug)]
pub(super) struct StopAgent {
    /// Cancel what runs and what waits; else it goes on
    #[arg(long)]
    cancel_running: bool,
    /// Why, for the record
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "TEXT"
    )]
    reason: String,
}

impl StopAgent {
    pub(super) async fn run(self, server: &Server) -> Result<(), CliError> {
        let mode = match self.cancel_running {
            true => StopMode::CancelRunning,
            false => StopMode::Drain,
        };
        let request = api::StopAgentRequest {
            mode: mode.into(),
            reason: self.reason,
        };
        let stopped = server.client().await?.stop_agent(request).await;
        let stopped = stopped.map_err(|error| CliError::call("cannot stop the agent", &error))?;
        output::answer(&stopped, |stopped| {
            let before = if stopped.already_stopped {
                " (was before)"
            } else {
                ""
            };
            show::agent(stopped.agent.as_ref(), before);
        });
        Ok(())
    }
}

/// Lets jobs fire.
pub(super) async fn start(server: &Server) -> Result<(), CliError> {
    let started = server.client().await?;
    let started = started.start_agent(api::StartAgentRequest {}).await;
    let started = started.map_err(|error| CliError::call("cannot start the agent", &error))?;
    output::answer(&started, |started| {
        let before = if started.already_started {
            " (was before)"
        } else {
            ""
        };
        show::agent(started.agent.as_ref(), before);
    });
    Ok(())
}
