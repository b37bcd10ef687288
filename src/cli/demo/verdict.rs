//! What the demo proves, read from the log and nothing else: no two orders overlapped, every task
//! succeeded, and how long it took.

use crate::cli::{
    async_done,
    gantt::{self, Span},
    json,
    output::{self, BOLD, DIM, GREEN, RED},
    plural, tasks, time_text,
};
use rallypoint_client::api::{Outcome, TaskView};
use serde_json::{Value, json};
use std::time::Duration;

/// The log of the series, judged.
pub(super) struct Verdict {
    tasks: Vec<TaskView>,
    zero_us: i64,
    expected: Duration,
}

impl Verdict {
    /// From the tasks in ascending order of submission.
    pub(super) fn new(tasks: Vec<TaskView>, expected: Duration) -> Verdict {
        let zero_us = tasks
            .iter()
            .map(|task| time_text::micros(task.submitted_at.as_ref()))
            .min()
            .unwrap_or(0);
        Verdict {
            tasks,
            zero_us,
            expected,
        }
    }

    /// All tasks succeeded and no two orders overlapped.
    pub(super) fn good(&self) -> bool {
        self.failed() == 0 && self.overlaps() == 0
    }

    /// Time from the submission to the last end.
    fn total_us(&self) -> i64 {
        self.tasks
            .iter()
            .map(|task| tasks::span(task).1)
            .max()
            .unwrap_or(0)
            - self.zero_us
    }

    fn failed(&self) -> usize {
        let succeeded = |task: &&TaskView| {
            task.done
                .as_ref()
                .is_some_and(|done| done.outcome() == Outcome::Succeeded)
        };
        self.tasks.len() - self.tasks.iter().filter(succeeded).count()
    }

    /// Pairs of tasks of different orders that ran at the same time.
    fn overlaps(&self) -> usize {
        let run = |task: &TaskView| (task.effective_order, tasks::span(task));
        let runs: Vec<_> = self.tasks.iter().map(run).collect();
        let overlap = |(a, (a_start, a_end)): &(Option<i64>, (i64, i64)),
                       (b, (b_start, b_end)): &(Option<i64>, (i64, i64))| {
            a < b && a_start < b_end && b_start < a_end
        };
        runs.iter()
            .map(|a| runs.iter().filter(|b| overlap(a, b)).count())
            .sum()
    }

    /// Prints the timeline, the log and the verdict.
    pub(super) fn print(&self) {
        output::styled(
            "Timeline: tasks of one order run together, the next order waits for all of them",
            BOLD,
        );
        gantt::print(&self.spans());
        output::line("");
        output::styled("Execution log, as stored in Postgres", BOLD);
        tasks::print(&self.tasks);
        output::line("");
        output::styled(self.sentence(), if self.good() { GREEN } else { RED });
        output::styled("expected: the longest task of each order, added up", DIM);
    }

    fn spans(&self) -> Vec<Span> {
        let mut orders: Vec<_> = self.tasks.iter().map(|task| task.effective_order).collect();
        orders.dedup();
        let span = |task: &TaskView| {
            let (start, end) = tasks::span(task);
            let seq = task.id.as_ref().map_or(0, |id| id.seq);
            Span {
                label: format!(
                    "order {:<4} task {seq:>2}",
                    task.effective_order.unwrap_or_default()
                ),
                group: orders
                    .iter()
                    .position(|order| *order == task.effective_order)
                    .unwrap_or(0),
                start_us: start - self.zero_us,
                end_us: end - self.zero_us,
                note: time_text::duration(task.done.as_ref().map_or(0, async_done::run_time_us)),
            }
        };
        self.tasks.iter().map(span).collect()
    }

    fn sentence(&self) -> String {
        let orders = match self.overlaps() {
            0 => "no two orders overlap".to_owned(),
            pairs => {
                let pairs = plural::with_verb(pairs, ["pair", "pairs"]);
                format!("{pairs} of tasks of different orders OVERLAP")
            }
        };
        let tasks = match self.failed() {
            0 => format!("all {} tasks succeeded", self.tasks.len()),
            failed => format!("{failed} of {} tasks did NOT succeed", self.tasks.len()),
        };
        format!(
            "total {} of {} expected ({:+.1} %); {orders}; {tasks}",
            time_text::duration(self.total_us()),
            time_text::duration(self.expected_us()),
            self.overhead_percent(),
        )
    }

    fn expected_us(&self) -> i64 {
        i64::try_from(self.expected.as_micros()).unwrap_or(i64::MAX)
    }

    fn overhead_percent(&self) -> f64 {
        (self.total_us() as f64 / self.expected_us().max(1) as f64 - 1.0) * 100.0
    }

    /// The verdict as one JSON object.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "total_s": time_text::seconds(self.total_us()),
            "expected_s": time_text::seconds(self.expected_us()),
            "overhead_percent": self.overhead_percent(),
            "overlaps": self.overlaps(),
            "failed": self.failed(),
            "tasks": self.tasks.iter().map(json::of).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rallypoint_client::api::AsyncDone;

    fn task(order: i64, started_us: i64, ended_us: i64) -> TaskView {
        let done = AsyncDone {
            outcome: Outcome::Succeeded.into(),
            started_us,
            ended_us,
            ..AsyncDone::default()
        };
        TaskView {
            effective_order: Some(order),
            done: Some(done),
            ..TaskView::default()
        }
    }

    #[test]
    fn orders_that_touch_do_not_overlap() {
        let verdict = Verdict::new(
            vec![task(100, 1, 5), task(100, 2, 6), task(200, 6, 9)],
            Duration::from_micros(8),
        );
        assert!(verdict.good());
    }

    #[test]
    fn an_overlap_is_seen() {
        let verdict = Verdict::new(
            vec![task(100, 1, 5), task(100, 2, 7), task(200, 6, 9)],
            Duration::from_micros(8),
        );
        assert_eq!(verdict.overlaps(), 1);
        assert!(!verdict.good());
    }

    #[test]
    fn a_task_without_an_outcome_has_not_succeeded() {
        let verdict = Verdict::new(vec![TaskView::default()], Duration::from_micros(8));
        assert!(!verdict.good());
    }
}
