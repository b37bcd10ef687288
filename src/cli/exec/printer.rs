//! Events as they are printed: data on stdout, below the progress bars on stderr.
//!
//! An event names the line of the file that it is about, as a compiler would.

use super::task_option::Described;
use crate::cli::{
    TASK_FAILED, async_done,
    output::{self, Output},
    progress::{Bars, Console},
};
use rallypoint_client::api::{AsyncDone, Outcome};
use serde_json::json;
use std::process::ExitCode;

/// Prints the events of a run, and counts them.
pub(super) struct Printer {
    /// By their numbers.
    tasks: Vec<Described>,
    bars: Bars,
    output: Output,
    succeeded: usize,
    seen: i64,
    /// Nobody has closed the pipe that stdout is.
    is_read: bool,
}

impl Printer {
    pub(super) fn new(tasks: Vec<Described>, bars: Bars, output: Output) -> Printer {
        Printer {
            tasks,
            bars,
            output,
            succeeded: 0,
            seen: 0,
            is_read: true,
        }
    }

    pub(super) fn console(&self) -> Console {
        self.bars.console()
    }

    /// Number of the last event printed.
    pub(super) fn seen(&self) -> i64 {
        self.seen
    }

    pub(super) fn event(&mut self, done: &AsyncDone) {
        let good = done.outcome() == Outcome::Succeeded;
        self.succeeded += usize::from(good);
        self.seen = done.done_no;
        self.bars.done(done.effective_order, good);
        let lines = match self.output.json() {
            true => vec![self.json(done)],
            false => self.lines(done),
        };
        let console = self.console();
        console.suspended(|| self.is_read = self.is_read && lines.iter().all(output::is_read));
    }

    fn task(&self, done: &AsyncDone) -> Option<&Described> {
        let index = usize::try_from(done.seq - 1).ok()?;
        self.tasks.get(index)
    }

    fn json(&self, done: &AsyncDone) -> String {
        let mut event = async_done::to_json(done);
        let task = self.task(done);
        event["name"] = json!(task.and_then(Described::name));
        event["line"] = json!(task.and_then(|task| line(task, done)));
        event.to_string()
    }

    fn lines(&self, done: &AsyncDone) -> Vec<String> {
        let task = self.task(done);
        let title = task.map(Described::title).unwrap_or_default();
        let at = task.and_then(|task| line(task, done));
        let title = match at.filter(|_| done.outcome() != Outcome::Succeeded) {
            Some(line) => format!("line {line}: {title}"),
            None => title,
        };
        let mut lines = vec![async_done::line(done, self.tasks.len(), &title)];
        let rows = done.result.as_ref().map(async_done::rows);
        let rows = rows.iter().filter_map(|rows| rows.as_array()).flatten();
        lines.extend(rows.map(|row| format!("      {row}")));
        if done.result_omitted {
            lines.push("      (large result left out; GetTask returns it)".to_owned());
        }
        lines
    }

    /// Says how many tasks have succeeded, and makes it the exit code.
    pub(super) fn verdict(self) -> ExitCode {
        let all = self.tasks.len();
        self.bars
            .finish(format!("{} of {all} tasks succeeded", self.succeeded));
        if self.succeeded == all {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(TASK_FAILED)
        }
    }
}

/// The line on which an error is, if Postgres says where, else that on which the task begins.
fn line(task: &Described, done: &AsyncDone) -> Option<usize> {
    let error = done.error.as_ref().filter(|_| task.is_verbatim);
    let position = error.and_then(|error| usize::try_from(error.position? - 1).ok());
    let before = task.statement.chars().take(position.unwrap_or(0));
    Some(task.line? + before.filter(|character| *character == '\n').count())
}
