//! Cancelling tasks, and how tasks end that were taken out of the queue.

use super::finish::Ending;
use crate::core::{
    Attempt, Caller, Cancel, Handle, Outcome, Reject, Reply, Shard, TaskError, TaskRange, Turn,
    scheduler::{in_flight::InFlight, queue::span::Span},
};
use std::sync::Arc;

impl Shard {
    /// Waiting tasks end at once and never start; running ones are stopped, and their reports say
    /// what came first.
    pub(crate) fn cancel(
        &mut self,
        turn: &mut Turn,
        caller: &Caller,
        handle: Handle,
        cancel: &Cancel,
    ) -> Reply {
        let highest = self.schedulers.expect(handle).highest_seq;
        let unknown = |range: &TaskRange| range.first.0 < 1 || range.last > highest;
        if cancel.tasks.iter().any(unknown) {
            return Reply::Rejected(Reject::UnknownTask);
        }
        let why = Why::new(caller, cancel);
        let stopped = Arc::new(TaskError::cancelled(&why.of_one_that("while it ran")));
        let (mut waiting, mut running) = (0, 0);
        for range in &cancel.tasks {
            if cancel.running {
                running += self.stop_among(turn, handle, range, &stopped, cancel);
            }
            waiting += match (cancel.waiting, cancel.dry_run) {
                (false, _) => 0,
                (true, false) => self.end_among(turn, handle, range, &why),
                (true, true) => {
                    let queue = &self.schedulers.expect(handle).queue;
                    queue.count_of(range.order, range.first, range.last)
                }
            };
        }
        Reply::Cancelled { waiting, running }
    }

    /// Stops what runs among these tasks, or only counts it.
    fn stop_among(
        &mut self,
        turn: &mut Turn,
        handle: Handle,
        range: &TaskRange,
        why: &Arc<TaskError>,
        cancel: &Cancel,
    ) -> u32 {
        let by_filter = cancel.filter.is_some();
        let TaskRange { first, last, .. } = *range;
        let running = &self.schedulers.expect_mut(handle).running;
        // Of many tasks only what is stopped by this call counts. One task that is being stopped
        // already is not one that has ended.
        let counts = |flight: &&InFlight| !by_filter || flight.is_stoppable();
        let spans = running.among(first, last).filter(counts);
        let found: Vec<_> = spans
            .map(|flight| (flight.span.first, flight.span.parts(first, last).1))
            .collect();
        if !cancel.dry_run {
            for (assignment, _) in &found {
                self.stop(turn, handle, *assignment, why);
            }
        }
        found.iter().map(|(_, tasks)| tasks).sum()
    }

    /// Ends what waits among these tasks, by ascending number.
    fn end_among(&mut self, turn: &mut Turn, handle: Handle, range: &TaskRange, why: &Why) -> u32 {
        let queue = &mut self.schedulers.expect_mut(handle).queue;
        let mut spans = queue.remove_of(range.order, range.first, range.last);
        spans.sort_unstable_by_key(|span| span.first);
        let tasks = spans.iter().map(|span| span.count).sum();
        for span in spans {
            self.end_parts(turn, handle, span, |turn, attempt| {
                let when = match attempt.0 {
                    0 => "before it ran",
                    _ => "before another attempt",
                };
                let error = TaskError::cancelled(&why.of_one_that(when));
                Ending::idle(
                    Outcome::Cancelled,
                    attempt,
                    turn.now,
                    &error.code,
                    &error.message,
                )
            });
        }
        tasks
    }

    /// Ends tasks that were taken out of the queue, all alike.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn end_waiting(
        &mut self,
        turn: &mut Turn,
        handle: Handle,
        span: Span,
        outcome: Outcome,
        code: &str,
        message: &str,
    ) {
        self.end_parts(turn, handle, span, |turn, attempt| {
            Ending::idle(outcome, attempt, turn.now, code, message)
        });
    }

    /// Ends tasks that were taken out of the queue, each by the attempt that was its last.
    fn end_parts(
        &mut self,
        turn: &mut Turn,
        handle: Handle,
        span: Span,
        ending: impl Fn(&Turn, Attempt) -> Ending,
    ) {
        let histories = &self.schedulers.expect(handle).histories;
        let parts: Vec<(Span, Attempt)> = span
            .split_at(histories)
            .into_iter()
            .map(|(part, history)| (part, history.map_or(Attempt(0), |past| past.attempt)))
            .collect();
        for (part, attempt) in parts {
            let ending = ending(turn, attempt);
            self.finish(turn, handle, &part, ending);
        }
    }
}

/// Who has cancelled tasks, and which ones were meant.
struct Why {
    by: String,
    meant: String,
}

impl Why {
    fn new(caller: &Caller, cancel: &Cancel) -> Why {
        let by = match &*caller.name {
            "" => String::new(),
            name => format!(" by {name}"),
        };
        let filter = cancel.filter.as_ref();
        let meant = filter.map_or(String::new(), |filter| format!(", with others: {filter}"));
        Why { by, meant }
    }

    /// What the end of a task says that stood so when it was cancelled.
    fn of_one_that(&self, when: &str) -> String {
        let Why { by, meant } = self;
        format!("cancelled{by} {when}{meant}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Namespace, Seq, TaskRef};

    #[test]
    fn an_end_says_who_has_cancelled_the_task_and_by_which_filter() {
        let caller = |name: &str| Caller {
            namespace: Namespace("one".into()),
            name: name.into(),
        };
        let one = Cancel::one(TaskRef {
            seq: Seq(1),
            order: None,
        });
        let why = |caller: &Caller, cancel: &Cancel, when: &str| {
            Why::new(caller, cancel).of_one_that(when)
        };
        assert_eq!(
            why(&caller(""), &one, "before it ran"),
            "cancelled before it ran"
        );
        let ann = caller("ann");
        assert_eq!(
            why(&ann, &one, "while it ran"),
            "cancelled by ann while it ran"
        );
        let filter = Some(Arc::from("order 5, run=nightly"));
        let by_filter = Cancel { filter, ..one };
        assert_eq!(
            why(&ann, &by_filter, "before it ran"),
            "cancelled by ann before it ran, with others: order 5, run=nightly"
        );
    }
}
