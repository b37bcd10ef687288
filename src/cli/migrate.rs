//! `migrate`: brings the schema of a coordination database up to date, and does nothing when it is.

use super::{Failure, output};
use clap::Args;
use std::process::ExitCode;

/// Arguments of `migrate`.
#[derive(Args, Debug)]
pub struct Migrate {
    /// URL of the coordination database
    #[arg(long, env = "RALLYPOINT_DATABASE", hide_env_values = true, value_name = "URL")]
    database: String,
}

impl Migrate {
    /// Migrates, or says why not.
    pub async fn run(self) -> Result<ExitCode, Failure> {
        crate::journal::migrate(&self.database).await?;
        output::line("the schema is up to date");
        Ok(ExitCode::SUCCESS)
    }
}
