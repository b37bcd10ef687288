//! `exec`: statements become tasks of one scheduler; every AsyncDone is printed as it arrives.
//!
//! The first Ctrl-C or SIGTERM releases the scheduler with CANCEL and keeps reading, so that the
//! last line printed is the truth; the second one exits at once. When nobody reads what is printed
//! any more, the exit code still tells how the tasks have ended.

mod api_word;
mod cancel_rest;
mod fault;
mod file;
mod file_name;
mod follow;
mod given_up;
mod halt;
mod idle_note;
mod json_params;
mod lone_statement;
mod not_submitted;
mod own_tasks;
mod pipeline;
pub(super) mod printer;
mod psql_variable;
mod quoting;
mod run;
mod sql_file;
mod sql_script;
mod sql_token;
mod task_option;
mod task_options;
mod task_resource;
mod unique_json;

pub(super) use file::{field, of_sql_file};
pub(super) use file_name::refuse as refuse_file;
pub(super) use task_option::{
    Described, in_words as options_in_words, is_time, name_of, names as option_names, sql_value,
    titled,
};
pub(super) use task_resource::RESOURCES_STAND;

use super::{
    connect::Server, enum_text::FailurePolicy, error::CliError, number::whole, output,
    progress::Bars, settings::Settings, shell, signals::Signals,
};
use crate::core::model::limits::MAX_ORDER;
use clap::{Args, builder::NonEmptyStringValueParser};
use file::Format;
use follow::{detach, follow};
use given_up::give_back;
use not_submitted::{not_opened, not_submitted};
use own_tasks::OwnTasks;
use printer::Printer;
use rallypoint_client::api::{self, OnFailure, SchedulerSettings, Task};
use run::{Ending, Run};
use std::{
    cell::Cell,
    path::{Path, PathBuf},
    pin::pin,
    process::ExitCode,
};
use task_options::TaskArguments;

/// Searches for the scheduler of the name, while others release it.
const MAX_OPENED: usize = 4;

const AFTER_LONG_HELP: &str = "\
A .sql file is split into statements as psql splits it, a task each, and still runs in psql. They
run one after the other and stop at a failure, or in orders. Comments on lines of their own say how:
  -- @order 100      of all that follows, until the next one; tasks of one order run side by side;
                     `-- @order none` stands outside
  -- @task           begins one task of several statements, in one session (BEGIN, SET, temporary
                     tables); they are one message: one transaction, unless they say otherwise
  -- @end            ends it
  -- @name TEXT      and these of the next task alone: @label KEY=VALUE, @target NAME, @timeout 30m,
                     @total_timeout 2h, @retries 3, @max_losses 3, @delivery exactly once,
                     @result_rows 10, @read_only, @isolation serializable, @search_path a, b,
                     @statement_timeout 5m, @role NAME
  -- @resource NAME  (also repeated) holds it while the task runs: alone, or shared with others, by
                     `@resource NAME shared` or `@resource NAME permits 2`; a name that holds spaces
                     stands in quotes
Refused with their line: `@` ahead of another name or of a space, psql's own commands but
`\\set ON_ERROR_STOP on`, and COPY from stdin or to stdout. Variables (`:name`) are left as they are.

A table of tasks, statements of several lines included, comes as JSON lines, whose fields are
statement, order, params, labels, resources and the names above:
  psql -AtXc \"select json_build_object('order', step, 'statement', sql) from todo\" |
    rallypoint exec -f -";

/// Arguments of `exec`.
#[derive(Args, Debug)]
#[command(after_long_help = AFTER_LONG_HELP)]
pub(super) struct Exec {
    /// SQL statements, a task each, or one file that ends in .sql (--help says what it may hold)
    #[arg(required_unless_present = "file", value_name = "SQL|-f FILE")]
    statements: Vec<String>,
    /// A file of tasks (`-`: stdin)
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// What the file holds: SQL, or lines of `order, statement` or JSON, where # begins a comment
    /// and an empty order means none [default: sql if it ends in .sql, else lines]
    #[arg(
        long,
        requires = "file",
        value_enum,
        hide_possible_values = true,
        value_name = "sql|lines"
    )]
    format: Option<Format>,
    /// Show the tasks in their orders, with what is said of them, and run nothing
    #[arg(long)]
    explain: bool,
    /// Print the handle and return once the tasks are submitted; `wait` follows them
    #[arg(long)]
    detach: bool,
    /// Leave the scheduler open, until `release` or its idle timeout: failed tasks can be retried,
    /// others submitted, a halt lifted. Ctrl-C releases it all the same, unless it has a --name
    #[arg(long)]
    keep: bool,
    /// Submit to the scheduler that is open under this name, or open one. It is left open, as by
    /// --keep, so that other runs can join it: of this one only its own tasks are followed, and
    /// cancelled by Ctrl-C. One that is open already keeps its settings
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// Print only the events of tasks that did not succeed
    #[arg(short, long)]
    quiet: bool,
    /// Order of the statements given as arguments [default: none]
    #[arg(long, value_name = "N", value_parser = whole::<i64>(0..=MAX_ORDER))]
    order: Option<i64>,
    #[command(flatten)]
    tasks: TaskArguments,
    #[command(flatten)]
    settings: Settings,
}

impl Exec {
    /// Opens a scheduler, submits, prints, releases.
    pub(super) async fn run(mut self, server: &Server) -> Result<ExitCode, CliError> {
        let tasks = self.tasks()?;
        if self.explain {
            return Ok(self.explained(&tasks));
        }
        let all: Vec<Task> = tasks.iter().cloned().map(Described::into_task).collect();
        if self.on_failure() == FailurePolicy::CancelRest {
            let is_kept = self.keep || self.name.is_some();
            self.settings.on_failure = Some(cancel_rest::policy_of(&all, is_kept)?);
        }
        let mut signals = Signals::with_hangups()?;
        let bars = Bars::new(tasks.iter().map(|task| task.order));
        let console = bars.console();
        let mut opened = 0;
        let (run, submitted) = loop {
            let mut opening = pin!(self.open(server));
            let mut run = tokio::select! {
                opened = &mut opening => opened?,
                exit = signals.next() => {
                    give_back(opening, &mut signals).await;
                    return Ok(exit.into());
                }
            };
            opened += 1;
            console.say(format!("scheduler {}", run.scheduler.handle()));
            match run.submit(all.clone(), &console, &mut signals).await {
                Ok(submitted) => break (run, submitted),
                Err(error) if opened < MAX_OPENED && self.is_too_late(&error) => {}
                Err(error) => {
                    let file = self.sql_file().or(self.file.as_deref());
                    let error = fault::with_line(error, file, &tasks);
                    return Err(not_submitted(error, &run, &console, &mut signals).await);
                }
            }
        };
        if submitted && self.detach {
            detach(&run).await?;
            return Ok(ExitCode::SUCCESS);
        }
        if !submitted {
            run.cancel(&console, &mut signals).await?;
        }
        let printer = Printer::new(run.scheduler.handle(), tasks, bars, self.quiet);
        let mut printer = printer.only(run.own.clone());
        follow(&run, &mut printer, &mut signals, !submitted).await?;
        Ok(printer.verdict())
    }

    /// The scheduler that is open under the name, or a new one.
    async fn open(&self, server: &Server) -> Result<Run, CliError> {
        let client = server.client().await?;
        let cannot = |error| not_opened(&error);
        let Some(name) = &self.name else {
            let scheduler = client.open(self.settings()).await.map_err(cannot)?;
            let ending = match self.keep {
                true => Ending::Keep,
                false => Ending::Release,
            };
            return Ok(Run {
                word: scheduler.handle().to_owned(),
                scheduler,
                ending: Cell::new(ending),
                own: None,
                is_new: true,
            });
        };
        let reused = client.reuse(name, self.settings()).await;
        let (found, was_open) = reused.map_err(cannot)?;
        if was_open {
            self.joins(name, &found)?;
        }
        Ok(Run {
            word: match name.starts_with('-') {
                // It would be taken for an option.
                true => found.handle.clone(),
                false => shell::word(name),
            },
            scheduler: client.scheduler(found.handle),
            ending: Cell::new(Ending::Keep),
            own: Some(OwnTasks::default()),
            is_new: !was_open,
        })
    }

    /// Another run has released the scheduler of the name since this one has found it.
    fn is_too_late(&self, error: &CliError) -> bool {
        self.name.is_some() && error.is("HANDLE_RELEASED") && !error.has_effect()
    }

    /// Others have said what a failure does in the scheduler that was found: no task of this run is
    /// to start behind one if it was not to.
    fn joins(&self, name: &str, found: &api::Scheduler) -> Result<(), CliError> {
        let settings = found.settings.clone().unwrap_or_default();
        let (wanted, present) = (
            self.on_failure(),
            FailurePolicy::from(settings.on_failure()),
        );
        // A scheduler that stops at a failure suits a run that has not asked for the contrary.
        let is_stricter = self.settings.on_failure.is_none() && wanted == FailurePolicy::Continue;
        if wanted != present && !is_stricter {
            let (wanted, present) = (wanted.name(), present.name());
            let what = format!("scheduler {name} is open, with --on-failure {present}");
            let next = format!(
                "say `--on-failure {present}`, or `rallypoint update {} --on-failure {wanted}`",
                shell::word(name)
            );
            return Err(CliError::new(what)
                .why(match self.settings.on_failure {
                    Some(_) => format!("this run asks for --on-failure {wanted}"),
                    None => format!("a .sql file alone runs with --on-failure {wanted}"),
                })
                .next(next));
        }
        let unlike = self.settings.clone().unlike(&settings);
        if !unlike.is_empty() {
            output::note(format!(
                "scheduler {name} was open with other settings: what is said by {} does \
                 not count; `rallypoint update {}` changes them",
                unlike.join(", "),
                shell::word(name)
            ));
        }
        Ok(())
    }

    /// The tasks in ascending order: when they need several calls, a later call must not have a
    /// lower order.
    fn tasks(&self) -> Result<Vec<Described>, CliError> {
        let how = self.tasks.how()?;
        let mut tasks = match self.sql_file() {
            Some(path) => {
                self.stands_alone(path)?;
                self.refuse_idle(path, Format::Sql)?;
                file::read(path, &how, Format::Sql)?
            }
            None => {
                self.check_statements()?;
                let arguments = self.statements.iter().map(|text| Described {
                    order: self.order,
                    statement: text.clone(),
                    params: self.tasks.params(),
                    how: how.clone(),
                    ..Described::default()
                });
                let mut tasks: Vec<Described> = arguments.collect();
                if let Some(path) = &self.file {
                    if self.statements.is_empty() {
                        self.refuse_idle(path, Format::Lines)?;
                    }
                    tasks.extend(file::read(path, &how, Format::Lines)?);
                }
                tasks
            }
        };
        if tasks.is_empty() {
            let next = match self.sql_file() {
                Some(_) => "write statements, each with ; at its end",
                None => "write a statement per line: `100, select 1`",
            };
            return Err(CliError::new("there is nothing to run").next(next));
        }
        tasks.sort_by_key(|task| task.order);
        Ok(tasks)
    }

    /// Arguments that can be no statements were meant otherwise.
    fn check_statements(&self) -> Result<(), CliError> {
        let words = std::env::args_os().len();
        quoting::refuse_split(&self.statements, words)?;
        let mut names = self.statements.iter();
        names.try_for_each(|text| file_name::refuse(text))?;
        if self.statements.iter().any(|text| text.trim().is_empty()) {
            return Err(CliError::usage("a statement is empty").next("write one, or leave it out"));
        }
        quoting::refuse_parts(&self.statements, words)
    }

    /// A file of SQL says all of its tasks.
    fn stands_alone(&self, path: &Path) -> Result<(), CliError> {
        if self.statements.len() + usize::from(self.file.is_some()) == 1 {
            return Ok(());
        }
        let what = format!("{} is a file of SQL, which stands alone", path.display());
        Err(CliError::usage(what).next("give other statements to a command of their own"))
    }

    /// Refuses options of statements that are given as arguments where there are none of these.
    fn refuse_idle(&self, path: &Path, format: Format) -> Result<(), CliError> {
        let (option, next) = match (self.order, &self.tasks.params()[..], format) {
            (None, [], _) => return Ok(()),
            (Some(_), _, Format::Sql) => ("--order", "write `-- @order N` in the file"),
            (Some(_), _, Format::Lines) => ("--order", "write the order in each line: `N, SQL`"),
            (None, _, Format::Sql) => (
                "--param",
                "write the values in the file, or give the statement as an argument: \
                 `rallypoint exec 'select $1' --param VALUE`",
            ),
            (None, _, Format::Lines) => (
                "--param",
                r#"write the values in each line: `{"statement": "select $1", "params": ["5"]}`"#,
            ),
        };
        let file = fault::name_of(path);
        let what = format!("{option} is for statements given as arguments, not for {file}");
        Err(CliError::usage(what).next(next))
    }

    /// The file of SQL that is named, as an argument or by --file.
    fn sql_file(&self) -> Option<&Path> {
        let named = self.file.as_deref();
        match self.format {
            Some(Format::Sql) => named,
            Some(Format::Lines) => None,
            None => {
                let arguments = self.statements.iter().map(Path::new);
                arguments.chain(named).find(|path| file::is_sql(path))
            }
        }
    }

    fn on_failure(&self) -> FailurePolicy {
        let default = match self.sql_file() {
            Some(_) => FailurePolicy::Halt,
            None => FailurePolicy::Continue,
        };
        self.settings.on_failure.unwrap_or(default)
    }

    fn explained(&self, tasks: &[Described]) -> ExitCode {
        match output::is_json() {
            true => {
                tasks
                    .iter()
                    .map(pipeline::json)
                    .for_each(|task| output::verbatim(task.to_string()));
                if self.on_failure() == FailurePolicy::Halt {
                    // The lines are of tasks, and this is of the whole.
                    output::note("run them with `exec -f FILE --on-failure halt`");
                }
            }
            false => pipeline::picture(tasks, self.on_failure(), output::width())
                .iter()
                .for_each(output::line),
        }
        ExitCode::SUCCESS
    }

    fn settings(&self) -> SchedulerSettings {
        let file = self.sql_file().or(self.file.as_deref());
        let name = file.and_then(Path::file_name).filter(|name| *name != "-");
        let name = name.map(|name| name.to_string_lossy().into_owned());
        let mut settings = self.settings.clone();
        let name = name.unwrap_or_else(|| "rallypoint exec".to_owned());
        settings.display_name.get_or_insert(name);
        SchedulerSettings {
            on_failure: OnFailure::from(self.on_failure()).into(),
            ..settings.into_api().0
        }
    }
}
