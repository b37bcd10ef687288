//! The command line: one file per verb under `cli/`.
//!
//! Data goes to stdout, progress and errors to stderr. Exit codes: 0 all went well, 1 it did not, 2
//! the command line was wrong, 3 a task did not succeed. A verb translates and prints; it decides
//! nothing the server should decide.

mod cancel;
mod clock;
mod connect;
mod demo;
mod error;
mod event;
mod exec;
mod gantt;
mod health;
mod labels;
mod log;
mod migrate;
mod output;
mod progress;
mod release;
mod serve;
mod status;
mod submit;
mod table;

use clap::{Parser, Subcommand};
use connect::Server;
use error::CliError;
use std::process::ExitCode;

/// Coordinates parallel work on Postgres: tasks in orders, told as each is done.
#[derive(Parser, Debug)]
#[command(name = "rallypoint", version, about, max_term_width = 100, after_help = AFTER_HELP)]
struct Cli {
    #[command(flatten)]
    server: Server,
    #[command(subcommand)]
    verb: Verb,
}

const AFTER_HELP: &str = "\
Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 a task did not succeed.
Start with `rallypoint demo`, which needs nothing but Postgres' programs on this machine.";

#[derive(Subcommand, Debug)]
enum Verb {
    /// Run a server (with a private Postgres unless --database names one)
    Serve(serve::Serve),
    /// Watch the service at work: a private server runs ten tasks in five orders
    Demo(demo::Demo),
    /// Run SQL statements as tasks, in orders, and wait for all of them
    Exec(exec::Exec),
    /// What the service is doing: replicas, slots, targets, backlog, journal
    Status(status::Status),
    /// The tasks of a scheduler: order, outcome, attempts, times, errors
    Log(log::Log),
    /// Cancel one task
    Cancel(cancel::Cancel),
    /// End a conversation: no more tasks; the rest finish, or are cancelled
    Release(release::Release),
    /// Bring the schema of a coordination database up to date
    Migrate(migrate::Migrate),
    /// Ask a server whether it is ready (for probes)
    Health(health::Health),
}

/// Reads the command line, runs the verb, and says how it went.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return CliError::new("cannot start").why(error).report(),
    };
    let done = runtime.block_on(run(cli));
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    done.unwrap_or_else(|failure| failure.report())
}

async fn run(Cli { server, verb }: Cli) -> Result<ExitCode, CliError> {
    match verb {
        Verb::Serve(verb) => verb.run().await,
        Verb::Demo(verb) => verb.run().await,
        Verb::Exec(verb) => verb.run(&server).await,
        Verb::Status(verb) => verb.run(&server).await,
        Verb::Log(verb) => verb.run(&server).await,
        Verb::Cancel(verb) => verb.run(&server).await,
        Verb::Release(verb) => verb.run(&server).await,
        Verb::Migrate(verb) => verb.run().await,
        Verb::Health(verb) => verb.run(&server).await,
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
