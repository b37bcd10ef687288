//! `prepare-target`: makes the database of a target ready for EXACTLY_ONCE tasks. Does nothing when
//! it already is.

use super::{error::CliError, install, output, postgres_url};
use crate::server::{Login, target_setup::Installed};
use clap::Args;
use serde_json::json;
use std::process::ExitCode;

/// Arguments of `prepare-target`.
#[derive(Args, Debug)]
pub(super) struct PrepareTarget {
    /// URL of the target's database with the login and password of an administrator, who may create
    /// roles and schemas
    #[arg(
        long,
        env = "RALLYPOINT_ADMIN_URL",
        hide_env_values = true,
        value_name = "URL",
        required_unless_present = "print"
    )]
    url: Option<String>,
    /// A login with which the target is used, be it a namespace's or the watchdog (may be repeated)
    #[arg(long = "login", value_name = "NAME", required = true)]
    logins: Vec<String>,
    /// Print the statements instead of running them
    #[arg(long)]
    print: bool,
}

impl PrepareTarget {
    pub(super) async fn run(self) -> Result<ExitCode, CliError> {
        let url = match (self.print, self.url) {
            (false, Some(url)) => url,
            _ => {
                let statements = Installed::Markers.statements(&self.logins);
                output::script(json!({ "statements": statements }), &statements);
                return Ok(ExitCode::SUCCESS);
            }
        };
        let administrator =
            postgres_url::read(postgres_url::ADMINISTRATOR, &url, str::parse::<Login>)?;
        let prepared = Installed::Markers.install(&administrator, &self.logins);
        let failed =
            |error| install::failed(error, "--login", "in the URL (--url, RALLYPOINT_ADMIN_URL)");
        prepared.await.map_err(failed)?;
        let text = "the target is ready for EXACTLY_ONCE tasks";
        output::document(json!({ "prepared": true }), text);
        Ok(ExitCode::SUCCESS)
    }
}
