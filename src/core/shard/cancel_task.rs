//! Cancelling one task, and how tasks end that were taken out of the queue.

use super::finish::Ending;
use crate::core::{
    Attempt, Cancelling, Handle, Outcome, Reject, Reply, Shard, TaskRef, Turn,
    scheduler::queue::span::Span,
};

impl Shard {
    /// A waiting task ends at once and never starts; a running one is stopped, and its report says
    /// what came first.
    pub(crate) fn cancel(&mut self, turn: &mut Turn, handle: Handle, place: TaskRef) -> Reply {
        let TaskRef { seq, order } = place;
        let scheduler = self.schedulers.expect_mut(handle);
        if seq.0 < 1 || seq > scheduler.highest_seq {
            return Reply::Rejected(Reject::UnknownTask);
        }
        if let Some(flight) = scheduler.running.holding(seq) {
            let first = flight.span.first;
            self.stop(turn, handle, first);
            return Reply::Cancelling(Cancelling::Stopping);
        }
        let spans = scheduler.queue.remove_of(order, seq, seq);
        if spans.is_empty() {
            return Reply::Cancelling(Cancelling::Ended);
        }
        for span in spans {
            self.end_waiting(
                turn,
                handle,
                span,
                Outcome::Cancelled,
                "CANCELLED",
                "cancelled before it ran",
            );
        }
        Reply::Cancelling(Cancelling::Cancelled)
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
