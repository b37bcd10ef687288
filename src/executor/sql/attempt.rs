//! One attempt on a SQL slot: session, text, watchdog, cleaning, report.
//!
//! Invariant: it reports only when the text has returned or its backend is known to be gone, and
//! what has returned is cleaned before that is reported: whoever hears of it finds no lock of it.
//! `statement_timeout` is not enough, because a text can trap it. After an interruption the session
//! is never used again, since a cancel may still be under way.
//!
//! What is rare is boxed: an attempt is moved a few times, and would have room for it each time.

use super::{
    answer::Answered,
    error::{Failure, error},
    markers::{self, Found, Marker},
    marking::Marking,
    register::Session,
    statement::Conditions,
    target::Target,
    target_session::OpenError,
    target_slots::Slot,
};
use crate::{
    core::{
        Assignment, Delivery, Report, TaskError, TaskId, TaskResult, TimeLimit,
        model::diagnostics::Diagnostics,
    },
    executor_protocol::Body,
};
use std::{
    future,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// A longer limit is cut to this, which is as good as none.
const MAX_LIMIT: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Why an attempt was interrupted.
enum Interruption {
    Stop,
    Limit(TaskError),
}

/// What became of an assignment.
pub(crate) struct Attempted {
    pub(crate) report: Report,
    /// Process id of the backend; 0: none.
    pub(crate) backend_pid: i32,
    pub(crate) said: Diagnostics,
    /// What its marker says, when it has committed one, or an earlier attempt has.
    pub(crate) marker: Option<Box<Marker>>,
}

impl Attempted {
    /// No session has run it.
    pub(crate) fn without_session(report: Report) -> Self {
        Attempted {
            report,
            backend_pid: 0,
            said: Diagnostics::default(),
            marker: None,
        }
    }
}

/// Runs an assignment.
pub(crate) async fn run(
    target: &Target,
    mut slot: Slot,
    assignment: &Assignment,
    body: Body,
    stop: CancellationToken,
    replica: &Arc<str>,
) -> (Slot, Attempted) {
    let conditions = match target.conditions(assignment) {
        Ok(conditions) => conditions,
        Err(refused) => {
            return (slot, Attempted::without_session(report(Err(refused), None)));
        }
    };
    if let Some(report) = open(target, &mut slot, assignment, &conditions, &stop).await {
        return (slot, Attempted::without_session(report));
    }
    let Some(live) = slot.live.as_mut() else {
        return (slot, Attempted::without_session(Report::NotStarted));
    };
    let session = live.session.clone();
    let once = assignment.spec.options.delivery() == Delivery::ExactlyOnce;
    let (answered, interruption) = {
        let (number, started) = (slot.number, target.clock.now());
        let text = pin!(async {
            if !once {
                return live.run(&body, &conditions).await;
            }
            let task = conditions.task;
            let marking = Marking::new(task, assignment.attempt, started, number, replica);
            let text = live.run_once(marking, &body, &conditions, &target.clock);
            Box::pin(text).await
        });
        let limit = limit(target, assignment);
        watch(target, &session, text, limit, stop).await
    };
    let interrupted = interruption.is_some();
    let answered = settle(target, &mut slot, answered, interrupted, once).await;
    let is_open = matches!(
        &answered.result,
        Err(failure) if failure.is_ambiguous() || matches!(failure, Failure::Marked(_))
    );
    let attempted = Attempted {
        report: report(answered.result, interruption),
        backend_pid: session.pid,
        said: answered.said,
        marker: answered.marker,
    };
    match is_open {
        true => {
            let attempted = Box::pin(resolve(target, assignment, attempted)).await;
            (slot, attempted)
        }
        false => (slot, attempted),
    }
}

/// Gives the slot a session. `Some`: it has none, and that is what is to be reported.
async fn open(
    target: &Target,
    slot: &mut Slot,
    assignment: &Assignment,
    conditions: &Conditions,
    stop: &CancellationToken,
) -> Option<Report> {
    // A timeout counts from the start of the text.
    let deadline = deadline(target, assignment);
    let report = tokio::select! {
        biased;
        // Nothing of the text was sent.
        () = stop.cancelled() => Report::NotStarted,
        opened = target.open_session(slot, assignment, conditions) => return match opened {
            Ok(()) => None,
            Err(OpenError::OwnLogin(failure)) => Some(report(Err(failure), None)),
            Err(_) => Some(Report::NotStarted),
        },
        error = passed(deadline) => Report::TimedOut(Arc::new(error)),
    };
    target.forget_lost_session(slot);
    Some(report)
}

/// Runs the text until it returns; `None`: it has not, but its backend is gone.
async fn watch(
    target: &Target,
    session: &Session,
    mut text: Pin<&mut impl Future<Output = Answered>>,
    limit: Option<(Instant, TaskError)>,
    stop: CancellationToken,
) -> (Option<Answered>, Option<Interruption>) {
    let interruption = tokio::select! {
        biased;
        answered = &mut text => return (Some(answered), None),
        () = stop.cancelled() => Interruption::Stop,
        error = passed(limit) => Interruption::Limit(error),
        () = target.admin.vanished(session) => return (None, None),
    };
    Box::pin(interrupt(target, session, text, interruption)).await
}

/// Stops the text; `None`: it has not returned, but its backend is gone.
async fn interrupt(
    target: &Target,
    session: &Session,
    mut text: Pin<&mut impl Future<Output = Answered>>,
    interruption: Interruption,
) -> (Option<Answered>, Option<Interruption>) {
    let interruption = match interruption {
        Interruption::Limit(mut error) => tokio::select! {
            biased;
            answered = &mut text => return (Some(answered), Some(Interruption::Limit(error))),
            blocked = target.admin.lock_wait(session) => {
                error.message.extend(blocked.map(|blocked| format!(", {blocked}")));
                Interruption::Limit(error)
            }
        },
        stop => stop,
    };
    tokio::select! {
        biased;
        answered = &mut text => (Some(answered), Some(interruption)),
        () = target.admin.interrupt(session, target.cancel_grace()) => (None, Some(interruption)),
    }
}

/// Cleans the session or ends it. What the server has answered stands: when nothing was left open,
/// all of it is committed, whatever becomes of the session then. Whatever it could not answer has
/// an end: its backend is gone.
async fn settle(
    target: &Target,
    slot: &mut Slot,
    answered: Option<Answered>,
    interrupted: bool,
    once: bool,
) -> Answered {
    let mut answered = answered.unwrap_or_else(|| {
        Answered::failed(Failure::Gone(error(
            "CONNECTION_LOST",
            "the backend is gone".into(),
        )))
    });
    let Some(mut live) = slot.live.take() else {
        return answered;
    };
    let is_ambiguous = matches!(&answered.result, Err(failure) if failure.is_ambiguous());
    let mut settled = false;
    if !is_ambiguous {
        if answered.result.is_ok() && live.has_open_transaction() {
            let message = "the text began a transaction and did not end it; it has \
                           been rolled back: end it with commit in the same text, or leave begin out";
            answered.result = Err(Failure::Reported(error(
                "TRANSACTION_LEFT_OPEN",
                message.into(),
            )));
        }
        settled = live.settle().await;
    }
    if settled && !interrupted {
        slot.live = Some(live);
        return answered;
    }
    let session = live.session.clone();
    drop(live);
    // Until its backend is gone it may hold locks, whatever it has answered; and one that says that
    // it ends may still be committing.
    let is_gone = match &answered.result {
        Err(Failure::Gone(_)) => true,
        Err(Failure::Ended(_)) => !once,
        _ => false,
    };
    if !settled && !is_gone {
        Box::pin(target.admin.end(&session)).await;
    }
    target.forget(session);
    answered
}

/// What an attempt comes to of which the target has not said how it ended, or that has met a
/// marker: for an EXACTLY_ONCE task nothing is reported before the target has said.
pub(crate) async fn resolve(
    target: &Target,
    assignment: &Assignment,
    attempted: Attempted,
) -> Attempted {
    if assignment.spec.options.delivery() != Delivery::ExactlyOnce {
        return attempted;
    }
    match target.admin.find_marker(task(assignment)).await {
        Found::Nothing => attempted,
        Found::Marker(marker) => Attempted {
            report: Report::Succeeded(Some(Arc::new(marker.result()))),
            marker: Some(marker),
            ..attempted
        },
        Found::Foreign => {
            let foreign = Report::Failed {
                error: Arc::new(markers::foreign().into_error()),
                transient: false,
            };
            Attempted {
                report: foreign,
                ..attempted
            }
        }
    }
}

/// A success that was faster than the interruption is a success; an error after one is its
/// consequence.
fn report(result: Result<TaskResult, Failure>, interruption: Option<Interruption>) -> Report {
    match (result, interruption) {
        (Ok(result), _) => Report::Succeeded(Some(Arc::new(result))),
        (Err(_), Some(Interruption::Stop)) => Report::Stopped,
        (Err(_), Some(Interruption::Limit(error))) => Report::TimedOut(Arc::new(error)),
        (Err(failure), None) => Report::Failed {
            transient: failure.is_transient(),
            error: Arc::new(failure.into_error()),
        },
    }
}

fn task(assignment: &Assignment) -> TaskId {
    TaskId {
        handle: assignment.handle,
        seq: assignment.first,
    }
}

/// When a text that starts now must end, and the error its attempt then ends with: by its timeout
/// or the deadline of its task, whatever comes first.
fn limit(target: &Target, assignment: &Assignment) -> Option<(Instant, TaskError)> {
    let by_timeout = match assignment.time_limit {
        Some(TimeLimit::Timeout(timeout)) => {
            let message = format!("the attempt ran longer than its timeout of {timeout:?}");
            Some((in_time(timeout), error("TIMEOUT", message)))
        }
        // It is the deadline of the assignment.
        Some(TimeLimit::Deadline(_)) | None => None,
    };
    let limits = by_timeout.into_iter().chain(deadline(target, assignment));
    limits.min_by_key(|(at, _)| *at)
}

/// When the deadline of the task passes, and the error its attempt then ends with.
fn deadline(target: &Target, assignment: &Assignment) -> Option<(Instant, TaskError)> {
    let message = "the task's deadline passed while it ran";
    let left = assignment.deadline?.since(target.clock.now());
    Some((in_time(left), error("DEADLINE", message.into())))
}

fn in_time(left: Duration) -> Instant {
    Instant::now() + left.min(MAX_LIMIT)
}

async fn passed(limit: Option<(Instant, TaskError)>) -> TaskError {
    match limit {
        None => future::pending().await,
        Some((at, error)) => {
            sleep_until(at).await;
            error
        }
    }
}
