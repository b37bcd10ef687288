//! `exec`: statements become tasks of one scheduler; every AsyncDone is printed as it arrives.
//!
//! The first Ctrl-C or SIGTERM releases the scheduler with CANCEL and keeps reading, so that the
//! last line printed is the truth; the second one exits at once. When nobody reads what is printed
//! any more, the exit code still tells how the tasks have ended.

mod fault;
mod file;
mod lone_statement;
mod pipeline;
mod printer;
mod sql_file;
mod sql_script;
mod sql_token;
mod task_option;

use super::{
    connect::Server,
    enum_text::FailurePolicy,
    error::CliError,
    output::{self, Output},
    progress::{Bars, Console},
    signals::{INTERRUPTED, Signals},
    submit_calls::submit,
    time_text,
};
use clap::Args;
use printer::Printer;
use rallypoint_client::{
    Error, Scheduler,
    api::{End, OnFailure, ReleaseMode, RetryPolicy, SchedulerSettings, TaskOptions, end},
};
use std::{
    path::{Path, PathBuf},
    pin::pin,
    process::ExitCode,
    time::Duration,
};
use task_option::{Described, How};

const AFTER_LONG_HELP: &str = "\
A .sql file is split into statements as psql splits it, a task each, and still runs in psql. They
run one after the other and stop at a failure, or in orders. Comments on lines of their own say how:
  -- @order 100      of all that follows, until the next one; tasks of one order run side by side;
                     `-- @order none` stands outside
  -- @task           begins one task of several statements, in one session (BEGIN, SET, temporary
                     tables); they are one message: one transaction, unless they say otherwise
  -- @end            ends it
  -- @name TEXT      and these of the next task alone: @label KEY=VALUE, @target NAME, @timeout 30m,
                     @total_timeout 2h, @retries 3, @delivery exactly once, @result_rows 10, @read_only,
                     @isolation serializable, @search_path a, b, @statement_timeout 5m, @role NAME
Refused with their line: psql's own commands but `\\set ON_ERROR_STOP on`, and COPY from stdin or to
stdout. Variables of psql (`:name`) are left as they are, as in psql without them.

A table of tasks, statements of several lines included, comes as JSON lines, whose fields are
statement, order, labels and the names above:
  psql -AtXc \"select json_build_object('order', step, 'statement', sql) from todo\" |
    rallypoint exec -f -";

/// Arguments of `exec`.
#[derive(Args, Debug)]
#[command(after_long_help = AFTER_LONG_HELP)]
pub(super) struct Exec {
    /// SQL statements, a task each, or one file that ends in .sql (--help says what it may hold)
    #[arg(required_unless_present = "file", value_name = "SQL")]
    statements: Vec<String>,
    /// A file of `order, statement` lines or JSON lines (`-`: stdin); # begins a comment, an empty
    /// order means none
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Show the tasks in their orders, with what is said of them, and run nothing
    #[arg(long)]
    explain: bool,
    /// Order of the statements given as arguments [default: none]
    #[arg(long, value_name = "N")]
    order: Option<i64>,
    /// Most tasks running at a time [default: as many as there are slots]
    #[arg(long, value_name = "N")]
    max_parallelism: Option<i32>,
    /// What a failure does to the orders after it [default: halt for a .sql file, else continue]
    #[arg(long, value_enum)]
    on_failure: Option<FailurePolicy>,
    /// Name of the target database [default: app]
    #[arg(
        long,
        value_name = "NAME",
        hide_default_value = true,
        default_value = ""
    )]
    target: String,
    /// Time limit of one attempt, like 30s or 5m
    #[arg(long, value_parser = time_text::parse, value_name = "TIME")]
    timeout: Option<Duration>,
    /// Further attempts after a failed one
    #[arg(
        long,
        default_value_t = 0,
        value_name = "N",
        value_parser = clap::value_parser!(i32).range(0..1000)
    )]
    retries: i32,
    /// Rows of each result to store and print
    #[arg(long, default_value_t = 0, value_name = "N")]
    result_rows: i32,
    #[command(flatten)]
    output: Output,
}

impl Exec {
    /// Opens a scheduler, submits, prints, releases.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let tasks = self.tasks()?;
        if self.explain {
            return Ok(self.explained(&tasks));
        }
        let mut signals = Signals::new()?;
        let bars = Bars::new(tasks.iter().map(|task| task.order));
        let scheduler = tokio::select! {
            opened = self.open(server) => opened?,
            () = signals.next() => return Ok(ExitCode::from(INTERRUPTED)),
        };
        bars.console()
            .say(format!("scheduler {}", scheduler.handle()));
        let mut printer = Printer::new(tasks.clone(), bars, self.output);
        let tasks = tasks.into_iter().map(Described::into_task).collect();
        let submitted = tokio::select! {
            submitted = submit(&scheduler, tasks) => Some(submitted),
            () = signals.next() => None,
        };
        if let Some(Err(error)) = submitted {
            let cancelled = cancel(&scheduler, &printer.console(), &mut signals).await;
            return Err(match cancelled {
                Ok(()) => error,
                Err(_) => error
                    .why("what has been submitted could not be cancelled")
                    .next(format!(
                        "run `rallypoint release {} --cancel`",
                        scheduler.handle()
                    )),
            });
        }
        if submitted.is_none() {
            cancel(&scheduler, &printer.console(), &mut signals).await?;
        }
        follow(&scheduler, &mut printer, &mut signals, submitted.is_none()).await?;
        Ok(printer.verdict())
    }

    async fn open(&self, server: &Server) -> Result<Scheduler, CliError> {
        let opened = server.client().await?.open(self.settings()).await;
        opened.map_err(|error| CliError::call("cannot open a scheduler", &error))
    }

    /// The tasks in ascending order: when they need several calls, a later call must not have a
    /// lower order.
    fn tasks(&self) -> Result<Vec<Described>, CliError> {
        let how = self.how();
        let mut tasks = match self.sql_file() {
            Some(path) => {
                if self.statements.len() + usize::from(self.file.is_some()) > 1
                    || self.order.is_some()
                {
                    let what = format!("{} is a file of SQL, which stands alone", path.display());
                    return Err(CliError::usage(what).next(
                        "give other statements to a command of their own, orders by `-- @order N`",
                    ));
                }
                file::read(path, &how)?
            }
            None => {
                let arguments = self.statements.iter().map(|text| Described {
                    order: self.order,
                    statement: text.clone(),
                    how: how.clone(),
                    ..Described::default()
                });
                let mut tasks: Vec<Described> = arguments.collect();
                if let Some(path) = &self.file {
                    tasks.extend(file::read(path, &how)?);
                }
                tasks
            }
        };
        if tasks.is_empty() {
            return Err(CliError::new("there is nothing to run")
                .next("write a statement per line: `100, select 1`"));
        }
        tasks.sort_by_key(|task| task.order);
        Ok(tasks)
    }

    /// The file of SQL that is named, as an argument or by --file.
    fn sql_file(&self) -> Option<&Path> {
        let arguments = self.statements.iter().map(Path::new);
        let mut paths = arguments.chain(self.file.as_deref());
        paths.find(|path| file::is_sql(path))
    }

    fn on_failure(&self) -> FailurePolicy {
        let default = match self.sql_file() {
            Some(_) => FailurePolicy::Halt,
            None => FailurePolicy::Continue,
        };
        self.on_failure.unwrap_or(default)
    }

    fn explained(&self, tasks: &[Described]) -> ExitCode {
        match self.output.json() {
            true => {
                tasks
                    .iter()
                    .map(pipeline::json)
                    .for_each(|task| output::json(&task));
                if self.on_failure() == FailurePolicy::Halt {
                    // The lines are of tasks, and this is of the whole.
                    output::note("run them with `exec -f FILE --on-failure halt`");
                }
            }
            false => pipeline::picture(tasks, self.on_failure())
                .iter()
                .for_each(output::line),
        }
        ExitCode::SUCCESS
    }

    fn settings(&self) -> SchedulerSettings {
        SchedulerSettings {
            display_name: "rallypoint exec".to_owned(),
            max_parallelism: self.max_parallelism,
            on_failure: OnFailure::from(self.on_failure()).into(),
            ..SchedulerSettings::default()
        }
    }

    /// How tasks run that say nothing themselves.
    fn how(&self) -> How {
        How {
            target: self.target.clone(),
            options: TaskOptions {
                timeout: self.timeout.and_then(|timeout| timeout.try_into().ok()),
                retry: Some(RetryPolicy {
                    max_attempts: Some(self.retries + 1),
                    ..RetryPolicy::default()
                }),
                result_rows: Some(self.result_rows),
                ..TaskOptions::default()
            },
        }
    }
}

/// Prints events until every task has ended, then releases the scheduler; also after a halt or on a
/// signal. `interrupted`: there has been one.
async fn follow(
    scheduler: &Scheduler,
    printer: &mut Printer,
    signals: &mut Signals,
    mut interrupted: bool,
) -> Result<(), CliError> {
    let console = printer.console();
    let mut printing = pin!(print_all(scheduler, printer));
    loop {
        tokio::select! {
            printed = &mut printing => return printed,
            () = signals.next() => {
                if interrupted {
                    std::process::exit(INTERRUPTED.into());
                }
                interrupted = true;
                cancel(scheduler, &console, signals).await?;
            }
        }
    }
}

/// Cancels what is left. A signal meanwhile exits at once: the server may not answer.
async fn cancel(
    scheduler: &Scheduler,
    console: &Console,
    signals: &mut Signals,
) -> Result<(), CliError> {
    console.say("cancelling (a signal exits at once) …");
    tokio::select! {
        released = release(scheduler, ReleaseMode::Cancel, false) => released,
        () = signals.next() => std::process::exit(INTERRUPTED.into()),
    }
}

async fn print_all(scheduler: &Scheduler, printer: &mut Printer) -> Result<(), CliError> {
    let end = print_events(scheduler, printer, 0).await?;
    if end.reason() == end::Reason::Halted {
        printer.console().say(format!(
            "halted by a failure: {} blocked tasks are cancelled",
            end.blocked
        ));
    }
    release(scheduler, ReleaseMode::Finish, true).await?;
    let seen = printer.seen();
    print_events(scheduler, printer, seen).await.map(drop)
}

/// Prints the events after `after`. Returns why the stream ended.
async fn print_events(
    scheduler: &Scheduler,
    printer: &mut Printer,
    after: i64,
) -> Result<End, CliError> {
    let mut events = scheduler.synchronize(after, None).await.map_err(broken)?;
    while let Some(done) = events.next().await.map_err(broken)? {
        done.iter().for_each(|done| printer.event(done));
    }
    Ok(events.end().cloned().unwrap_or_default())
}

async fn release(scheduler: &Scheduler, mode: ReleaseMode, wait: bool) -> Result<(), CliError> {
    let released = scheduler.release(mode, wait).await;
    released
        .map(drop)
        .map_err(|error| CliError::call(format!("cannot release {}", scheduler.handle()), &error))
}

fn broken(error: Error) -> CliError {
    CliError::call("the stream of events broke", &error)
}
