//! Translates what the executor reports about itself (slots, targets, attempts) into API messages
//! for the status service and the explanation of tasks. Read-only.

use crate::{
    clock::Clock,
    core::{Time, Work},
    executor::{
        self, AttemptStatus, BlockingSession, ExecutionRow, Executor, SessionWait, WaitedLock,
    },
    rpc::{StatusSource, duration, slot_kind, task_id, timestamp},
};
use rallypoint_client::api::{self, peer::ExplainAttemptResponse};
use std::{sync::Arc, time::Duration};

/// The source that reads `executor`, whose replica is called `replica`.
pub(super) fn new(executor: &Executor, clock: Clock, replica: Arc<str>) -> StatusSource {
    let (rows, targets, attempts) = (executor.clone(), executor.clone(), executor.clone());
    let (of_targets, of_attempts) = (replica.clone(), replica.clone());
    StatusSource {
        executions: Arc::new(move || {
            let now = clock.now();
            rows.executions()
                .into_iter()
                .map(|row| execution(row, now, &replica))
                .collect()
        }),
        targets: Arc::new(move || {
            let sessions = targets.executions();
            targets
                .targets()
                .into_iter()
                .map(|target| status(target, &sessions, &of_targets))
                .collect()
        }),
        attempt: Arc::new(move |task, number| {
            let (executor, replica) = (attempts.clone(), of_attempts.clone());
            Box::pin(async move {
                let found = executor.attempt(task, number).await;
                found.map_or_else(Default::default, |found| attempt(found, &replica))
            })
        }),
    }
}

fn execution(row: ExecutionRow, now: Time, replica: &str) -> api::Execution {
    let idle = api::Execution {
        replica: replica.to_owned(),
        kind: Some(slot_kind(&row.work)),
        slot: row.slot as i32,
        backend_pid: row.backend_pid,
        state: api::ExecutionState::Idle.into(),
        ..api::Execution::default()
    };
    let Some((assignment, started)) = row.running else {
        return idle;
    };
    api::Execution {
        handle: assignment.handle.to_string(),
        seq: assignment.first.0,
        effective_order: assignment.order.map(|order| order.0),
        attempt: assignment.attempt.0,
        caller: assignment.caller.to_string(),
        started_at: Some(timestamp(started)),
        elapsed: Some(duration(now.since(started))),
        namespace: assignment.namespace.0.to_string(),
        state: match row.backend_pid {
            0 => api::ExecutionState::Connecting.into(),
            _ => api::ExecutionState::Running.into(),
        },
        ..idle
    }
}

fn attempt(found: AttemptStatus, replica: &str) -> ExplainAttemptResponse {
    let AttemptStatus { row, wait } = found;
    let (wait, wait_unknown) = match wait {
        None => (None, String::new()),
        Some(Ok(wait)) => (Some(wait), String::new()),
        Some(Err(why)) => (None, why),
    };
    let blocked_by = wait.iter().flat_map(|wait| &wait.blocked_by);
    ExplainAttemptResponse {
        blocked_by: blocked_by.map(blocking).collect(),
        attempt: Some(api::RunningAttempt {
            started_at: row.running.map(|(_, started)| timestamp(started)),
            replica: replica.to_owned(),
            slot: row.slot as i32,
            backend_pid: row.backend_pid,
            wait: wait.map(waits),
            wait_unknown,
            ..Default::default()
        }),
    }
}

fn waits(wait: SessionWait) -> api::SessionWait {
    let waited = |lock: WaitedLock| (lock.kind, lock.mode, lock.relation.unwrap_or_default());
    let (lock_type, lock_mode, lock_relation) = wait.lock.map(waited).unwrap_or_default();
    api::SessionWait {
        state: wait.state,
        wait_event_type: wait.wait_event_type,
        wait_event: wait.wait_event,
        lock_type,
        lock_mode,
        lock_relation,
    }
}

fn blocking(session: &BlockingSession) -> api::blocker::Session {
    let age = |us: i64| duration(Duration::from_micros(us.max(0) as u64));
    api::blocker::Session {
        backend_pid: session.pid,
        depth: session.depth as i32,
        user: session.user.clone(),
        application: session.application.clone(),
        backend_type: session.backend_type.clone(),
        state: session.state.clone().unwrap_or_default(),
        wait_event_type: session.wait_event_type.clone(),
        wait_event: session.wait_event.clone(),
        transaction_age: session.transaction_us.map(age),
        task: session.task.map(task_id),
    }
}

fn status(
    target: executor::TargetStatus,
    rows: &[ExecutionRow],
    replica: &str,
) -> api::TargetStatus {
    let kind = Work::Sql {
        target: target.name.clone(),
    };
    api::TargetStatus {
        replica: replica.to_owned(),
        name: target.name.to_string(),
        available: target.unavailable.is_none(),
        unavailable_since: target
            .unavailable
            .as_ref()
            .map(|outage| timestamp(outage.since)),
        error: target
            .unavailable
            .map(|outage| outage.why)
            .or(target.refused)
            .unwrap_or_default(),
        sessions: rows
            .iter()
            .filter(|row| row.work == kind && row.backend_pid != 0)
            .count() as i32,
    }
}
