//! `pause HANDLE` and `resume HANDLE`: a scheduler starts no more tasks, and starts them again.

use super::{connect::Server, error::CliError, output, plural};
use clap::Args;
use rallypoint_client::api::{PauseSchedulerResponse, ResumeSchedulerResponse};
use std::process::ExitCode;

/// Arguments of `pause`.
#[derive(Args, Debug)]
pub(super) struct Pause {
    /// The scheduler: its handle or its name
    handle: String,
}

/// Arguments of `resume`.
#[derive(Args, Debug)]
pub(super) struct Resume {
    /// The scheduler: its handle or its name
    handle: String,
    /// Also lift a halt: the orders after the failure start as if nothing had failed
    #[arg(long)]
    ignore_failures: bool,
}

impl Pause {
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let what = format!("cannot pause {}", self.handle);
        let paused = server.scheduler(&self.handle).await?.pause().await;
        let scheduler = paused.map_err(|error| CliError::call(what, &error))?;
        let resume = format!("`rallypoint resume {}`", self.handle);
        let text = match scheduler.running {
            0 => format!("paused: nothing starts until {resume}"),
            running => {
                let running =
                    plural::with_verb(running, ["running task goes on", "running tasks go on"]);
                format!("paused: nothing starts until {resume}; {running}")
            }
        };
        let scheduler = Some(scheduler);
        output::answer(&PauseSchedulerResponse { scheduler }, |_| {
            output::line(text)
        });
        Ok(ExitCode::SUCCESS)
    }
}

impl Resume {
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let what = format!("cannot resume {}", self.handle);
        let scheduler = server.scheduler(&self.handle).await?;
        let resumed = scheduler.resume(self.ignore_failures).await;
        let scheduler = resumed.map_err(|error| CliError::call(what, &error))?;
        let text = match &scheduler.halt {
            None => "resumed".to_owned(),
            Some(halt) => format!(
                "resumed, but orders above {} are halted by failures: --ignore-failures lifts that",
                halt.order
            ),
        };
        let scheduler = Some(scheduler);
        output::answer(&ResumeSchedulerResponse { scheduler }, |_| {
            output::line(text)
        });
        Ok(ExitCode::SUCCESS)
    }
}
