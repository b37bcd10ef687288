//! The one path on which a task ends, whoever asks: executor, cancel, release, deadline, recovery.
//!
//! It gives the event its number, opens the barrier, and applies the failure rule.

use super::traces;
use crate::core::{
    Attempt, Done, DoneNo, Handle, OnFailure, Outcome, ReleaseMode, RetryOf, SchedulerState, Seq,
    Shard, TaskError, TaskResult, Time, Turn,
    scheduler::{Scheduler, halting::EndedTasks, queue::span::Span},
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
            retry_of: None,
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
        let copies = scheduler.take_copies(span);
        let usage = scheduler.ledger.end(span);
        self.quotas.ended(scheduler.share.namespace, usage);
        self.fair.slots.remove_users(span.kind, span.count);
        turn.progressed(handle);
        // What ends without having run was not among those that the window counts.
        match ending.started {
            Some(_) => turn.out.unwritten.ended(handle, span.order),
            None => turn.out.unwritten.hold(handle),
        }
        let outcome = ending.outcome;
        let work = &span.spec.work;
        turn.out.tally.count_ended(work, outcome, span.count);
        self.totals.count_ended(outcome, span.count);
        self.jobs.note_outcome(turn, handle, outcome, span.count);
        let done = ending.of(span);
        traces::note_end(turn, handle, span, &done, &copies);
        let rows = push_done(turn, handle, done_no, done, &copies);
        self.add_uncovered(handle, span.count, rows);
        if let Some(order) = span.order {
            let ended = EndedTasks {
                span,
                order,
                event: done_no,
                copies: &copies,
            };
            self.apply_failure_rule(turn, handle, outcome, &ended);
        }
        self.end_if_done(turn, handle);
        self.checkpoint_if_due(turn, handle);
        self.note_idle(turn.now, handle);
    }

    /// What the end of tasks with an order does to later orders.
    fn apply_failure_rule(
        &mut self,
        turn: &mut Turn,
        handle: Handle,
        outcome: Outcome,
        ended: &EndedTasks<'_>,
    ) {
        let most = self.limits.halt_failed;
        let scheduler = self.schedulers.expect_mut(handle);
        let changes_halt = match (outcome, scheduler.image.settings.on_failure) {
            (Outcome::Succeeded, _) => scheduler.make_good(ended),
            (Outcome::Cancelled, _) => scheduler.keep_failures(ended),
            (_, OnFailure::Halt) => {
                scheduler.count_failures(ended, most);
                true
            }
            (_, OnFailure::Continue | OnFailure::CancelRest) => scheduler.stop_counting(ended),
        };
        let is_cancelled = outcome.is_failure()
            && match scheduler.image.settings.on_failure {
                OnFailure::Continue => false,
                OnFailure::Halt => scheduler.image.release_mode == Some(ReleaseMode::Finish),
                OnFailure::CancelRest => scheduler.queue.goes_above(ended.order),
            };
        if is_cancelled {
            self.begin_cancel(handle, Some(ended.order));
        }
        if changes_halt || is_cancelled {
            self.record(turn, handle);
        }
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
        let (jobs, mut allowance) = self.jobs();
        jobs.scheduler_ended(turn, &mut allowance, handle);
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

/// Appends the events of tasks that ended alike; those of copies say so, one by one. Returns how
/// many rows that adds.
fn push_done(
    turn: &mut Turn,
    handle: Handle,
    first: DoneNo,
    done: Done,
    copies: &[(Seq, RetryOf)],
) -> u32 {
    let mut rows = 0;
    let mut push = |from: i64, until: i64, retry_of: Option<Seq>| {
        let done_no = DoneNo(first.0 + from - done.first.0);
        let part = Done {
            first: Seq(from),
            count: (until - from) as u32,
            retry_of,
            ..done.clone()
        };
        if until > from {
            rows += turn.out.push_done(handle, done_no, part);
        }
    };
    let mut next = done.first.0;
    for (seq, of) in copies {
        push(next, seq.0, None);
        push(seq.0, seq.0 + 1, Some(of.seq));
        next = seq.0 + 1;
    }
    push(next, done.first.0 + i64::from(done.count), None);
    rows
}
