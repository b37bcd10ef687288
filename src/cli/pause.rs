//! `pause HANDLE` and `resume HANDLE`: a scheduler starts no more tasks, and starts them again.

use super::{connect::Server, error::CliError, output, plural, shell};
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
        let failed = |error| CliError::call(format!("cannot pause {}", self.handle), &error);
        let scheduler = server.scheduler(&self.handle).await?;
        let before = scheduler.describe().await.map_err(failed)?;
        let scheduler = scheduler.pause().await.map_err(failed)?;
        let before = match before.paused {
            true => " (had been paused before)",
            false => "",
        };
        let running = match scheduler.running {
            0 => String::new(),
            running => {
                let words = ["running task goes on", "running tasks go on"];
                format!("; {}", plural::with_verb(running, words))
            }
        };
        let resume = format!("`rallypoint resume {}`", shell::word(&self.handle));
        let text = format!("paused{before}: nothing starts until {resume}{running}");
        let scheduler = Some(scheduler);
        output::answer(&PauseSchedulerResponse { scheduler }, |_| {
            output::line(text)
        });
        Ok(ExitCode::SUCCESS)
    }
}

impl Resume {
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let failed = |error| CliError::call(format!("cannot resume {}", self.handle), &error);
        let scheduler = server.scheduler(&self.handle).await?;
        let before = scheduler.describe().await.map_err(failed)?;
        let scheduler = scheduler
            .resume(self.ignore_failures)
            .await
            .map_err(failed)?;
        let before = match (before.paused, &before.halt) {
            (false, None) => " (was neither paused nor halted)",
            (false, Some(_)) if !self.ignore_failures => " (was not paused)",
            _ => "",
        };
        let text = match &scheduler.halt {
            None => format!("resumed{before}"),
            Some(halt) => format!(
                "resumed{before}, but orders above {} are halted by failures: --ignore-failures lifts that",
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
