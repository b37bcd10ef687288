//! The command line: one file per command in `cli/`.
//!
//! Data goes to stdout, progress and errors to stderr. A command translates and prints; it decides
//! nothing that the server should decide. `docs/cli.md` has every verb, what it prints as JSON and
//! the exit codes, and tests hold it to that.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod account;
mod api_words;
mod async_done;
mod attempts;
mod bar_terminal;
mod cancel;
mod check_config;
mod child;
mod columns;
mod completions;
mod confirm;
mod connect;
mod credentials;
mod declare_dead;
mod demo;
mod doctor;
mod enum_text;
mod error;
mod exec;
mod exit;
mod explain;
mod filter;
mod forecast;
mod gantt;
mod get;
mod guard;
mod health;
mod install;
mod job_signals;
mod jobs;
mod json;
mod list;
mod listing;
mod lock;
mod man;
mod meant;
mod migrate;
mod number;
mod outage_note;
mod output;
mod pause;
mod peer_files;
mod plural;
mod postgres_url;
mod prepare_target;
mod progress;
mod release;
mod resource;
mod retry;
mod serve;
mod server_address;
mod settings;
mod shell;
mod signals;
mod status;
mod submit_calls;
mod table;
mod target_pause;
mod task_name;
mod tasks;
mod terminal;
mod terminal_text;
mod time_text;
mod tips;
mod top;
mod unreadable;
mod update;
mod variables;
mod wait;
mod when;
mod words;

use clap::{
    CommandFactory, FromArgMatches, Parser, Subcommand,
    error::{ContextKind, ErrorKind},
};
use connect::Server;
use error::CliError;
use output::Output;
use signals::Signals;
use std::{ffi::OsString, process::ExitCode};

/// Coordinates parallel work on Postgres: tasks in orders, and an event as each is done.
#[derive(Parser, Debug)]
#[command(name = "rallypoint", version, about, max_term_width = 100, after_help = after_help())]
struct Cli {
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    output: Output,
    #[command(subcommand)]
    command: Subcommands,
}

fn after_help() -> String {
    format!(
        "{}\nStart with `rallypoint demo`, which needs only the Postgres programs on this machine.",
        exit::table()
    )
}

#[derive(Subcommand, Debug)]
enum Subcommands {
    /// Run a server (with a private Postgres unless --database names one)
    Serve(Box<serve::Serve>),
    /// Watch a private server run ten tasks in five orders
    Demo(demo::Demo),
    /// Run SQL statements as tasks, in orders, and wait for all of them
    Exec(Box<exec::Exec>),
    /// Follow the tasks of a scheduler until all have ended
    #[command(visible_alias = "attach")]
    Wait(wait::Wait),
    /// Show what the service is doing: replicas, slots, targets, backlog, journal
    Status(status::Status),
    /// Watch and steer the service in a terminal: schedulers, tasks, jobs, resources, replicas
    Top(top::Top),
    /// List schedulers: state, counts, labels
    List(list::List),
    /// List the tasks of a scheduler: order, outcome, attempts, times, errors
    Tasks(tasks::Tasks),
    /// List the attempts of a task: times, where each ran, errors
    Attempts(attempts::Attempts),
    /// Show a scheduler or a task in full
    Get(get::Get),
    /// Say why a task is not running: everything that keeps it from starting, and its place
    Explain(explain::Explain),
    /// Say when a scheduler, an order or a task will have ended, with a bound for nine of ten cases
    Forecast(forecast::Forecast),
    /// Submit tasks once more that have ended in vain: some, or all that failed
    Retry(retry::Retry),
    /// Cancel one task, or all that have not ended and meet conditions
    Cancel(cancel::Cancel),
    /// Start no more tasks of a scheduler; running ones go on
    Pause(pause::Pause),
    /// Lift a pause, and with --ignore-failures a halt
    Resume(pause::Resume),
    /// Change settings of a scheduler
    Update(update::Update),
    /// Release a scheduler: it takes no more tasks; the rest finish or are cancelled
    Release(release::Release),
    /// Keep everything from starting on a target, or on all of them, until resume-target
    PauseTarget(target_pause::Pause),
    /// Let tasks start again on a target, or on all of them
    ResumeTarget(target_pause::Resume),
    /// Say that sessions have ended which the service cannot show to have ended
    DeclareDead(declare_dead::DeclareDead),
    /// Run a command while holding a resource
    Lock(lock::Lock),
    /// Define resources, see who holds them and who waits, release holds
    Resource(resource::Resource),
    /// Have the database of a target refuse writers whose hold is over
    Guard(guard::Guard),
    /// Bring the schema of a coordination database up to date
    Migrate(migrate::Migrate),
    /// Say what is wrong with a configuration file of a server
    CheckConfig(check_config::CheckConfig),
    /// Make the database of a target ready for EXACTLY_ONCE tasks
    PrepareTarget(prepare_target::PrepareTarget),
    /// Recurring jobs: define them by a file, run and pause them, see what became of them
    Jobs(jobs::Jobs),
    /// Take over what another cron runs: write a file of jobs, and compare the due times
    Import(jobs::Import),
    /// Look at what a server needs (database, targets, certificates, replicas): what is wrong, and
    /// what to do
    Doctor(doctor::Doctor),
    /// Ask a server whether it is ready (for health checks)
    Health(health::Health),
    /// Print what a shell needs to complete this command line
    Completions(completions::Completions),
    /// Print manual pages
    Man(man::Manual),
}

/// Parses the command line, runs the command and reports its error.
pub fn main() -> ExitCode {
    let cli = match parsed() {
        Ok(cli) => cli,
        Err(error) => return refuse(error),
    };
    cli.output.begin();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return output::failed(&CliError::new("cannot start").why(error)),
    };
    let result = runtime.block_on(run(&cli.server, cli.command));
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    let ended = result.unwrap_or_else(|error| output::failed(&error));
    match output::is_lost() && ended == ExitCode::SUCCESS {
        true => ExitCode::FAILURE,
        false => ended,
    }
}

fn parsed() -> Result<Cli, clap::Error> {
    let words = words::of(std::env::args_os());
    let takes_time = |option: &str| takes_time(&command_line(), option);
    if let Some(wrong) = words::unit_apart(&words, takes_time) {
        return Err(command_line().error(ErrorKind::InvalidValue, wrong));
    }
    let command = variables::without_empty(command_line());
    let command = variables::without_excluded(command, &words);
    let matches = command.try_get_matches_from(&words);
    let matches = matches.map_err(|error| {
        let error = tips::sensible(as_written(error, &words));
        tips::with_variables(error, &command_line())
    })?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command_line()))
}

/// Whether an option is a length of time or an instant, wherever there is one of this name.
fn takes_time(command: &clap::Command, option: &str) -> bool {
    let is_it = |argument: &clap::Arg| {
        let names = argument.get_value_names().unwrap_or_default();
        let is_time = |name: &clap::builder::Str| name.split('|').any(|kind| kind == "TIME");
        argument.get_long() == Some(option) && names.iter().any(is_time)
    };
    let mut below = command.get_subcommands();
    command.get_arguments().any(is_it) || below.any(|verb| takes_time(verb, option))
}

/// The error with a usage that shows the options of the command line, and not those that the
/// environment sets.
fn as_written(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let written = variables::without_any(command_line()).try_get_matches_from(words);
    let usage = written.err();
    if let Some(usage) = usage.and_then(|it| it.get(ContextKind::Usage).cloned()) {
        error.insert(ContextKind::Usage, usage);
    }
    error
}

/// All verbs with their options.
fn command_line() -> clap::Command {
    with_negative_numbers(Cli::command())
}

/// A negative number is a value and no option: what takes none then says what it takes.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let taken = |argument: clap::Arg| {
        let is_plain = !argument.is_allow_hyphen_values_set() && !argument.is_last_set();
        match is_plain && argument.get_action().takes_values() {
            true => argument.allow_negative_numbers(true),
            false => argument,
        }
    };
    command
        .mut_args(taken)
        .mut_subcommands(with_negative_numbers)
}

/// Shows help, or what is wrong with the command line: in the form that it asks for.
fn refuse(error: clap::Error) -> ExitCode {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    if !error.use_stderr() || !Output::is_json_wanted(words) {
        error.exit();
    }
    Output::begin_json();
    output::failed(&in_parts(&error.to_string()))
}

/// What clap says, for programs: what it lists behind a colon belongs to its first sentence, and
/// its last line is the next step.
fn in_parts(text: &str) -> CliError {
    let (first, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let (what, listed) = first.split_once('\n').unwrap_or((first, ""));
    let what = what.trim_start_matches("error: ");
    let error = match what.ends_with(':') {
        true => {
            let listed: Vec<&str> = lines(listed).collect();
            CliError::usage(format!("{what} {}", listed.join(", ")))
        }
        false => lines(listed).fold(CliError::usage(what), CliError::why),
    };
    let more = |error: CliError, line: &str| match line.strip_prefix("For more information, ") {
        Some(next) => error.next(next.trim_end_matches('.')),
        None => error.why(line),
    };
    lines(rest).fold(error, more)
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

/// Runs a command. What only asks and prints ends at once when a signal asks for it; it may be
/// repeated.
async fn run(server: &Server, command: Subcommands) -> Result<ExitCode, CliError> {
    if command.ends_in_order() {
        return carried_out(server, command).await;
    }
    let mut signals = Signals::new()?;
    tokio::select! {
        ended = carried_out(server, command) => ended,
        exit = signals.next() => Ok(exit.into()),
    }
}

/// Runs it, and adds to its error what every command knows: where the server is, and its names.
async fn carried_out(server: &Server, command: Subcommands) -> Result<ExitCode, CliError> {
    match command.run(server).await {
        Err(error) => Err(meant::suggested(server, error.called_at(&server.address)).await),
        ended => ended,
    }
}

impl Subcommands {
    /// It hears signals by itself.
    fn ends_in_order(&self) -> bool {
        use Subcommands::{Demo, Exec, Jobs, Lock, Serve, Top, Wait};
        match self {
            Serve(_) | Demo(_) | Exec(_) | Lock(_) | Top(_) | Wait(_) => true,
            Jobs(command) => command.ends_in_order(),
            _ => false,
        }
    }

    async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        match self {
            Subcommands::Serve(command) => {
                server.refuse_for_server()?;
                command.run().await
            }
            Subcommands::Demo(command) => command.run().await,
            Subcommands::Exec(command) => command.run(server).await,
            Subcommands::Wait(command) => command.run(server).await,
            Subcommands::Status(command) => command.run(server).await,
            Subcommands::Top(command) => command.run(server).await,
            Subcommands::List(command) => command.run(server).await,
            Subcommands::Tasks(command) => command.run(server).await,
            Subcommands::Attempts(command) => command.run(server).await,
            Subcommands::Get(command) => command.run(server).await,
            Subcommands::Explain(command) => command.run(server).await,
            Subcommands::Forecast(command) => command.run(server).await,
            Subcommands::Retry(command) => command.run(server).await,
            Subcommands::Cancel(command) => command.run(server).await,
            Subcommands::Pause(command) => command.run(server).await,
            Subcommands::Resume(command) => command.run(server).await,
            Subcommands::Update(command) => command.run(server).await,
            Subcommands::Release(command) => command.run(server).await,
            Subcommands::PauseTarget(command) => command.run(server).await,
            Subcommands::ResumeTarget(command) => command.run(server).await,
            Subcommands::DeclareDead(command) => command.run(server).await,
            Subcommands::Lock(command) => command.run(server).await,
            Subcommands::Resource(command) => command.run(server).await,
            Subcommands::Guard(command) => command.run().await,
            Subcommands::Migrate(command) => command.run().await,
            Subcommands::CheckConfig(command) => command.run(),
            Subcommands::PrepareTarget(command) => command.run().await,
            Subcommands::Import(command) => command.run().await,
            Subcommands::Jobs(command) => command.run(server).await,
            Subcommands::Doctor(command) => command.run().await,
            Subcommands::Health(command) => command.run(server).await,
            Subcommands::Completions(command) => command.run(command_line()),
            Subcommands::Man(command) => command.run(command_line()),
        }
    }
}

#[cfg(test)]
mod tests;
