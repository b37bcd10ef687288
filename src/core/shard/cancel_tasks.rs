//! Cancelling tasks, and how tasks end that were taken out of the queue.

use super::finish::Ending;
use crate::core::{
    Attempt, Caller, Cancel, Handle, Outcome, Reject, Reply, Shard, TaskRange, Turn,
    scheduler::queue::span::Span,
};

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
        let why = why(caller, cancel);
        let (mut waiting, mut running) = (0, 0);
        for range in &cancel.tasks {
            if cancel.running {
                running += self.stop_among(turn, handle, range, cancel.dry_run);
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
        dry_run: bool,
    ) -> u32 {
        let TaskRange { first, last, .. } = *range;
        let running = &self.schedulers.expect_mut(handle).running;
        let spans = running.among(first, last).map(|flight| &flight.span);
        let found: Vec<_> = spans
            .map(|span| (span.first, span.parts(first, last).1))
            .collect();
        if !dry_run {
            for (assignment, _) in &found {
                self.stop(turn, handle, *assignment);
            }
        }
        found.iter().map(|(_, tasks)| tasks).sum()
    }

    /// Ends what waits among these tasks, by ascending number.
    fn end_among(&mut self, turn: &mut Turn, handle: Handle, range: &TaskRange, why: &str) -> u32 {
        let queue = &mut self.schedulers.expect_mut(handle).queue;
        let mut spans = queue.remove_of(range.order, range.first, range.last);
        spans.sort_unstable_by_key(|span| span.first);
        let tasks = spans.iter().map(|span| span.count).sum();
        for span in spans {
            self.end_waiting(turn, handle, span, Outcome::Cancelled, "CANCELLED", why);
        }
        tasks
    }

    /// Ends tasks that were taken out of the queue. Each one that has had attempts says which was
    /// its last.
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
        let histories = &self.schedulers.expect(handle).histories;
        let parts: Vec<(Span, Attempt)> = span
            .split_at(histories)
            .into_iter()
            .map(|(part, history)| (part, history.map_or(Attempt(0), |past| past.attempt)))
            .collect();
        for (part, attempt) in parts {
            let ending = Ending::idle(outcome, attempt, turn.now, code, message);
            self.finish(turn, handle, &part, ending);
        }
    }
}

/// Who has cancelled tasks, and which ones were meant.
fn why(caller: &Caller, cancel: &Cancel) -> String {
    let by = match &*caller.name {
        "" => String::new(),
        name => format!(" by {name}"),
    };
    match &cancel.filter {
        None => format!("cancelled{by} before it ran"),
        Some(filter) => format!("cancelled{by} before it ran, with others: {filter}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Namespace, Seq, TaskRef};
    use std::sync::Arc;

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
        assert_eq!(why(&caller(""), &one), "cancelled before it ran");
        let ann = caller("ann");
        assert_eq!(why(&ann, &one), "cancelled by ann before it ran");
        let filter = Some(Arc::from("order 5, run=nightly"));
        let by_filter = Cancel { filter, ..one };
        assert_eq!(
            why(&ann, &by_filter),
            "cancelled by ann before it ran, with others: order 5, run=nightly"
        );
    }
}
