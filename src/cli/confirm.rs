//! Asking a person before something is done that cannot be undone.
//!
//! Only on a terminal: a script has nobody who answers, and says what it means.

use super::{error::CliError, output};
use clap::Args;
use std::io::{self, IsTerminal};

/// Whether to ask.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Confirm {
    /// Do not ask on a terminal
    #[arg(short, long)]
    yes: bool,
}

impl Confirm {
    /// Whether there is somebody to ask.
    pub(super) fn is_needed(self) -> bool {
        !self.yes && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Returns once a person has said yes, or there is nobody to ask.
    pub(super) async fn ask(self, question: &str) -> Result<(), CliError> {
        if !self.is_needed() {
            return Ok(());
        }
        output::note(format!("{question} [y/N]"));
        let read = tokio::task::spawn_blocking(|| {
            let mut answer = String::new();
            io::stdin().read_line(&mut answer).map(|_| answer)
        });
        let answer = read.await.ok().and_then(Result::ok).unwrap_or_default();
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(CliError::new("nothing was done").why("the question was not answered by yes")),
        }
    }
}
