//! `migrate`: brings the schema of a coordination database up to date. Does nothing when it already
//! is.

use super::{error::CliError, output, postgres_url};
use crate::{
    core::ShardId,
    database_url::options_of,
    journal::{Journal, JournalConfig, refusal_remedy},
};
use clap::Args;
use serde_json::json;
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
        let config = JournalConfig {
            options: postgres_url::read("--database", &self.database, options_of)?,
            shard: ShardId(0),
            allow_unsafe: false,
            readers: 1,
            retention_days: 30,
        };
        Journal::open(config).await.map_err(|error| {
            let next = refusal_remedy(&error).unwrap_or_else(|| {
                "check that Postgres is running there and that this login owns the database, or \
                 may create schemas in it and owns what stands there"
                    .to_owned()
            });
            CliError::from(anyhow::Error::from(error).context("cannot migrate the database"))
                .next(next)
        })?;
        output::document(json!({ "up_to_date": true }), "the schema is up to date");
        Ok(ExitCode::SUCCESS)
    }
}
