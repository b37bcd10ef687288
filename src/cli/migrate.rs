//! `migrate`: brings the schema of a coordination database up to date. Does nothing when it already
//! is. A database that is away is waited for as long as `--wait` says, and what the servers that
//! run could not live with is left to `--breaking`.

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

/// How long an owner whose lease is over has to renew it: a database that was away is back for it
/// as for us. It waits up to ten seconds for an answer that does not come, and connects then.
const RETURN_TIME: Duration = Duration::from_secs(30);

/// What to do when the owner could not live with it.
const OWNED: &str = "start a server of this version beside it, which migrates and owns the shard at \
                     once; or stop the servers that run, and migrate then; or say --breaking";
/// What to do about an error that does not say it.
const UNKNOWN: &str = "check that Postgres is running there and that this login owns the database; \
                       or that it owns what stands there and was given `grant create on database … \
                       to …` and `grant usage, create on schema … to …`";

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
    #[arg(long, value_parser = time_text::parse_or_zero, value_name = "TIME")]
    wait: Option<Duration>,
    /// Migrate also if the server that owns the shard could not live with it: none of its version
    /// owns the shard any more, so no task starts until one of this version runs
    #[arg(long)]
    breaking: bool,
}

impl Migrate {
    pub(super) async fn run(self) -> Result<ExitCode, CliError> {
        let config = JournalConfig {
            options: postgres_url::read(postgres_url::DATABASE, &self.database, options_of)?,
            shard: ShardId(0),
            allow_unsafe: false,
            readers: 1,
            retention_days: 30,
        };
        let opened = open(config, self.wait.unwrap_or_default(), self.breaking).await;
        opened.map_err(|error| {
            let next = match &error {
                JournalError::Owned { .. } => OWNED.to_owned(),
                _ => refusal_remedy(&error).unwrap_or_else(|| UNKNOWN.to_owned()),
            };
            CliError::from(anyhow::Error::from(error).context("cannot migrate the database"))
                .next(next)
        })?;
        output::document(json!({ "up_to_date": true }), "the schema is up to date");
        Ok(ExitCode::SUCCESS)
    }
}

/// Says for whom the migration waits, and how long at most.
fn say_owner(owner: &str) {
    let seconds = RETURN_TIME.as_secs();
    output::note(format!(
        "waiting for up to {seconds} s: the server {owner:?} owns the shard, and may renew its \
         lease, which is over"
    ));
}

/// Opens the journal, which brings the schema up to date. An outage is waited for so long.
async fn open(
    config: JournalConfig,
    wait: Duration,
    breaking: bool,
) -> Result<Journal, JournalError> {
    let (begun, mut is_said) = (Instant::now(), false);
    loop {
        let config = config.clone();
        let opened = match breaking {
            true => Journal::open(config).await,
            false => Journal::open_beside_owner(config, RETURN_TIME, &mut say_owner).await,
        };
        match opened {
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
