//! How the tasks of `exec` run that say nothing themselves: options of the command line.

use super::{
    task_option::{self, How, RETRIES},
    task_resource::RESOURCES_STAND,
};
use crate::{
    cli::{error::CliError, number::whole, time_text},
    core::model::limits::{RESULT_ROWS, TIMEOUT, TOTAL_TIMEOUT},
};
use clap::Args;
use rallypoint_client::api::{RetryPolicy, TaskOptions};
use std::time::Duration;

/// Options for every task that does not say otherwise.
#[derive(Args, Debug)]
#[command(next_help_heading = "Tasks")]
pub(super) struct TaskArguments {
    /// Value of $1, then of $2 … in the statements given as arguments (may be repeated; \N: NULL)
    #[arg(long = "param", value_name = "VALUE", allow_hyphen_values = true)]
    params: Vec<String>,
    /// Name of the target database [default: app]
    #[arg(
        long,
        value_name = "NAME",
        hide_default_value = true,
        default_value = ""
    )]
    target: String,
    /// Time limit of one attempt, like 30s or 5m
    #[arg(long, value_parser = time_text::within(TIMEOUT), value_name = "TIME")]
    timeout: Option<Duration>,
    /// Time limit from the submission to the outcome, waiting included
    #[arg(long, value_parser = time_text::within(TOTAL_TIMEOUT), value_name = "TIME")]
    total_timeout: Option<Duration>,
    /// Further attempts after a failed one. A deadlock, a serialization failure or a lost
    /// connection is repeated without that: `--option max_losses=N` says how often in all, 3 if
    /// nothing does
    #[arg(
        long,
        default_value_t = 0,
        value_name = "N",
        value_parser = whole::<i32>(RETRIES)
    )]
    retries: i32,
    /// What becomes of a task whose attempt is lost: at-least-once, at-most-once, exactly-once
    /// [default: at-least-once]
    #[arg(long, value_name = "WORD")]
    delivery: Option<String>,
    /// Rows of each result to store and print
    #[arg(
        long,
        default_value_t = 0,
        value_name = "N",
        value_parser = whole::<i32>(RESULT_ROWS)
    )]
    result_rows: i32,
    /// Any other option by the name that a comment of a .sql file has for it, like read_only or
    /// isolation=serializable (may be repeated)
    #[arg(long = "option", value_name = "NAME=VALUE")]
    options: Vec<String>,
}

impl TaskArguments {
    /// Values of the parameters; `None`: NULL.
    pub(super) fn params(&self) -> Vec<Option<String>> {
        let values = self.params.iter();
        values.map(|text| task_option::param(text)).collect()
    }

    /// How tasks run that say nothing themselves.
    pub(super) fn how(&self) -> Result<How, CliError> {
        let mut how = How {
            target: self.target.clone(),
            options: TaskOptions {
                timeout: self.timeout.and_then(|time| time.try_into().ok()),
                total_timeout: self.total_timeout.and_then(|time| time.try_into().ok()),
                retry: Some(RetryPolicy {
                    max_attempts: Some(self.retries + 1),
                    ..RetryPolicy::default()
                }),
                result_rows: Some(self.result_rows),
                ..TaskOptions::default()
            },
        };
        if let Some(word) = &self.delivery {
            let taken = task_option::set(&mut how, "delivery", word).unwrap_or(Ok(()));
            taken.map_err(|why| CliError::usage(format!("--delivery: {why}")))?;
        }
        for option in &self.options {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let taken = task_option::set(&mut how, name, value);
            let taken = taken.unwrap_or_else(|| {
                let known: Vec<&str> = task_option::names().collect();
                Err(match name {
                    "resource" | "resources" => format!("it is written {RESOURCES_STAND}"),
                    _ => task_option::unknown(name, &known),
                })
            });
            taken.map_err(|why| CliError::usage(format!("--option {name}: {why}")))?;
        }
        Ok(how)
    }
}
