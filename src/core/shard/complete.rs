//! What an executor reports: the end of the task, or another attempt.
//!
//! A report about another attempt than the running one is stale and changes nothing.

use super::{finish::Ending, report_verdict::Verdict};
use crate::core::{
    Action, AttemptEvent, AttemptRecord, Completion, Handle, Report, Seq, Shard, Turn,
    scheduler::in_flight::InFlight,
};

impl Shard {
    /// Takes in a report.
    pub(crate) fn complete(&mut self, turn: &mut Turn, completion: &Completion) {
        let (now, handle, first) = (turn.now, completion.handle, completion.first);
        let Some(scheduler) = self.schedulers.get_mut(handle) else {
            return;
        };
        let running = scheduler.running.by_first.get(&first);
        let current = running.filter(|f| f.attempt == completion.attempt && !f.in_doubt);
        let Some(flight) = current else {
            return;
        };
        let (since, has_session) = (flight.since, flight.span.spec.work.has_session());
        let started = completion.started.clamp(since, now.max(since));
        let ended = completion.ended.clamp(started, now.max(started));
        let began = !matches!(completion.report, Report::NotStarted);
        // Nobody else could use the slot while it waited for a body or a session either. Work
        // without one has none, and waits for the journal alone.
        let taken = if has_session { since } else { started };
        let used = (ended.0 - taken.0).max(1);
        let left = scheduler.leave(&mut self.fair, first, used);
        let flight = left.expect("just found");
        scheduler.last_activity = now;
        let verdict = scheduler
            .judge(now, &flight, &completion.report)
            .within_deadline(now, &flight.span);
        turn.out.unwritten.reported(flight.span.kind);
        if !matches!(verdict, Verdict::End(..)) {
            turn.out.unwritten.hold(handle);
        }
        match verdict {
            Verdict::End(outcome, error) => {
                let result = match &completion.report {
                    Report::Succeeded(result) => result.clone(),
                    _ => None,
                };
                let ending = Ending {
                    outcome,
                    attempt: flight.attempt,
                    started: began.then_some(started),
                    ended,
                    slot: completion.slot,
                    backend_pid: completion.backend_pid,
                    diagnostics: completion.diagnostics.clone(),
                    error,
                    result,
                };
                self.finish(turn, handle, &flight.span, ending);
            }
            Verdict::Retry { at, what } => {
                record_attempt(turn, handle, &flight, what);
                scheduler.queue.put_back_delayed(at, flight.span);
            }
            Verdict::Again => {
                let began = matches!(completion.report, Report::Stopped);
                if began || flight.recorded {
                    record_attempt(turn, handle, &flight, AttemptEvent::HandedBack);
                }
                scheduler.hand_back(flight, began);
            }
        }
    }

    /// Asks the executor to stop an attempt, durably.
    pub(crate) fn stop(&mut self, turn: &mut Turn, handle: Handle, first: Seq) {
        let scheduler = self.schedulers.expect_mut(handle);
        let Some(flight) = scheduler.running.by_first.get_mut(&first) else {
            return;
        };
        // Work without a session ends at once by itself.
        if flight.cancel || flight.span.count > 1 {
            return;
        }
        flight.cancel = true;
        let attempt = flight.attempt;
        record_attempt(turn, handle, flight, AttemptEvent::CancelRequested);
        turn.out.actions.push(Action::Stop {
            handle,
            first,
            attempt,
        });
    }
}

fn record_attempt(turn: &mut Turn, handle: Handle, flight: &InFlight, what: AttemptEvent) {
    turn.out.records.attempts.push(AttemptRecord {
        handle,
        seq: flight.span.first,
        attempt: flight.attempt,
        what,
        at: turn.now,
    });
}
