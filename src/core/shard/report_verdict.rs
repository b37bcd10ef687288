//! What follows from a report: the end of the task, another attempt after a wait, or the same
//! attempt as if nothing had been. It counts failures and losses; nothing else changes here.

use crate::core::{
    Attempt, AttemptEvent, Delivery, Outcome, Report, TaskError, TaskId, Time,
    model::retry::LOST,
    scheduler::{Scheduler, in_flight::InFlight, queue::span::Span},
};
use std::sync::Arc;

/// How Postgres says that a statement was stopped.
const QUERY_CANCELED: &str = "57014";

/// What follows from a report.
pub(super) enum Verdict {
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
    pub(super) fn within_deadline(self, now: Time, span: &Span) -> Self {
        let over = span.deadline().is_some_and(|deadline| deadline <= now);
        match self {
            Verdict::Retry { .. } | Verdict::Again if over => {
                let message = "its deadline passed before another attempt";
                Verdict::End(Outcome::TimedOut, Some(reason("DEADLINE", message)))
            }
            verdict => verdict,
        }
    }
}

impl Scheduler {
    pub(super) fn judge(&mut self, now: Time, flight: &InFlight, report: &Report) -> Verdict {
        let is_exactly_once = flight.span.spec.options.delivery() == Delivery::ExactlyOnce;
        let error = match report {
            Report::Succeeded(_) => return Verdict::End(Outcome::Succeeded, None),
            Report::Failed { error, .. } | Report::TimedOut(error) => Some(error.clone()),
            Report::Lost => Some(reason(LOST, "its host was lost while it ran")),
            // Its outcome says what it has done. An attempt of another task has failed.
            Report::Unstorable(Some(_)) if is_exactly_once => {
                return Verdict::End(Outcome::Succeeded, None);
            }
            Report::Unstorable(_) => Some(reason(
                "RESULT_UNSTORABLE",
                "the database refused to store what the attempt brought back",
            )),
            Report::Stopped | Report::NotStarted => None,
        };
        if let Some(why) = &flight.cancel {
            return Verdict::End(Outcome::Cancelled, Some(cancelled(why, error)));
        }
        match (report, error) {
            (
                Report::Lost
                | Report::Failed {
                    transient: true, ..
                },
                Some(error),
            ) => self.judge_loss(now, flight, error),
            (Report::Failed { .. } | Report::Unstorable(_), Some(error)) => {
                self.judge_failure(now, flight, error, Outcome::Failed)
            }
            (_, Some(error)) if error.code == "DEADLINE" => {
                Verdict::End(Outcome::TimedOut, Some(error))
            }
            (_, Some(error)) => self.judge_failure(now, flight, error, Outcome::TimedOut),
            (Report::Stopped, None) => match flight.span.spec.options.delivery() {
                Delivery::AtLeastOnce | Delivery::ExactlyOnce => Verdict::Again,
                Delivery::AtMostOnce => {
                    let message = "stopped while it ran, and it must not start twice";
                    Verdict::End(Outcome::Exhausted, Some(reason(LOST, message)))
                }
            },
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
        let again = match options.delivery() {
            Delivery::AtLeastOnce | Delivery::ExactlyOnce => {
                history.failures < options.retry.max_attempts()
                    && !options.retry.forbids(&error.code)
            }
            Delivery::AtMostOnce => false,
        };
        if !again {
            return Verdict::End(outcome, Some(error));
        }
        let ended = history.failures + history.losses;
        let next_at = self.retry_at(now, flight, ended);
        let what = AttemptEvent::Failed { next_at, error };
        Verdict::Retry { at: next_at, what }
    }

    fn judge_loss(&mut self, now: Time, flight: &InFlight, error: Arc<TaskError>) -> Verdict {
        let options = &flight.span.spec.options;
        let history = self.histories.entry(flight.span.first).or_default();
        history.attempt = flight.attempt;
        history.losses += 1;
        if options.retry.forbids(&error.code) {
            return Verdict::End(Outcome::Failed, Some(error));
        }
        let exhausted = match options.delivery() {
            Delivery::AtLeastOnce | Delivery::ExactlyOnce => {
                history.losses >= options.retry.max_losses()
            }
            Delivery::AtMostOnce => true,
        };
        if exhausted {
            return Verdict::End(Outcome::Exhausted, Some(error));
        }
        let ended = history.failures + history.losses;
        let next_at = self.retry_at(now, flight, ended);
        let error = Some(error);
        let what = AttemptEvent::Lost { next_at, error };
        Verdict::Retry { at: next_at, what }
    }

    fn retry_at(&self, now: Time, flight: &InFlight, ended: u32) -> Time {
        let task = TaskId {
            handle: self.handle(),
            seq: flight.span.first,
        };
        let policy = &flight.span.spec.options.retry;
        policy.next_at(now, task, flight.attempt, ended)
    }

    /// Lets an attempt that never began, or was handed back, wait again. The number of one that
    /// began, or that stands in the journal, is spent.
    pub(super) fn hand_back(&mut self, flight: InFlight, began: bool) {
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

/// The error of an attempt that ended while it was being stopped: who has cancelled it, and what
/// else its end was.
fn cancelled(why: &Arc<TaskError>, error: Option<Arc<TaskError>>) -> Arc<TaskError> {
    match error {
        Some(error) if error.code != QUERY_CANCELED => {
            reason(&error.code, &format!("{} ({})", error.message, why.message))
        }
        _ => why.clone(),
    }
}

fn reason(code: &str, message: &str) -> Arc<TaskError> {
    Arc::new(TaskError::new(code, message))
}
