//! `migrate`: brings the schema of a coordination database up to date. Does nothing when it already
//! is. A database that is away is waited for as long as `--wait` says.

use super::{error::CliError, output, postgres_url, time_text};
use crate::{
    core::ShardId,
    database_url::options_of,
    journal::{Journal, JournalConfig, JournalError, refusal_remedy, without_line},
};
use clap::Args;
use serde_json::json;
use std::{process::ExitCode, time::Duration};
use tokio::time::{Instant, sleep};

/// Between two tries of `--wait`.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

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
    /// Wait for a database that is away, and how long at most [default: not at all]
    #[arg(long, value_parser = time_text::parse, value_name = "TIME")]
    wait: Option<Duration>,
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
        let opened = open(config, self.wait.unwrap_or_default()).await;
        opened.map_err(|error| {
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

/// Opens the journal, which brings the schema up to date. An outage is waited for so long.
async fn open(config: JournalConfig, wait: Duration) -> Result<Journal, JournalError> {
    let (begun, mut is_said) = (Instant::now(), false);
    loop {
        match Journal::open(config.clone()).await {
            Err(error) if error.is_outage() && begun.elapsed() + RETRY_INTERVAL <= wait => {
                if !is_said {
                    let why = without_line(error.to_string());
                    output::note(format!("waiting for the coordination database: {why}"));
                }
                is_said = true;
                sleep(RETRY_INTERVAL).await;
            }
            opened => return opened,
        }
    }
}
