//! What an executor reports: the end of the task, or another attempt.
//!
//! A report about another attempt than the running one is stale and changes nothing. An
//! exactly-once attempt that is lost may have committed: nothing follows before its target has said
//! whether.

use super::{finish::Ending, report_verdict::Verdict, traces};
use crate::core::{
    Action, AttemptEvent, AttemptRecord, Completion, Delivery, Handle, Outcome, Ran, Report, Seq,
    Shard, TaskError, TaskId, Time, Turn, Unreported, Unresolved,
    scheduler::{in_flight::InFlight, starts_and_ends::Used},
};
use std::sync::Arc;

impl Shard {
    /// Takes in a report.
    pub(crate) fn complete(&mut self, turn: &mut Turn, completion: &Completion) {
        let (now, handle, first) = (turn.now, completion.handle, completion.first);
        let Some(scheduler) = self.schedulers.get_mut(handle) else {
            return;
        };
        let running = scheduler.running.by_first.get(&first);
        let is_known = |f: &&InFlight| !f.in_doubt || f.resolving.is_some();
        let current = running.filter(|f| f.attempt == completion.attempt && is_known(f));
        let Some(flight) = current else {
            return;
        };
        let resolving = flight.resolving;
        // Its marker knows when it ran.
        let since = resolving.map_or(flight.since, |_| Time(0));
        let report = as_judged(resolving, &completion.report);
        let started = completion.started.clamp(since, now.max(since));
        let ended = completion.ended.clamp(started, now.max(started));
        let times = ((*report != Report::NotStarted).then_some(started), ended);
        let used = used(now, flight, completion, (started, ended));
        let left = scheduler.leave(&mut self.fair, first, used);
        let flight = left.expect("just found");
        scheduler.last_activity = now;
        if resolving.is_none() {
            turn.out.unwritten.reported(flight.span.kind);
        }
        let may_have_committed = flight.span.spec.options.delivery() == Delivery::ExactlyOnce;
        if *report == Report::Lost && may_have_committed && resolving.is_none() {
            return self.resolve(turn, handle, flight, Unreported::MayHaveBegun);
        }
        self.resources
            .end_of_attempt(turn, TaskId { handle, seq: first });
        let scheduler = self.schedulers.expect_mut(handle);
        let verdict = scheduler.judge(now, &flight, report);
        let verdict = verdict.within_deadline(now, &flight.span);
        traces::note_attempt(turn, &flight, completion, &verdict, times);
        // Not simply what its executor has reported.
        if resolving.is_some() || !matches!(verdict, Verdict::End(..)) {
            turn.out.unwritten.hold(handle);
        }
        match verdict {
            Verdict::End(outcome, error) => {
                let ending = ending(completion, outcome, error, times);
                self.finish(turn, handle, &flight.span, ending);
                self.note_whether_it_goes_on(turn, flight.span.kind, handle);
            }
            Verdict::Retry { at, what } => {
                record_attempt(turn, handle, &flight, what, ran(completion, started));
                scheduler.queue.put_back_delayed(at, flight.span);
            }
            Verdict::Again => {
                let began = *report == Report::Stopped;
                if began || flight.recorded {
                    let ran = ran(completion, started).filter(|_| began);
                    record_attempt(turn, handle, &flight, AttemptEvent::HandedBack, ran);
                }
                scheduler.hand_back(flight, began);
            }
        }
    }

    /// Has the target asked whether an attempt has committed that runs nowhere any more. It counts
    /// as running until then, without a slot: nobody knows its end, so no other one is recorded.
    pub(super) fn resolve(
        &mut self,
        turn: &mut Turn,
        handle: Handle,
        flight: InFlight,
        unreported: Unreported,
    ) {
        turn.out.unwritten.hold(handle);
        turn.out.actions.push(Action::Resolve(Unresolved {
            handle,
            seq: flight.span.first,
            attempt: flight.attempt,
            work: flight.span.spec.work.clone(),
        }));
        let flight = InFlight {
            since: turn.now,
            charged: 0,
            charged_earlier: 0,
            ahead_of_turn: false,
            in_doubt: true,
            resolving: Some(unreported),
            ..flight
        };
        let scheduler = self.schedulers.expect_mut(handle);
        scheduler.begin(turn.now, &mut self.fair, flight);
    }

    /// Asks the executor to stop an attempt, durably. `why`: what its end says of who has cancelled
    /// it.
    pub(crate) fn stop(
        &mut self,
        turn: &mut Turn,
        handle: Handle,
        first: Seq,
        why: &Arc<TaskError>,
    ) {
        let scheduler = self.schedulers.expect_mut(handle);
        let Some(flight) = scheduler.running.by_first.get_mut(&first) else {
            return;
        };
        if !flight.is_stoppable() {
            return;
        }
        flight.cancel = Some(why.clone());
        let attempt = flight.attempt;
        let what = AttemptEvent::CancelRequested {
            why: Some(why.clone()),
        };
        record_attempt(turn, handle, flight, what, None);
        turn.out.actions.push(Action::Stop {
            handle,
            first,
            attempt,
        });
    }
}

/// What an attempt has used that began and ended then by the clock of the owner.
fn used(
    now: Time,
    flight: &InFlight,
    completion: &Completion,
    (started, ended): (Time, Time),
) -> Used {
    let waited = now.since(flight.since);
    if !flight.span.spec.work.has_session() {
        // It has none, and waits for the journal alone.
        return Used::Slot(ended.since(started));
    }
    let never_began = completion.report == Report::NotStarted;
    match (flight.in_line, completion.slot) {
        // It had none, or nobody knows of it since its executor was lost.
        (true, 0) => Used::Nothing { waited },
        (true, _) if never_began => Used::Nothing { waited },
        // It had none until it began, by the clock of its executor.
        (true, _) => Used::Slot(completion.ended.since(completion.started).min(waited)),
        // Its executor had no slot for it: somebody in line did, or its target was away.
        (false, 0) if never_began => Used::Nothing { waited },
        // Nobody else could use the slot while it waited for a body or a session either.
        (false, _) => Used::Slot(ended.since(flight.since)),
    }
}

/// What is resolved without having begun was never started.
fn as_judged(resolving: Option<Unreported>, report: &Report) -> &Report {
    match (resolving, report) {
        (Some(Unreported::NotBegun), Report::Lost) => &Report::NotStarted,
        (_, report) => report,
    }
}

/// The end of a task that a completion reports; `times`: when it started, if it did, and ended.
fn ending(
    completion: &Completion,
    outcome: Outcome,
    error: Option<Arc<TaskError>>,
    (started, ended): (Option<Time>, Time),
) -> Ending {
    Ending {
        outcome,
        attempt: completion.attempt,
        started,
        ended,
        slot: completion.slot,
        backend_pid: completion.backend_pid,
        diagnostics: completion.diagnostics.clone(),
        error,
        result: match &completion.report {
            Report::Succeeded(result) => result.clone(),
            Report::Unstorable(result) if outcome == Outcome::Succeeded => result.clone(),
            _ => None,
        },
    }
}

/// Where the attempt ran that a completion reports.
fn ran(completion: &Completion, started: Time) -> Option<Ran> {
    Some(Ran {
        started,
        slot: completion.slot,
        backend_pid: completion.backend_pid,
        diagnostics: completion.diagnostics.clone(),
    })
}

fn record_attempt(
    turn: &mut Turn,
    handle: Handle,
    flight: &InFlight,
    what: AttemptEvent,
    ran: Option<Ran>,
) {
    turn.out.records.attempts.push(AttemptRecord {
        handle,
        seq: flight.span.first,
        attempt: flight.attempt,
        what,
        at: turn.now,
        ran,
    });
}
