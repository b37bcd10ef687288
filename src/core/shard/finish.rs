//! The one path on which a task ends, whoever asks: executor, cancel, release, deadline, recovery.
//!
//! It gives the event its number, opens the barrier, and applies the failure rule (design 5.5).

use crate::core::{
    Attempt, Done, DoneNo, Halt, Handle, OnFailure, Order, Outcome, Output, ReleaseMode,
    SchedulerState, Seq, Shard, TaskError, TaskResult, Time, fairness::quota::Usage,
    scheduler::queue::Span,
};
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
            error: Some(Arc::new(error)),
            result: None,
        }
    }
}

impl Shard {
    /// Ends the tasks of `span`, which has been taken out of the queue or of what runs.
    pub(crate) fn finish(
        &mut self,
        now: Time,
        handle: Handle,
        span: &Span,
        ending: Ending,
        out: &mut Output,
    ) {
        let scheduler = self
            .schedulers
            .get_mut(&handle)
            .expect("the scheduler is in memory");
        let count = i64::from(span.count);
        let done_no = DoneNo(scheduler.done_no.0 + 1);
        scheduler.done_no.0 += count;
        scheduler.unfinished -= count;
        scheduler.open.remove(span.first, span.last());
        scheduler.queue.finished(span.order, span.count);
        if !scheduler.histories.is_empty() {
            for seq in span.first.0..=span.last().0 {
                scheduler.histories.remove(&Seq(seq));
            }
        }
        scheduler.forget_deadline(span);
        let bytes = scheduler.sizes.remove(span.first, span.last());
        self.quotas.ended(
            scheduler.share.namespace,
            Usage {
                tasks: count,
                bytes,
            },
        );
        out.touched.insert(handle);
        let failed = ending.outcome.is_failure();
        let done = Done {
            first: span.first,
            count: span.count,
            order: span.order,
            outcome: ending.outcome,
            attempt: ending.attempt,
            started: ending.started,
            ended: ending.ended,
            slot: ending.slot,
            backend_pid: ending.backend_pid,
            error: ending.error,
            result: ending.result,
        };
        let rows = out.push_done(handle, done_no, done);
        self.fall_behind(handle, span.count, rows);
        if let (true, Some(order)) = (failed, span.order) {
            self.apply_failure_rule(handle, order, span.first, out);
        }
        self.close_if_ended(now, handle, out);
        self.checkpoint_if_due(now, handle, out);
        self.doze(now, handle);
    }

    fn apply_failure_rule(&mut self, handle: Handle, order: Order, seq: Seq, out: &mut Output) {
        let most = self.limits.halt_failed;
        let scheduler = self.scheduler_mut(handle);
        match scheduler.image.settings.on_failure {
            OnFailure::Continue => return,
            OnFailure::Halt => {
                let halt = scheduler.image.halt.get_or_insert_with(|| Halt {
                    order,
                    failed: Vec::new(),
                });
                halt.order = halt.order.min(order);
                if halt.failed.len() < most {
                    halt.failed.push(seq);
                }
                if scheduler.image.release_mode == Some(ReleaseMode::Finish) {
                    self.begin_bulk(handle, Some(order));
                }
            }
            OnFailure::CancelRest if scheduler.queue.goes_above(order) => {
                self.begin_bulk(handle, Some(order))
            }
            OnFailure::CancelRest => return,
        }
        self.record(handle, out);
    }

    /// A released scheduler whose last task has ended is over.
    pub(crate) fn close_if_ended(&mut self, now: Time, handle: Handle, out: &mut Output) {
        let scheduler = self.scheduler_mut(handle);
        if scheduler.image.state == SchedulerState::Releasing && scheduler.unfinished == 0 {
            scheduler.image.state = SchedulerState::Released;
            scheduler.last_activity = now;
            self.checkpoint(now, handle, out);
        }
    }
}
