//! What an executor reports: the end of the task, or another attempt.

use super::finish::Ending;
use crate::core::{
    Action, Attempt, AttemptEvent, AttemptRecord, Completion, Handle, Outcome, Output, Report,
    Shard, TaskError, TaskId, Time,
    scheduler::{InFlight, Scheduler, queue::Span},
};
use std::sync::Arc;

/// What follows from a report.
enum Verdict {
    End(Outcome, Option<Arc<TaskError>>),
    Retry {
        at: Time,
        what: AttemptEvent,
    },
    /// Hand it out again as if nothing had been.
    Again,
}

impl Verdict {
    /// No further attempt for a task whose deadline has passed while this one ran.
    fn within_deadline(self, now: Time, span: &Span) -> Self {
        let over = span
            .spec
            .options
            .deadline
            .is_some_and(|deadline| span.submitted_at + deadline <= now);
        match self {
            Verdict::Retry { .. } | Verdict::Again if over => Verdict::End(
                Outcome::TimedOut,
                Some(reason(
                    "DEADLINE",
                    "its deadline passed before another attempt",
                )),
            ),
            verdict => verdict,
        }
    }
}

impl Shard {
    /// Takes a report in. One about another attempt than the running one is stale and changes nothing.
    pub(crate) fn complete(&mut self, now: Time, completion: &Completion, out: &mut Output) {
        let handle = completion.handle;
        let Some(scheduler) = self.schedulers.get_mut(&handle) else {
            return;
        };
        let current = scheduler
            .in_flight
            .get(&completion.first)
            .is_some_and(|f| f.attempt == completion.attempt && !f.suspect);
        if !current {
            return;
        }
        let flight = scheduler
            .in_flight
            .remove(&completion.first)
            .expect("just found");
        let count = flight.span.count;
        scheduler.running -= count;
        scheduler.last_activity = now;
        let started = completion
            .started
            .clamp(flight.since, now.max(flight.since));
        let ended = completion.ended.clamp(started, now.max(started));
        self.fair
            .vacate(&mut scheduler.share, flight.span.kind, count);
        self.fair.charge(
            &mut scheduler.share,
            (ended.0 - started.0 - flight.charged) * i64::from(count),
        );
        match scheduler
            .judge(now, &flight, &completion.report)
            .within_deadline(now, &flight.span)
        {
            Verdict::End(outcome, error) => {
                let result = if let Report::Succeeded(result) = &completion.report {
                    result.clone()
                } else {
                    None
                };
                let (slot, backend_pid) = (completion.slot, completion.backend_pid);
                let started = (!matches!(completion.report, Report::NotStarted)).then_some(started);
                let ending = Ending {
                    outcome,
                    attempt: flight.attempt,
                    started,
                    ended,
                    slot,
                    backend_pid,
                    error,
                    result,
                };
                self.finish(now, handle, &flight.span, ending, out);
            }
            Verdict::Retry { at, what } => {
                out.records.attempts.push(attempt_record(
                    handle,
                    &flight.span,
                    flight.attempt,
                    what,
                    now,
                ));
                scheduler.queue.put_back_delayed(at, flight.span);
            }
            Verdict::Again => {
                let began = matches!(completion.report, Report::Stopped);
                if began || flight.recorded {
                    let what = AttemptEvent::HandedBack;
                    out.records.attempts.push(attempt_record(
                        handle,
                        &flight.span,
                        flight.attempt,
                        what,
                        now,
                    ));
                }
                scheduler.hand_back(flight, began);
            }
        }
        self.refresh(handle);
    }

    /// Asks the executor to stop an attempt, durably.
    pub(crate) fn stop(
        &mut self,
        now: Time,
        handle: Handle,
        first: crate::core::Seq,
        out: &mut Output,
    ) {
        let scheduler = self.scheduler_mut(handle);
        let Some(flight) = scheduler.in_flight.get_mut(&first) else {
            return;
        };
        // Work without a session ends at once by itself.
        if flight.cancel || flight.span.count > 1 {
            return;
        }
        flight.cancel = true;
        let attempt = flight.attempt;
        out.records.attempts.push(attempt_record(
            handle,
            &flight.span,
            attempt,
            AttemptEvent::CancelRequested,
            now,
        ));
        out.actions.push(Action::Stop {
            handle,
            first,
            attempt,
        });
    }
}

impl Scheduler {
    fn judge(&mut self, now: Time, flight: &InFlight, report: &Report) -> Verdict {
        let error = match report {
            Report::Succeeded(_) => return Verdict::End(Outcome::Succeeded, None),
            Report::Failed { error, .. } | Report::TimedOut(error) => Some(error.clone()),
            Report::Stopped | Report::NotStarted => None,
        };
        if flight.cancel {
            let error = error.unwrap_or_else(|| reason("CANCELLED", "stopped while it ran"));
            return Verdict::End(Outcome::Cancelled, Some(error));
        }
        match (report, error) {
            (
                Report::Failed {
                    transient: true, ..
                },
                Some(error),
            ) => self.judge_loss(now, flight, error),
            (Report::Failed { .. }, Some(error)) => {
                self.judge_failure(now, flight, error, Outcome::Failed)
            }
            (_, Some(error)) if error.code == "DEADLINE" => {
                Verdict::End(Outcome::TimedOut, Some(error))
            }
            (_, Some(error)) => self.judge_failure(now, flight, error, Outcome::TimedOut),
            (Report::Stopped, None) if flight.span.spec.options.at_most_once() => Verdict::End(
                Outcome::Exhausted,
                Some(reason(
                    "LOST",
                    "stopped while it ran, and it must not start twice",
                )),
            ),
            (_, None) => Verdict::Again,
        }
    }

    fn judge_failure(
        &mut self,
        now: Time,
        flight: &InFlight,
        error: Arc<TaskError>,
        outcome: Outcome,
    ) -> Verdict {
        let options = &flight.span.spec.options;
        let history = self.histories.entry(flight.span.first).or_default();
        history.attempt = flight.attempt;
        history.failures += 1;
        let again =
            history.failures < options.retry.max_attempts() && !options.retry.forbids(&error.code);
        if !again || options.at_most_once() {
            return Verdict::End(outcome, Some(error));
        }
        let ended = history.failures + history.losses;
        let next_at = self.retry_at(now, flight, ended);
        Verdict::Retry {
            at: next_at,
            what: AttemptEvent::Failed { next_at, error },
        }
    }

    fn judge_loss(&mut self, now: Time, flight: &InFlight, error: Arc<TaskError>) -> Verdict {
        let options = &flight.span.spec.options;
        let history = self.histories.entry(flight.span.first).or_default();
        history.attempt = flight.attempt;
        history.losses += 1;
        if options.retry.forbids(&error.code) {
            return Verdict::End(Outcome::Failed, Some(error));
        }
        if options.at_most_once() || history.losses >= options.retry.max_losses() {
            return Verdict::End(Outcome::Exhausted, Some(error));
        }
        let ended = history.failures + history.losses;
        let next_at = self.retry_at(now, flight, ended);
        Verdict::Retry {
            at: next_at,
            what: AttemptEvent::Lost {
                next_at,
                error: Some(error),
            },
        }
    }

    fn retry_at(&self, now: Time, flight: &InFlight, ended: u32) -> Time {
        let task = TaskId {
            handle: self.handle(),
            seq: flight.span.first,
        };
        flight
            .span
            .spec
            .options
            .retry
            .next_at(now, task, flight.attempt, ended)
    }

    /// Never began, or was handed back: it waits again. The number of an attempt that began, or that
    /// stands in the journal, is spent.
    fn hand_back(&mut self, flight: InFlight, began: bool) {
        let spent = if began || flight.recorded {
            flight.attempt
        } else {
            Attempt(flight.attempt.0 - 1)
        };
        if spent.0 > 0 {
            self.histories.entry(flight.span.first).or_default().attempt = spent;
        }
        self.queue.put_back(flight.span);
    }
}

fn reason(code: &str, message: &str) -> Arc<TaskError> {
    Arc::new(TaskError {
        code: code.into(),
        message: message.into(),
    })
}

fn attempt_record(
    handle: Handle,
    span: &Span,
    attempt: Attempt,
    what: AttemptEvent,
    at: Time,
) -> AttemptRecord {
    AttemptRecord {
        handle,
        seq: span.first,
        attempt,
        what,
        at,
    }
}
