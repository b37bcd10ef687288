//! What the tasks of traced calls have been through: noted where it ends, for whoever shows it.

use super::report_verdict::Verdict;
use crate::core::{
    AttemptEnd, AttemptEvent, Completion, Done, Handle, RetryOf, Seq, Time, Traced, TracedAttempt,
    TracedEnd, Turn,
    scheduler::{in_flight::InFlight, queue::span::Span},
};

/// An attempt has ended; `times`: when it began, if it did, and ended.
pub(super) fn note_attempt(
    turn: &mut Turn,
    flight: &InFlight,
    completion: &Completion,
    verdict: &Verdict,
    times: (Option<Time>, Time),
) {
    let (Some(started), ended, Some(_)) = (times.0, times.1, &flight.span.spec.trace) else {
        return;
    };
    let (end, error) = match verdict {
        Verdict::End(outcome, error) => (AttemptEnd::Last(*outcome), error.clone()),
        Verdict::Retry { what, .. } => match what {
            AttemptEvent::Lost { error, .. } => (AttemptEnd::Lost, error.clone()),
            AttemptEvent::Failed { error, .. } => (AttemptEnd::Failed, Some(error.clone())),
            _ => (AttemptEnd::Failed, None),
        },
        Verdict::Again => (AttemptEnd::HandedBack, None),
    };
    let error = error.map(|error| error.code.clone());
    let what = TracedEnd::Attempt(TracedAttempt {
        attempt: flight.attempt,
        // What is resolved was handed out before anybody knows when.
        handed_out: flight.since.min(started),
        started,
        ended,
        slot: completion.slot,
        backend_pid: completion.backend_pid,
        diagnostics: completion.diagnostics.clone(),
        end,
        error,
    });
    note(turn, completion.handle, &flight.span, what);
}

/// Tasks have ended.
pub(super) fn note_end(
    turn: &mut Turn,
    handle: Handle,
    span: &Span,
    done: &Done,
    copies: &[(Seq, RetryOf)],
) {
    if span.spec.trace.is_none() {
        return;
    }
    let copies = copies.iter().map(|(seq, of)| (*seq, of.seq));
    let what = TracedEnd::Task {
        outcome: done.outcome,
        error: done.error.as_ref().map(|error| error.code.clone()),
        attempt: done.attempt,
        ended: done.ended,
        copies: copies.collect(),
    };
    note(turn, handle, span, what);
}

fn note(turn: &mut Turn, handle: Handle, span: &Span, what: TracedEnd) {
    turn.out.tally.traced.push(Traced {
        handle,
        first: span.first,
        count: span.count,
        order: span.order,
        spec: span.spec.clone(),
        submitted_at: span.submitted_at,
        what,
    });
}
