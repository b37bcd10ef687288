//! The command line: one file per command in `cli/`.
//!
//! Data goes to stdout, progress and errors to stderr. Exit codes: 0 success, 1 failure, 2 wrong
//! usage, 3 a task did not succeed. A command translates and prints; it decides nothing that the
//! server should decide.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod async_done;
mod cancel;
mod check_config;
mod connect;
mod declare_dead;
mod demo;
mod enum_text;
mod error;
mod exec;
mod explain;
mod gantt;
mod health;
mod log;
mod migrate;
mod output;
mod postgres_url;
mod prepare_target;
mod progress;
mod release;
mod serve;
mod signals;
mod status;
mod submit_calls;
mod table;
mod target_pause;
mod task_name;
mod time_text;

use clap::{Parser, Subcommand};
use connect::Server;
use error::CliError;
use std::process::ExitCode;

/// Coordinates parallel work on Postgres: tasks in orders, and an event as each is done.
#[derive(Parser, Debug)]
#[command(name = "rallypoint", version, about, max_term_width = 100, after_help = AFTER_HELP)]
struct Cli {
    #[command(flatten)]
    server: Server,
    #[command(subcommand)]
    command: Subcommands,
}

const AFTER_HELP: &str = "\
Exit codes: 0 success, 1 failure, 2 wrong usage, 3 a task did not succeed.
Start with `rallypoint demo`, which needs only the Postgres programs on this machine.";

#[derive(Subcommand, Debug)]
enum Subcommands {
    /// Run a server (with a private Postgres unless --database names one)
    Serve(Box<serve::Serve>),
    /// Watch a private server run ten tasks in five orders
    Demo(demo::Demo),
    /// Run SQL statements as tasks, in orders, and wait for all of them
    Exec(exec::Exec),
    /// Show what the service is doing: replicas, slots, targets, backlog, journal
    Status(status::Status),
    /// List the tasks of a scheduler: order, outcome, attempts, times, errors
    Log(log::Log),
    /// Say why a task is not running: everything that keeps it from starting, and its place
    Explain(explain::Explain),
    /// Cancel one task
    Cancel(cancel::Cancel),
    /// Release a scheduler: it takes no more tasks; the rest finish or are cancelled
    Release(release::Release),
    /// Keep everything from starting on a target, or on all of them, until resume-target
    PauseTarget(target_pause::Pause),
    /// Let tasks start again on a target, or on all of them
    ResumeTarget(target_pause::Resume),
    /// Say that sessions have ended which the service cannot show to have ended
    DeclareDead(declare_dead::DeclareDead),
    /// Bring the schema of a coordination database up to date
    Migrate(migrate::Migrate),
    /// Say what is wrong with a configuration file of a server
    CheckConfig(check_config::CheckConfig),
    /// Make the database of a target ready for EXACTLY_ONCE tasks
    PrepareTarget(prepare_target::PrepareTarget),
    /// Ask a server whether it is ready (for health checks)
    Health(health::Health),
}

/// Parses the command line, runs the command and reports its error.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return CliError::new("cannot start").why(error).report(),
    };
    let result = runtime.block_on(run(cli));
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    result.unwrap_or_else(|error| error.report())
}

async fn run(Cli { server, command }: Cli) -> Result<ExitCode, CliError> {
    match command {
        Subcommands::Serve(command) => command.run().await,
        Subcommands::Demo(command) => command.run().await,
        Subcommands::Exec(command) => command.run(&server).await,
        Subcommands::Status(command) => command.run(&server).await,
        Subcommands::Log(command) => command.run(&server).await,
        Subcommands::Explain(command) => command.run(&server).await,
        Subcommands::Cancel(command) => command.run(&server).await,
        Subcommands::Release(command) => command.run(&server).await,
        Subcommands::PauseTarget(command) => command.run(&server).await,
        Subcommands::ResumeTarget(command) => command.run(&server).await,
        Subcommands::DeclareDead(command) => command.run(&server).await,
        Subcommands::Migrate(command) => command.run().await,
        Subcommands::CheckConfig(command) => command.run(),
        Subcommands::PrepareTarget(command) => command.run().await,
        Subcommands::Health(command) => command.run(&server).await,
    }
}

/// Exit code of a run in which a task did not succeed.
const TASK_FAILED: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
