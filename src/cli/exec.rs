//! `exec`: statements become tasks of one scheduler; every AsyncDone is printed as it comes.
//!
//! The first Ctrl-C releases the scheduler with CANCEL and goes on reading, so that the last line printed is the truth;
//! the second one leaves at once.

mod file;

use super::{
    Failure, TASK_FAILED, clock,
    connect::Server,
    conversation::Conversation,
    event,
    output::{self, Output},
    progress::Bars,
    words::{self, FailurePolicy},
};
use crate::api::{
    AsyncDone, Outcome, ReleaseMode, RetryPolicy, SchedulerSettings, SqlTask, SynchronizationResponse, Task, TaskOptions, end,
    task::Kind,
};
use clap::Args;
use file::Line;
use std::{path::PathBuf, process::ExitCode, time::Duration};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Arguments of `exec`.
#[derive(Args, Debug)]
pub struct Exec {
    /// SQL statements, a task each (or use --file)
    #[arg(required_unless_present = "file", value_name = "SQL")]
    statements: Vec<String>,
    /// A file of `order, statement` lines (`-`: stdin); # begins a comment line, an empty order means none
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Order of the statements given as arguments [default: none]
    #[arg(long, value_name = "N")]
    order: Option<i64>,
    /// Running tasks at any time [default: as many as there are slots]
    #[arg(long, value_name = "N")]
    max_parallelism: Option<i32>,
    /// What a failure does to the orders after it
    #[arg(long, value_enum, default_value_t = FailurePolicy::Continue)]
    on_failure: FailurePolicy,
    /// Name of the target database [default: app]
    #[arg(long, value_name = "NAME", hide_default_value = true, default_value = "")]
    target: String,
    /// Limit of one attempt, like 30s or 5m
    #[arg(long, value_parser = clock::parse, value_name = "TIME")]
    timeout: Option<Duration>,
    /// Attempts after a failed one
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(i32).range(0..1000))]
    retries: i32,
    /// Rows of each result to keep and print
    #[arg(long, default_value_t = 0, value_name = "N")]
    result_rows: i32,
    #[command(flatten)]
    output: Output,
}

impl Exec {
    /// Opens a scheduler, submits, prints, releases.
    pub async fn run(self, server: &Server) -> Result<ExitCode, Failure> {
        let lines = self.lines()?;
        let statements = lines.iter().map(|line| line.statement.clone()).collect();
        let mut interrupts = signal(SignalKind::interrupt()).map_err(anyhow::Error::from)?;
        let bars = Bars::new(lines.iter().map(|line| line.order));
        let conversation = Conversation::open(server.schedulers().await?, self.settings()).await?;
        bars.say(format!("scheduler {}", conversation.handle));
        let tasks = lines.into_iter().map(|line| self.task(line)).collect();
        if let Err(failure) = conversation.submit(tasks).await {
            let next = "what was accepted has been cancelled: see `rallypoint log`";
            return Err(conversation.release(ReleaseMode::Cancel, false).await.map_or_else(|more| more, |_| failure.next(next)));
        }
        let mut printer = Printer { statements, bars, output: self.output, done: 0, succeeded: 0 };
        follow(&conversation, &mut printer, &mut interrupts).await?;
        Ok(printer.verdict())
    }

    /// The statements, in ascending order: were they to need more than one call, a later call may bring no lower order.
    fn lines(&self) -> Result<Vec<Line>, Failure> {
        let arguments = self.statements.iter().map(|text| Line { order: self.order, statement: text.clone() });
        let mut lines: Vec<Line> = arguments.collect();
        if let Some(path) = &self.file {
            lines.extend(file::read(path)?);
        }
        if lines.is_empty() {
            return Err(Failure::new("there is nothing to run").next("write a statement on a line: `100, select 1`"));
        }
        lines.sort_by_key(|line| line.order);
        Ok(lines)
    }

    fn settings(&self) -> SchedulerSettings {
        SchedulerSettings {
            display_name: "rallypoint exec".to_owned(),
            max_parallelism: self.max_parallelism,
            on_failure: crate::api::OnFailure::from(self.on_failure).into(),
            ..SchedulerSettings::default()
        }
    }

    fn task(&self, line: Line) -> Task {
        let sql = SqlTask { statement: line.statement, target: self.target.clone(), ..SqlTask::default() };
        let options = TaskOptions {
            timeout: self.timeout.and_then(|timeout| timeout.try_into().ok()),
            retry: Some(RetryPolicy { max_attempts: Some(self.retries + 1), ..RetryPolicy::default() }),
            result_rows: Some(self.result_rows),
            ..TaskOptions::default()
        };
        Task { kind: Some(Kind::Sql(sql)), order: line.order, options: Some(options) }
    }
}

/// Prints events until every task has ended; releases the scheduler, also when a halt stands in the way or on Ctrl-C.
async fn follow(conversation: &Conversation, printer: &mut Printer, interrupts: &mut Signal) -> Result<(), Failure> {
    let mut events = conversation.follow(0);
    let mut interrupted = false;
    loop {
        tokio::select! {
            message = events.next() => match message? {
                Some(message) => printer.message(message),
                None => break,
            },
            _ = interrupts.recv() => {
                if interrupted {
                    std::process::exit(130);
                }
                interrupted = true;
                printer.bars.say("cancelling (press Ctrl-C again to leave at once) …");
                conversation.release(ReleaseMode::Cancel, false).await?;
            }
        }
    }
    conversation.release(ReleaseMode::Finish, true).await?;
    let mut rest = conversation.follow(events.after());
    while let Some(message) = rest.next().await? {
        printer.message(message);
    }
    Ok(())
}

/// Prints events on stdout and keeps the bars on stderr.
struct Printer {
    statements: Vec<String>,
    bars: Bars,
    output: Output,
    done: usize,
    succeeded: usize,
}

impl Printer {
    fn message(&mut self, message: SynchronizationResponse) {
        for done in &message.done {
            self.event(done);
        }
        if let Some(end) = message.end.filter(|end| end.reason() == end::Reason::Halted) {
            self.bars.say(format!("{}: {} tasks blocked, they are cancelled", words::ending(end.reason()), end.blocked));
        }
    }

    fn event(&mut self, done: &AsyncDone) {
        let good = done.outcome() == Outcome::Succeeded;
        self.done += 1;
        self.succeeded += usize::from(good);
        self.bars.done(done.order, good);
        self.bars.aside(|| match self.output.json() {
            true => output::json(&event::to_json(done)),
            false => self.print(done),
        });
    }

    fn print(&self, done: &AsyncDone) {
        let statement = usize::try_from(done.seq - 1).ok().and_then(|index| self.statements.get(index));
        output::line(event::line(done, self.statements.len(), statement.map_or("", String::as_str)));
        let rows = done.result.as_ref().map(event::rows);
        for row in rows.iter().filter_map(|rows| rows.as_array()).flatten() {
            output::line(format!("      {row}"));
        }
        if done.result_omitted {
            output::line("      (the result is large: read it with GetTask)");
        }
    }

    fn verdict(self) -> ExitCode {
        let all = self.statements.len();
        self.bars.finish(format!("{} of {all} tasks succeeded", self.succeeded));
        if self.succeeded == all { ExitCode::SUCCESS } else { ExitCode::from(TASK_FAILED) }
    }
}
