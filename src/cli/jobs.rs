//! `jobs`: files of recurring jobs (`docs/schedules.md`), looked at without a server.

mod after;
mod check;
mod clock_note;
mod file;
mod finding;
mod job;
mod preview;
mod rules;
mod schedule;

use super::error::CliError;
use clap::{Args, Subcommand};
use std::{path::PathBuf, process::ExitCode};

/// Arguments of `jobs`.
#[derive(Args, Debug)]
pub(super) struct Jobs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Show when the jobs of a file are due, and what changes of the clocks do to them
    Preview(preview::Preview),
    /// Say what is wrong with a file of jobs, and what may surprise
    Check(check::Check),
}

/// Which file.
#[derive(Args, Debug)]
struct JobsFile {
    /// The file of jobs
    #[arg(
        short = 'f',
        long = "file",
        value_name = "FILE",
        default_value = "jobs.toml"
    )]
    path: PathBuf,
}

impl Jobs {
    pub(super) fn run(self) -> Result<ExitCode, CliError> {
        match self.verb {
            Verb::Preview(command) => command.run(),
            Verb::Check(command) => command.run(),
        }
    }
}

impl JobsFile {
    /// The jobs of the file, or everything that is wrong with it.
    fn read(&self) -> Result<Vec<job::Job>, CliError> {
        file::read(&self.path).map_err(|faults| {
            let what = format!("{} cannot be used", self.path.display());
            CliError::usage(what).why(faults)
        })
    }
}

#[cfg(test)]
mod tests;
