//! One attempt on a SQL slot: session, text, watchdog, cleaning, report.
//!
//! Invariant: it reports only when the text has returned or its backend is known to be gone, and
//! what has returned is cleaned before that is reported: whoever hears of it finds no lock of it.
//! `statement_timeout` is not enough, because a text can trap it. After an interruption the session
//! is never used again, since a cancel may still be under way.

use super::{
    answer::Answered,
    error::{Failure, error},
    register::Session,
    statement::Conditions,
    target::Target,
    target_session::OpenError,
    target_slots::Slot,
};
use crate::{
    core::{Assignment, Report, TaskError, TaskResult, TimeLimit, model::diagnostics::Diagnostics},
    executor_protocol::Body,
};
use std::{future, sync::Arc, time::Duration};
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
}

impl Attempted {
    /// No session has run it.
    pub(crate) fn without_session(report: Report) -> Self {
        Attempted {
            report,
            backend_pid: 0,
            said: Diagnostics::default(),
        }
    }
}

/// Runs an assignment.
pub(crate) async fn run(
    target: Arc<Target>,
    mut slot: Slot,
    assignment: Assignment,
    body: Body,
    stop: CancellationToken,
) -> (Slot, Attempted) {
    let conditions = match target.conditions(&assignment) {
        Ok(conditions) => conditions,
        Err(refused) => {
            return (slot, Attempted::without_session(report(Err(refused), None)));
        }
    };
    if let Some(report) = open(&target, &mut slot, &assignment, &conditions, &stop).await {
        return (slot, Attempted::without_session(report));
    }
    let Some(live) = slot.live.as_mut() else {
        return (slot, Attempted::without_session(Report::NotStarted));
    };
    let session = live.session.clone();
    let (answered, interruption) = {
        let text = live.run(&body, &conditions);
        let limit = limit(&target, &assignment);
        watch(&target, &session, text, limit, stop).await
    };
    let (report, said) = settle(&target, &mut slot, answered, interruption).await;
    let backend_pid = session.pid;
    let attempted = Attempted {
        report,
        backend_pid,
        said,
    };
    (slot, attempted)
}

/// Gives the slot a session. `Some`: it has none, and that is what is to be reported.
async fn open(
    target: &Target,
    slot: &mut Slot,
    assignment: &Assignment,
    conditions: &Conditions,
    stop: &CancellationToken,
) -> Option<Report> {
    let deadline = limit(target, assignment).filter(|_| {
        // A timeout counts from the start of the text.
        matches!(assignment.time_limit, Some(TimeLimit::Deadline(_)))
    });
    tokio::select! {
        biased;
        () = stop.cancelled() => Some(Report::Stopped),
        opened = target.open_session(slot, assignment, conditions) => match opened {
            Ok(()) => None,
            Err(OpenError::OwnLogin(failure)) => Some(report(Err(failure), None)),
            Err(_) => Some(Report::NotStarted),
        },
        error = passed(deadline) => Some(Report::TimedOut(Arc::new(error))),
    }
}

/// Runs the text until it returns; `None`: it has not, but its backend is gone.
async fn watch(
    target: &Target,
    session: &Session,
    text: impl Future<Output = Answered>,
    limit: Option<(Instant, TaskError)>,
    stop: CancellationToken,
) -> (Option<Answered>, Option<Interruption>) {
    tokio::pin!(text);
    let interruption = tokio::select! {
        biased;
        answered = &mut text => return (Some(answered), None),
        () = stop.cancelled() => Interruption::Stop,
        error = passed(limit) => Interruption::Limit(error),
        () = target.admin.vanished(session) => return (None, None),
    };
    tokio::select! {
        biased;
        answered = &mut text => (Some(answered), Some(interruption)),
        () = target.admin.interrupt(session, target.cancel_grace()) => (None, Some(interruption)),
    }
}

/// Cleans the session or ends it, and decides what to report. What the server has answered stands:
/// when nothing was left open, all of it is committed, whatever becomes of the session then.
async fn settle(
    target: &Target,
    slot: &mut Slot,
    answered: Option<Answered>,
    interruption: Option<Interruption>,
) -> (Report, Diagnostics) {
    let Some(mut live) = slot.live.take() else {
        return (Report::NotStarted, Diagnostics::default());
    };
    let Answered { mut result, said } = answered.unwrap_or_else(|| Answered {
        result: Err(Failure::Gone(error(
            "CONNECTION_LOST",
            "the backend is gone".into(),
        ))),
        said: Diagnostics::default(),
    });
    let mut settled = false;
    if matches!(
        result,
        Ok(_) | Err(Failure::Reported(_) | Failure::Refused(_))
    ) {
        if result.is_ok() && live.has_open_transaction() {
            let message =
                "the text began a transaction and did not end it; it has been rolled back";
            result = Err(Failure::Reported(error(
                "TRANSACTION_LEFT_OPEN",
                message.into(),
            )));
        }
        settled = live.settle().await;
    }
    if settled && interruption.is_none() {
        slot.live = Some(live);
    } else {
        let session = live.session.clone();
        drop(live);
        // Until its backend is gone it may hold locks, whatever it has answered.
        let is_gone = matches!(result, Err(Failure::Gone(_) | Failure::Ended(_)));
        if !settled && !is_gone {
            target.admin.end(&session).await;
        }
        target.forget(session);
    }
    (report(result, interruption), said)
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

/// When the attempt must end, and the error it then ends with.
fn limit(target: &Target, assignment: &Assignment) -> Option<(Instant, TaskError)> {
    let (left, code, message) = match assignment.time_limit? {
        TimeLimit::Timeout(timeout) => (
            timeout,
            "TIMEOUT",
            format!("the attempt ran longer than its timeout of {timeout:?}"),
        ),
        TimeLimit::Deadline(at) => (
            at.since(target.clock.now()),
            "DEADLINE",
            "the task's deadline passed while it ran".into(),
        ),
    };
    Some((Instant::now() + left.min(MAX_LIMIT), error(code, message)))
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
