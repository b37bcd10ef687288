//! `migrate`: brings the schema of a coordination database up to date. Does nothing when it already
//! is.

use super::{error::CliError, output};
use crate::{
    core::ShardId,
    journal::{Journal, JournalConfig},
};
use clap::Args;
use std::process::ExitCode;

/// Arguments of `migrate`.
#[derive(Args, Debug)]
pub(super) struct Migrate {
    /// URL of the coordination database
    #[arg(
        long,
        env = "RALLYPOINT_DATABASE",
        hide_env_values = true,
        value_name = "URL"
    )]
    database: String,
}

impl Migrate {
    pub(super) async fn run(self) -> Result<ExitCode, CliError> {
        let options = self.database.parse().map_err(|error| {
            CliError::new("the URL of the database is malformed")
                .why(error)
                .next("write it like postgres://user@host/rallypoint")
        })?;
        let config = JournalConfig {
            options,
            shard: ShardId(0),
            allow_unsafe: false,
            readers: 1,
            retention_days: 30,
        };
        Journal::open(config).await.map_err(|error| {
            CliError::new("cannot migrate the database")
                .why(error)
                .next("check that Postgres is running there and that this login owns the database")
        })?;
        output::line("the schema is up to date");
        Ok(ExitCode::SUCCESS)
    }
}
