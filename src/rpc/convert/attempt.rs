//! The attempts of a task in API form, from what is recorded of each.

use super::{
    task::{self, Unfinished},
    timestamp,
};
use crate::{
    core::{
        AttemptEvent, AttemptRecord, Done, Outcome, Ran, TaskError, TaskState, Time,
        model::diagnostics::Diagnostics,
    },
    journal::StoredTask,
};
use rallypoint_client::api::{self, AttemptState};
use std::collections::BTreeMap;

/// The attempts with records, the last one and the running one, by number.
pub(crate) fn attempts(
    records: &[AttemptRecord],
    task: &StoredTask,
    unfinished: Unfinished,
) -> BTreeMap<i32, api::Attempt> {
    let mut attempts = BTreeMap::new();
    // That a task was retried is said of the task.
    let of_attempts = |one: &&AttemptRecord| !matches!(one.what, AttemptEvent::Retried { .. });
    for record in records.iter().filter(of_attempts) {
        add(numbered(&mut attempts, record.attempt.0), record);
    }
    match (&task.done, unfinished) {
        (Some((_, done)), _) if done.attempt.0 > 0 => {
            end(numbered(&mut attempts, done.attempt.0), done);
        }
        (None, Some((TaskState::Running { since }, attempt))) => {
            // What has ended since the core was asked has a record, which perhaps does not say when
            // it started.
            let running = numbered(&mut attempts, attempt.0);
            running.started_at.get_or_insert(timestamp(since));
        }
        _ => {}
    }
    attempts
}

fn numbered(attempts: &mut BTreeMap<i32, api::Attempt>, number: i32) -> &mut api::Attempt {
    attempts.entry(number).or_insert_with(|| api::Attempt {
        attempt: number,
        state: AttemptState::Running.into(),
        ..Default::default()
    })
}

fn add(attempt: &mut api::Attempt, record: &AttemptRecord) {
    let mut ended = |state: AttemptState, error: Option<&TaskError>, next_at: Option<Time>| {
        let known = ran(attempt, record.ran.as_ref());
        attempt.state = state.into();
        attempt.ended_at = Some(timestamp(record.at));
        attempt.error = error.map(|error| task::error(error, known));
        attempt.next_attempt_at = next_at.map(timestamp);
    };
    match &record.what {
        AttemptEvent::Start => attempt.started_at = Some(timestamp(record.at)),
        AttemptEvent::CancelRequested { .. } => attempt.cancel_requested = true,
        AttemptEvent::Retried { .. } => {}
        AttemptEvent::HandedBack => ended(AttemptState::HandedBack, None, None),
        AttemptEvent::Lost { next_at, error } => {
            ended(AttemptState::Lost, error.as_deref(), Some(*next_at));
        }
        AttemptEvent::Failed { next_at, error } => {
            let state = match error.code.as_str() {
                "TIMEOUT" | "DEADLINE" => AttemptState::TimedOut,
                _ => AttemptState::Failed,
            };
            ended(state, Some(error), Some(*next_at));
        }
    }
}

/// Notes where an attempt ran. Returns what else its target said.
fn ran(attempt: &mut api::Attempt, ran: Option<&Ran>) -> Diagnostics {
    let Some(ran) = ran else {
        return Diagnostics::default();
    };
    let mut known = task::diagnostics(&ran.diagnostics);
    attempt.started_at = Some(timestamp(ran.started));
    attempt.slot = ran.slot as i32;
    attempt.backend_pid = ran.backend_pid;
    attempt.replica = std::mem::take(&mut known.replica);
    attempt.notices = std::mem::take(&mut known.notices);
    known
}

/// The last attempt, which the outcome tells.
fn end(attempt: &mut api::Attempt, done: &Done) {
    let state = match done.outcome {
        Outcome::Succeeded => AttemptState::Succeeded,
        Outcome::Failed => AttemptState::Failed,
        Outcome::Cancelled => AttemptState::Cancelled,
        Outcome::TimedOut => AttemptState::TimedOut,
        Outcome::Exhausted => AttemptState::Lost,
    };
    // A task that ends while it waits for its next attempt leaves the last one as it was.
    if attempt.ended_at.is_some() && done.started.is_none() {
        return;
    }
    let known = task::diagnostics(&done.diagnostics);
    attempt.state = state.into();
    attempt.started_at = done.started.map(timestamp);
    attempt.ended_at = Some(timestamp(done.ended));
    attempt.slot = done.slot as i32;
    attempt.backend_pid = done.backend_pid;
    attempt.replica = known.replica.clone();
    attempt.notices = known.notices.clone();
    attempt.error = done.error.as_ref().map(|error| task::error(error, known));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Attempt, Handle, Seq, Spec, TaskOptions, Work};
    use std::sync::Arc;
    use uuid::Uuid;

    /// The core was asked first: what it said to run has been lost meanwhile, and waits again.
    #[test]
    fn what_has_ended_does_not_run_whatever_was_known_before() {
        let spec = Spec {
            work: Work::Noop,
            options: TaskOptions::default(),
            trace: None,
        };
        let task = StoredTask {
            seq: Seq(1),
            order: None,
            effective: None,
            spec: Arc::new(spec),
            submitted_at: Time(1),
            retry_of: None,
            retried_as: None,
            done: None,
            rows_omitted: false,
            body: None,
        };
        let lost = AttemptRecord {
            handle: Handle::from_uuid(Uuid::nil()),
            seq: Seq(1),
            attempt: Attempt(1),
            what: AttemptEvent::Lost {
                next_at: Time(9),
                error: None,
            },
            at: Time(5),
            ran: None,
        };
        let running = Some((TaskState::Running { since: Time(2) }, Attempt(1)));
        let listed = attempts(&[lost], &task, running);
        assert_eq!(listed[&1].state(), AttemptState::Lost);
        assert_eq!(listed[&1].started_at, Some(timestamp(Time(2))));
        assert_eq!(listed[&1].ended_at, Some(timestamp(Time(5))));
        let listed = attempts(&[], &task, running);
        assert_eq!(listed[&1].state(), AttemptState::Running);
    }
}
