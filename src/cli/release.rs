//! `release HANDLE`: ends a conversation.

use super::{Failure, connect::Server, output};
use crate::api::{ReleaseMode, ReleaseSchedulerRequest};
use clap::Args;
use std::process::ExitCode;

/// Arguments of `release`.
#[derive(Args, Debug)]
pub struct Release {
    /// The scheduler
    handle: String,
    /// Cancel what has not ended, instead of letting it finish
    #[arg(long)]
    cancel: bool,
    /// Return only when every task has ended
    #[arg(long)]
    wait: bool,
}

impl Release {
    /// Releases it and says what is left.
    pub async fn run(self, server: &Server) -> Result<ExitCode, Failure> {
        let mode = if self.cancel { ReleaseMode::Cancel } else { ReleaseMode::Finish };
        let what = format!("cannot release {}", self.handle);
        let request = ReleaseSchedulerRequest { handle: self.handle, mode: mode.into(), wait: self.wait };
        let mut client = server.schedulers().await?;
        let answer = client.release_scheduler(request).await.map_err(|status| Failure::rpc(what, &status))?.into_inner();
        let before = if answer.already_released { " (it was released before)" } else { "" };
        output::line(format!("released{before}, {} tasks unfinished", answer.pending));
        Ok(ExitCode::SUCCESS)
    }
}
