//! `wait HANDLE`: follows the tasks of a scheduler, whoever submitted them, until all have ended.
//!
//! It only looks: a signal ends it and nothing else.

use super::{
    connect::Server, error::CliError, exec::printer::Printer, exit::Exit, number::whole, output,
    progress::Bars, shell, signals::Signals, tasks,
};
use crate::core::model::limits::MAX_ORDER;
use clap::Args;
use rallypoint_client::{
    Scheduler,
    api::{End, ListTasksRequest, TaskView, end::Reason, until::Kind},
};
use std::{collections::HashMap, process::ExitCode};

/// Tasks whose statements are shown, the newest ones.
const MOST_STATEMENTS: usize = 1_000;

/// Arguments of `wait`.
#[derive(Args, Debug)]
pub(super) struct Wait {
    /// The scheduler: its handle or its name
    handle: String,
    /// Only until this order and all lower ones have ended
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "first_failure",
        value_parser = whole::<i64>(0..=MAX_ORDER)
    )]
    order: Option<i64>,
    /// Only until a task has failed, be it long ago: --after leaves out what has ended before
    #[arg(long)]
    first_failure: bool,
    /// Events up to this number are neither printed nor counted
    #[arg(
        long,
        default_value_t = 0,
        value_name = "DONE_NO",
        value_parser = whole::<i64>(0..)
    )]
    after: i64,
    /// Print only the events of tasks that did not succeed
    #[arg(short, long)]
    quiet: bool,
}

impl Wait {
    /// Prints events until the end, and makes of them the exit code that `exec` has.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let mut signals = Signals::new()?;
        tokio::select! {
            ended = self.follow(server) => ended,
            exit = signals.next() => {
                let what = "the tasks go on without being followed";
                Err(CliError::interrupted(what, exit)
                    .next(format!("`rallypoint wait {}` follows them again", self.word())))
            }
        }
    }

    async fn follow(&self, server: &Server) -> Result<ExitCode, CliError> {
        let scheduler = server.scheduler(&self.handle).await?;
        let mut printer = self.printer(&scheduler).await?;
        let end = printer
            .print_events(&scheduler, self.after, self.until())
            .await?;
        if end.reason() == Reason::Halted {
            let word = self.word();
            printer.say_halted(&scheduler, &word, end.blocked).await;
        }
        Ok(verdict(printer, &end))
    }

    /// The scheduler as commands name it.
    fn word(&self) -> String {
        shell::word(&self.handle)
    }

    async fn printer(&self, scheduler: &Scheduler) -> Result<Printer, CliError> {
        let what = format!("cannot look at {}", self.handle);
        let described = scheduler.describe().await;
        let described = described.map_err(|error| CliError::call(what, &error))?;
        let total = described.submitted.max(0);
        let bars = Bars::of_all((total - self.after).max(0) as u64);
        let printer = Printer::of(scheduler.handle(), total as usize, bars, self.quiet);
        Ok(match output::is_json() {
            true => printer,
            false => printer.with_statements(statements(scheduler).await?),
        })
    }

    fn until(&self) -> Option<Kind> {
        match self.order {
            Some(order) => Some(Kind::Order(order)),
            None if self.first_failure => Some(Kind::FirstFailure(())),
            None => None,
        }
    }
}

/// How the statements of the newest tasks begin, by number.
async fn statements(scheduler: &Scheduler) -> Result<HashMap<i64, String>, CliError> {
    let list = tasks::read(scheduler, ListTasksRequest::default(), MOST_STATEMENTS).await?;
    let statement = |task: TaskView| Some((task.id.as_ref()?.seq, tasks::title(&task)));
    Ok(list.tasks.into_iter().filter_map(statement).collect())
}

/// A halt is a failure, also when that is not among the events that were asked for.
fn verdict(printer: Printer, end: &End) -> ExitCode {
    let seen = printer.verdict_of_seen();
    match end.reason() {
        Reason::Halted => Exit::TaskFailed.into(),
        _ => seen,
    }
}
