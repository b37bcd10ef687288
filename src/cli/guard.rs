//! `guard install`: a function into the database of a target that refuses writers whose hold of a
//! resource is over (`docs/guard.md`). Does nothing when it is there already.

use super::{error::CliError, install::Install};
use crate::server::target_setup::Installed;
use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Arguments of `guard`.
#[derive(Args, Debug)]
pub(super) struct Guard {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Install the function that refuses writers whose hold is over into a target's database
    Install(Install),
}

impl Guard {
    /// Does what the verb says.
    pub(super) async fn run(self) -> Result<ExitCode, CliError> {
        let Verb::Install(install) = self.verb;
        install.run(Installed::Guard).await
    }
}
