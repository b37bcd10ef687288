//! `jobs`: recurring jobs (`docs/schedules.md`). Files of them are looked at without a server, and
//! brought to it by `apply`.

mod after;
mod agent;
mod apply;
mod check;
mod claim;
mod clock_note;
mod fault;
mod file;
mod finding;
mod history;
mod import;
mod job;
mod job_clock;
mod log;
mod missing_resources;
mod preview;
mod remote;
mod rules;
mod runs;
mod schedule;
mod show;
mod waiting;

pub(super) use import::Import;

use super::{connect::Server, error::CliError, install::Install, shell, unreadable};
use crate::server::target_setup::Installed;
use clap::{Args, Subcommand};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

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
    /// Make the jobs of the service those of a file: create and change what differs
    Apply(apply::Apply),
    /// List jobs with their next due times
    List,
    /// Show a job
    Get(remote::Named),
    /// Delete a job; what runs goes on
    Delete(remote::Named),
    /// Start a run now
    Run(remote::RunNow),
    /// Start nothing more of a job; its due times are skipped
    Pause(remote::Pause),
    /// Go on with the next due time
    Resume(remote::Named),
    /// Show due times with what became of them, newest first
    Runs(runs::Runs),
    /// Show the tasks of a run: the last one, or that of a due time
    Log(log::Log),
    /// Cancel a run that goes on or waits
    CancelRun(remote::NamedRun),
    /// Have runs for due times in the past that had none
    Backfill(remote::Backfill),
    /// Do a run by a command, unless somebody else has it
    Claim(Box<claim::ClaimCommand>),
    /// Show a run with its claims
    GetRun(remote::NamedRun),
    /// Install the functions that finish claimed runs into a target's database
    Install(Install),
    /// Let the jobs of all namespaces fire
    StartAgent,
    /// Let no job of any namespace fire, and say what still runs
    StopAgent(agent::StopAgent),
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
    /// It hears signals by itself.
    pub(super) fn ends_in_order(&self) -> bool {
        matches!(self.verb, Verb::Claim(_))
    }

    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        match self.verb {
            Verb::Preview(command) => return command.run(),
            Verb::Check(command) => return command.run(server).await,
            Verb::Apply(command) => return command.run(server).await,
            Verb::List => remote::list(server).await?,
            Verb::Get(job) => job.get(server).await?,
            Verb::Delete(job) => job.delete(server).await?,
            Verb::Run(command) => command.run(server).await?,
            Verb::Pause(command) => command.run(server).await?,
            Verb::Resume(job) => job.resume(server).await?,
            Verb::Runs(command) => command.run(server).await?,
            Verb::Log(command) => command.run(server).await?,
            Verb::CancelRun(run) => run.cancel(server).await?,
            Verb::Install(command) => return command.run(Installed::Runs).await,
            Verb::Claim(command) => return command.run(server).await,
            Verb::Backfill(command) => command.run(server).await?,
            Verb::GetRun(run) => run.get(server).await?,
            Verb::StartAgent => agent::start(server).await?,
            Verb::StopAgent(command) => command.run(server).await?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Which file, also without an option.
#[derive(Args, Debug)]
struct AnyJobsFile {
    /// The file of jobs, as with --file
    #[arg(value_name = "FILE", conflicts_with = "path")]
    named: Option<PathBuf>,
    #[command(flatten)]
    file: JobsFile,
}

impl AnyJobsFile {
    fn path(&self) -> &Path {
        self.named.as_deref().unwrap_or(&self.file.path)
    }
}

/// The jobs of a file, or everything that is wrong with it.
fn read(path: &Path) -> Result<Vec<job::Job>, CliError> {
    file::read(path).map_err(|faults| {
        let path = path.display().to_string();
        let what = format!("{path} cannot be used");
        let error = match faults.unread() {
            Some(_) => CliError::new(what),
            None => CliError::usage(what),
        };
        let path = shell::word(&path);
        let correct =
            format!("correct it: `rallypoint jobs check {path}` says whether it is good then");
        unreadable::of_toml(error, &faults, correct)
    })
}

#[cfg(test)]
mod tests;
