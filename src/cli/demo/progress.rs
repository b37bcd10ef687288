//! The demo while it runs: a line per task that fills while the task sleeps, or plain lines when
//! stderr is not a terminal.
//!
//! Whether a task runs is what the server reports, never what a local clock suggests.

use super::tasks::Sleep;
use crate::cli::{output, time_text};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use rallypoint_client::api::{AsyncDone, Outcome, TaskState, TaskView};
use std::time::Instant;

/// A line per task.
pub(super) struct Lines {
    multi: MultiProgress,
    lines: Vec<Line>,
}

struct Line {
    bar: ProgressBar,
    started: Option<Instant>,
}

impl Lines {
    /// A waiting line for each task.
    pub(super) fn new(tasks: &[Sleep]) -> Lines {
        let multi = MultiProgress::new();
        let line = |(index, task): (usize, &Sleep)| {
            let bar = ProgressBar::new(task.time.as_millis().max(1) as u64).with_style(style());
            let bar = multi.add(bar.with_prefix(format!(
                "order {:<4} task {:>2}",
                task.order,
                index + 1
            )));
            bar.set_message("waiting");
            bar.tick();
            Line { bar, started: None }
        };
        let lines = tasks.iter().enumerate().map(line).collect();
        Lines { multi, lines }
    }

    /// Takes the states of the tasks as the server reports them.
    pub(super) fn seen(&mut self, tasks: &[TaskView]) {
        for task in tasks
            .iter()
            .filter(|task| task.state() == TaskState::Running)
        {
            if let Some(line) = line(&mut self.lines, task.id.as_ref().map_or(0, |id| id.seq)) {
                line.started.get_or_insert_with(Instant::now);
            }
        }
    }

    /// Advances the bars of running tasks.
    pub(super) fn tick(&self) {
        for line in self.lines.iter().filter(|line| !line.bar.is_finished()) {
            if let Some(started) = line.started {
                line.bar.set_message("running");
                line.bar.set_position(started.elapsed().as_millis() as u64);
            }
        }
    }

    /// Shows that a task has ended.
    pub(super) fn done(&mut self, done: &AsyncDone, took_us: i64) {
        let took = time_text::duration(took_us);
        let word = if done.outcome() == Outcome::Succeeded {
            "✓"
        } else {
            "✗"
        };
        if let Some(line) = line(&mut self.lines, done.seq) {
            line.bar.set_position(line.bar.length().unwrap_or(0));
            line.bar.abandon_with_message(format!("{word} {took}"));
            if self.multi.is_hidden() {
                output::note(format!("{} {word} {took}", line.bar.prefix()));
            }
        }
    }

    /// Leaves the lines on the screen, with a blank one below.
    pub(super) fn finish(self) {
        output::note(if self.multi.is_hidden() { "" } else { "\n" });
    }
}

fn line(lines: &mut [Line], seq: i64) -> Option<&mut Line> {
    lines.get_mut(usize::try_from(seq - 1).ok()?)
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("  {prefix} {bar:40.cyan/dim} {msg}")
        .map(|style| style.progress_chars("━╸─"))
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}
