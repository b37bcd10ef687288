//! `release HANDLE`: releases a scheduler.

use super::{connect::Server, error::CliError, output};
use clap::Args;
use rallypoint_client::api::ReleaseMode;
use std::process::ExitCode;

/// Arguments of `release`.
#[derive(Args, Debug)]
pub(super) struct Release {
    /// The scheduler
    handle: String,
    /// Cancel unfinished tasks instead of letting them finish
    #[arg(long)]
    cancel: bool,
    /// Return only once every task has ended
    #[arg(long)]
    wait: bool,
}

impl Release {
    /// Releases it and prints the number of unfinished tasks.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let mode = if self.cancel {
            ReleaseMode::Cancel
        } else {
            ReleaseMode::Finish
        };
        let what = format!("cannot release {}", self.handle);
        let answer = server
            .client()
            .await?
            .scheduler(self.handle)
            .release(mode, self.wait)
            .await;
        let answer = answer.map_err(|error| CliError::call(what, &error))?;
        let before = if answer.already_released {
            " (had been released before)"
        } else {
            ""
        };
        output::line(format!(
            "released{before}, {} tasks unfinished",
            answer.pending
        ));
        Ok(ExitCode::SUCCESS)
    }
}
