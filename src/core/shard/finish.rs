//! The one path on which a task ends, whoever asks: executor, cancel, release, deadline, recovery.
//!
//! It gives the event its number, opens the barrier, and applies the failure rule.

use crate::core::{
    Attempt, Done, DoneNo, Halt, Handle, OnFailure, Order, Outcome, ReleaseMode, SchedulerState,
    Shard, TaskError, TaskResult, Time, Turn,
    scheduler::{Scheduler, queue::span::Span},
};
use bytes::Bytes;
use std::sync::Arc;

/// How tasks ended.
#[derive(Debug)]
pub(crate) struct Ending {
    pub outcome: Outcome,
    pub attempt: Attempt,
    pub started: Option<Time>,
    pub ended: Time,
    pub slot: u32,
    pub backend_pid: i32,
    pub diagnostics: Bytes,
    pub error: Option<Arc<TaskError>>,
    pub result: Option<Arc<TaskResult>>,
}

impl Ending {
    /// The end of a task that is not running.
    pub(crate) fn idle(
        outcome: Outcome,
        attempt: Attempt,
        now: Time,
        code: &str,
        message: &str,
    ) -> Self {
        let error = TaskError {
            code: code.into(),
            message: message.into(),
        };
        Ending {
            outcome,
            attempt,
            started: None,
            ended: now,
            slot: 0,
            backend_pid: 0,
            diagnostics: Bytes::new(),
            error: Some(Arc::new(error)),
            result: None,
        }
    }

    fn of(self, span: &Span) -> Done {
        Done {
            first: span.first,
            count: span.count,
            order: span.order,
            outcome: self.outcome,
            attempt: self.attempt,
            started: self.started,
            ended: self.ended,
            slot: self.slot,
            backend_pid: self.backend_pid,
            diagnostics: self.diagnostics,
            error: self.error,
            result: self.result,
        }
    }
}

impl Shard {
    /// Ends the tasks of `span`, which has been taken out of the queue or of what runs.
    pub(crate) fn finish(&mut self, turn: &mut Turn, handle: Handle, span: &Span, ending: Ending) {
        let scheduler = self.schedulers.expect_mut(handle);
        let done_no = DoneNo(scheduler.done_no.0 + 1);
        scheduler.done_no.0 += i64::from(span.count);
        scheduler.queue.finished(span);
        scheduler.forget_histories(span);
        let usage = scheduler.ledger.end(span);
        self.quotas.ended(scheduler.share.namespace, usage);
        self.fair.slots.remove_users(span.kind, span.count);
        turn.progressed(handle);
        // What ends without having run was not among those that the window counts.
        match ending.started {
            Some(_) => turn.out.unwritten.ended(handle, span.order),
            None => turn.out.unwritten.hold(handle),
        }
        let failed = ending.outcome.is_failure();
        let done = ending.of(span);
        let rows = turn.out.push_done(handle, done_no, done);
        self.add_uncovered(handle, span.count, rows);
        if let (true, Some(order)) = (failed, span.order) {
            self.apply_failure_rule(turn, handle, order, span);
        }
        self.end_if_done(turn, handle);
        self.checkpoint_if_due(turn, handle);
        self.note_idle(turn.now, handle);
    }

    fn apply_failure_rule(&mut self, turn: &mut Turn, handle: Handle, order: Order, span: &Span) {
        let most = self.limits.halt_failed;
        let scheduler = self.schedulers.expect_mut(handle);
        match scheduler.image.settings.on_failure {
            OnFailure::Continue => return,
            OnFailure::Halt => {
                let halt = scheduler.image.halt.get_or_insert_with(|| Halt {
                    order,
                    failed: Vec::new(),
                });
                halt.order = halt.order.min(order);
                let room = most.saturating_sub(halt.failed.len());
                let failed = (0..span.count).map(|at| span.first.plus(at));
                halt.failed.extend(failed.take(room));
                if scheduler.image.release_mode == Some(ReleaseMode::Finish) {
                    self.begin_cancel(handle, Some(order));
                }
            }
            OnFailure::CancelRest if scheduler.queue.goes_above(order) => {
                self.begin_cancel(handle, Some(order))
            }
            OnFailure::CancelRest => return,
        }
        self.record(turn, handle);
    }

    /// A released scheduler ends with its last task.
    pub(crate) fn end_if_done(&mut self, turn: &mut Turn, handle: Handle) {
        let scheduler = self.schedulers.expect(handle);
        if scheduler.image.state == SchedulerState::Releasing && scheduler.ledger.count == 0 {
            self.on_ended(turn, handle);
        }
    }

    /// The one place that every scheduler passes when it has ended, whatever ended it.
    fn on_ended(&mut self, turn: &mut Turn, handle: Handle) {
        let scheduler = self.schedulers.expect_mut(handle);
        scheduler.image.state = SchedulerState::Released;
        scheduler.last_activity = turn.now;
        self.checkpoint(turn, handle);
    }
}

impl Scheduler {
    fn forget_histories(&mut self, span: &Span) {
        while let Some((seq, _)) = self.histories.range(span.first..=span.last()).next() {
            let seq = *seq;
            self.histories.remove(&seq);
        }
    }
}
