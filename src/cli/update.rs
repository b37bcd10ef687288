//! `update HANDLE`: changes settings of a scheduler.

use super::{connect::Server, error::CliError, output, plural, settings::Settings};
use clap::Args;
use rallypoint_client::api::UpdateSchedulerResponse;
use std::process::ExitCode;

/// Arguments of `update`.
#[derive(Args, Debug)]
#[command(after_help = "Settings that are not named stay; --label replaces all labels.")]
pub(super) struct Update {
    /// The scheduler: its handle or its name
    handle: String,
    #[command(flatten)]
    settings: Settings,
}

impl Update {
    /// Changes what the command line names, and nothing else.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let (settings, mask) = self.settings.into_api();
        if mask.is_empty() {
            return Err(CliError::usage("no setting is named")
                .next("name one or more: `rallypoint update --help` lists them"));
        }
        let what = format!("cannot update {}", self.handle);
        let scheduler = server.scheduler(&self.handle).await?;
        let updated = scheduler.update(settings, &mask).await;
        let scheduler = updated.map_err(|error| CliError::call(what, &error))?;
        let surplus = match scheduler.surplus {
            0 => String::new(),
            surplus => {
                let above = [
                    "running task above the new limit goes on",
                    "running tasks above the new limit go on",
                ];
                format!("; {}", plural::with_verb(surplus, above))
            }
        };
        let text = format!("updated: {}{surplus}", mask.join(", "));
        let scheduler = Some(scheduler);
        output::answer(&UpdateSchedulerResponse { scheduler }, |_| {
            output::line(text)
        });
        Ok(ExitCode::SUCCESS)
    }
}
