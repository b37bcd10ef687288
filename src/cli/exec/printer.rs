//! Events as they are printed: data on stdout, below the progress bars on stderr.
//!
//! An event names the line of the file that it is about, as a compiler would.

use super::{
    halt,
    idle_note::{IdleNote, SILENCE},
    own_tasks::OwnTasks,
    psql_variable,
    task_option::Described,
};
use crate::cli::{
    async_done::{self, Widths},
    error::CliError,
    exit::Exit,
    json,
    outage_note::OutageNote,
    output, plural,
    progress::{Bars, Console},
    terminal_text::clean,
};
use rallypoint_client::{
    Error, Scheduler,
    api::{AsyncDone, End, Outcome, until},
};
use serde_json::json;
use std::{
    collections::{HashMap, HashSet},
    pin::pin,
    process::ExitCode,
};
use tokio::time::sleep;

/// Prints the events of a run, and counts them.
pub(in crate::cli) struct Printer {
    handle: String,
    /// By their numbers, as far as they are known here.
    tasks: Vec<Described>,
    /// Of tasks that others have submitted: how their statements begin, as far as that is known.
    statements: HashMap<i64, String>,
    /// Only these count, and have the places of `tasks`; `None`: all.
    own: Option<OwnTasks>,
    /// How many there are.
    total: usize,
    bars: Bars,
    /// Only those that did not succeed are printed.
    quiet: bool,
    /// Tasks that have ended, retries of them not counted.
    counted: usize,
    /// What became of those that did not succeed, each by the number of its last retry.
    failed: HashMap<i64, Outcome>,
    /// How many succeeded when they were retried.
    retried: usize,
    /// Retries that failed again, and have no retry that did not.
    in_vain: HashSet<i64>,
    seen: i64,
    /// A statement has returned rows that nobody asked for.
    has_unkept_rows: bool,
    /// Stdout takes what is printed.
    is_written: bool,
}

impl Printer {
    /// For tasks that are known here.
    pub(super) fn new(handle: &str, tasks: Vec<Described>, bars: Bars, quiet: bool) -> Printer {
        Printer {
            total: tasks.len(),
            tasks,
            ..Printer::of(handle, 0, bars, quiet)
        }
    }

    /// Only these tasks are printed and counted: others belong to somebody else.
    pub(super) fn only(self, own: Option<OwnTasks>) -> Printer {
        Printer { own, ..self }
    }

    /// For `total` tasks of which nothing else is known.
    pub(in crate::cli) fn of(handle: &str, total: usize, bars: Bars, quiet: bool) -> Printer {
        Printer {
            handle: handle.to_owned(),
            tasks: Vec::new(),
            statements: HashMap::new(),
            own: None,
            total,
            bars,
            quiet,
            counted: 0,
            failed: HashMap::new(),
            retried: 0,
            in_vain: HashSet::new(),
            seen: 0,
            has_unkept_rows: false,
            is_written: true,
        }
    }

    /// Statements of tasks that others have submitted, by number.
    pub(in crate::cli) fn with_statements(self, statements: HashMap<i64, String>) -> Printer {
        Printer { statements, ..self }
    }

    pub(in crate::cli) fn console(&self) -> Console {
        self.bars.console()
    }

    /// Number of the last event printed.
    pub(super) fn seen(&self) -> i64 {
        self.seen
    }

    /// Prints the events after `after`, until the goal is met, or all tasks have ended that alone
    /// count. Returns why the stream ended.
    pub(in crate::cli) async fn print_events(
        &mut self,
        scheduler: &Scheduler,
        after: i64,
        until: Option<until::Kind>,
    ) -> Result<End, CliError> {
        // Waiting is no call that is late.
        let scheduler = scheduler.clone().with_time_limit(None);
        let mut events = scheduler.synchronize(after, until).await.map_err(broken)?;
        let console = self.console();
        let mut outage = OutageNote::of(events.outage());
        let mut idle_note = IdleNote::default();
        while !self.has_seen_its_own() {
            let mut next = pin!(events.next());
            let done = loop {
                let waiting = outage.beside(&mut next, |news| console.say(news));
                tokio::select! {
                    done = waiting => break done,
                    () = sleep(SILENCE) => {}
                }
                if !outage.is_away() {
                    idle_note.say(&scheduler, &console).await;
                }
            };
            match done.map_err(broken)? {
                Some(done) => done.iter().for_each(|done| self.event(done)),
                None => break,
            }
        }
        Ok(events.end().cloned().unwrap_or_default())
    }

    /// Says that tasks wait behind a failure, which one it is unless that was printed, and what can
    /// be done. `word`: what commands call the scheduler.
    pub(in crate::cli) async fn say_halted(&self, scheduler: &Scheduler, word: &str, blocked: i64) {
        let console = self.console();
        let failures = halt::failures(scheduler, |seq| self.failed.contains_key(&seq)).await;
        let failures = failures.into_iter().flatten();
        failures.for_each(|failure| console.say(failure));
        let blocked = plural::with_verb(blocked, ["blocked task waits", "blocked tasks wait"]);
        console.say(format!(
            "halted by a failure: {blocked}, until \
             `rallypoint retry {word} --failed` has succeeded, or \
             `rallypoint resume {word} --ignore-failures`"
        ));
    }

    /// Whether a task has failed, and its retries, if there were any, have, too. One that was
    /// cancelled has not.
    pub(in crate::cli) fn has_failures(&self) -> bool {
        let mut outcomes = self.failed.values();
        outcomes.any(|outcome| *outcome != Outcome::Cancelled)
    }

    fn has_seen_its_own(&self) -> bool {
        let own = self.own.as_ref();
        own.is_some_and(|own| own.count() == self.counted)
    }

    fn event(&mut self, done: &AsyncDone) {
        self.seen = done.done_no;
        let own = self.own.as_ref();
        if own.is_some_and(|own| own.place(done.seq).is_none()) {
            return;
        }
        let good = done.outcome() == Outcome::Succeeded;
        // What came of a task is told by its last retry.
        let again = done
            .retry_of
            .is_some_and(|of| self.failed.remove(&of).is_some());
        self.counted += usize::from(!again);
        self.retried += usize::from(again && good);
        self.in_vain.retain(|seq| Some(*seq) != done.retry_of);
        if again && !good && done.outcome() != Outcome::Cancelled {
            self.in_vain.insert(done.seq);
        }
        if !good {
            self.failed.insert(done.seq, done.outcome());
        }
        let begun = done.attempt > 0;
        // A late task runs in another order than the one in which it counts here.
        let own_order = self.task(done).map(|task| task.order);
        let order = own_order.unwrap_or(done.effective_order);
        self.bars.done(order, good, begun);
        if good && self.quiet {
            return;
        }
        self.has_unkept_rows |= self.task(done).is_some_and(|task| leaves_rows(task, done));
        let lines = match output::is_json() {
            true => vec![self.json(done)],
            false => self.lines(done),
        };
        let console = self.console();
        console.suspended(|| {
            self.is_written = self.is_written && lines.iter().all(output::is_written)
        });
    }

    /// Of the numbers and of the orders of tasks, as far as they are known.
    fn widths(&self) -> Widths {
        let own = self.own.as_ref().and_then(|own| own.numbers().next_back());
        let last_order = self.tasks.last().and_then(|task| task.order);
        Widths::of(own.unwrap_or(self.total as i64), last_order)
    }

    fn task(&self, done: &AsyncDone) -> Option<&Described> {
        let place = match &self.own {
            Some(own) => own.place(done.seq)?,
            None => usize::try_from(done.seq - 1).ok()?,
        };
        self.tasks.get(place)
    }

    fn json(&self, done: &AsyncDone) -> String {
        let mut event = json::of(done);
        let task = self.task(done);
        event["handle"] = json!(self.handle);
        event["name"] = json!(task.and_then(Described::name));
        event["line"] = json!(task.and_then(|task| line(task, done)));
        event.to_string()
    }

    fn lines(&self, done: &AsyncDone) -> Vec<String> {
        let task = self.task(done);
        let title = task.map(Described::title);
        let title = title.or_else(|| self.statements.get(&done.seq).cloned());
        let title = title.unwrap_or_default();
        let at = task.and_then(|task| line(task, done));
        let title = match at.filter(|_| done.outcome() != Outcome::Succeeded) {
            Some(line) => format!("line {line}: {title}"),
            None => title,
        };
        // Among the events of others its own number would say nothing.
        let place = match self.own {
            Some(_) => self.counted as i64,
            None => done.done_no,
        };
        let widths = self.widths();
        let mut lines = vec![async_done::line(done, (place, self.total), widths, &title)];
        let hint = task.and_then(|task| variable(task, done));
        lines.extend(hint.map(|hint| clean(&hint)));
        if let Some(result) = &done.result {
            let rows = async_done::rows(result);
            lines.extend(rows.iter().map(|row| clean(&format!("      {row}"))));
            let asked = task.and_then(|task| task.how.options.result_rows);
            let note = async_done::rows_note(result, rows.len(), asked);
            lines.extend(note.map(|note| format!("      {note}")));
        }
        if done.rows_omitted {
            let get = format!("rallypoint get {}/{}", self.handle, done.seq);
            lines.push(format!("      (large rows left out: `{get}`)"));
        }
        lines
    }

    /// Says how many of all tasks have succeeded, and makes it the exit code.
    pub(super) fn verdict(self) -> ExitCode {
        let all = self.total;
        self.verdict_of(all, "tasks")
    }

    /// Says how many of those that were printed have succeeded, and makes it the exit code.
    pub(in crate::cli) fn verdict_of_seen(self) -> ExitCode {
        let all = self.counted;
        self.verdict_of(all, "ended tasks")
    }

    fn verdict_of(self, all: usize, what: &str) -> ExitCode {
        let succeeded = self.counted - self.failed.len();
        let retried = match self.retried {
            0 => String::new(),
            retried => format!(", {retried} of them when retried"),
        };
        let in_vain = match self.in_vain.len() {
            0 => String::new(),
            in_vain => format!(
                "; {} again",
                plural::with_verb(in_vain as i64, ["retry failed", "retries failed"])
            ),
        };
        // For people: a script that calls a function by SELECT knows what it does.
        let is_read = !output::is_json() && output::width().is_some();
        if self.has_unkept_rows && is_read {
            let hint = "no rows are kept unless --result-rows N says how many of each statement";
            self.console().say(hint);
        }
        self.bars.finish(format!(
            "{succeeded} of {all} {what} succeeded{retried}{in_vain}"
        ));
        match succeeded == all {
            true => Exit::Success.into(),
            false => Exit::TaskFailed.into(),
        }
    }
}

fn broken(error: Error) -> CliError {
    CliError::call("the stream of events broke", &error)
}

/// Whether a statement that was given as an argument is a query whose rows are not kept: somebody
/// may wait for them. Those of `select … into` go into a table.
fn leaves_rows(task: &Described, done: &AsyncDone) -> bool {
    let word = task.statement.trim_start().get(..6).unwrap_or_default();
    let is_select = word.eq_ignore_ascii_case("select");
    let is_between = |c: char| !c.is_alphanumeric() && c != '_';
    let mut words = task.statement.split(is_between);
    let is_into = words.any(|word| word.eq_ignore_ascii_case("into"));
    let result = done.result.as_ref();
    let affected = result.map_or(0, |result| result.rows_affected);
    let asked = task.how.options.result_rows.unwrap_or(0);
    task.line.is_none() && asked == 0 && affected > 0 && is_select && !is_into
}

/// What to do about a variable of psql at which the error is.
fn variable(task: &Described, done: &AsyncDone) -> Option<String> {
    let error = done.error.as_ref()?;
    let (code, message) = (&error.code, &error.message);
    let place = match task.line {
        Some(_) => psql_variable::Place::File,
        None => psql_variable::Place::Argument,
    };
    let hint = psql_variable::hint(&task.statement, place, (code, message), error.position)?;
    Some(format!("      ({hint})"))
}

/// The line on which an error is, if Postgres says where, else that on which the task begins.
fn line(task: &Described, done: &AsyncDone) -> Option<usize> {
    let error = done.error.as_ref().filter(|_| task.is_verbatim);
    let position = error.and_then(|error| usize::try_from(error.position? - 1).ok());
    let before = task.statement.chars().take(position.unwrap_or(0));
    Some(task.line? + before.filter(|character| *character == '\n').count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rallypoint_client::api::TaskResult;

    #[test]
    fn rows_of_a_query_that_nobody_asked_for_are_hinted_at() {
        let leaves = |statement: &str, asked, rows_affected| {
            let mut task = Described {
                statement: statement.to_owned(),
                ..Described::default()
            };
            task.how.options.result_rows = Some(asked);
            let result = TaskResult {
                rows_affected,
                ..TaskResult::default()
            };
            let done = AsyncDone {
                result: Some(result),
                ..AsyncDone::default()
            };
            leaves_rows(&task, &done)
        };
        assert!(leaves(" SELECT 1", 0, 1));
        assert!(!leaves("select 1", 5, 1));
        assert!(!leaves("select 1 where false", 0, 0));
        assert!(!leaves("insert into t values (1)", 0, 1));
        assert!(!leaves("seléct", 0, 1));
        assert!(!leaves("select 1 as a Into t", 0, 1));
        assert!(leaves("select into_stock from t", 0, 1));
    }
}
