//! Translates what the executor reports about itself (slots and targets) into API messages for the
//! status service. Read-only: it takes snapshots and never waits.

use crate::{
    clock::Clock,
    core::{Time, Work},
    executor::{self, ExecutionRow, Executor},
    rpc::StatusSource,
};
use prost_types::Timestamp;
use rallypoint_client::api;
use std::sync::Arc;

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
        attempt: Arc::new(move |handle, seq| {
            let found = attempts.attempt(handle, seq);
            let attempt = found.map(|row| attempt(row, &of_attempts));
            Box::pin(async move { attempt })
        }),
    }
}

fn execution(row: ExecutionRow, now: Time, replica: &str) -> api::Execution {
    let idle = api::Execution {
        replica: replica.to_owned(),
        kind: row.work.to_string(),
        slot: row.slot as i32,
        backend_pid: row.backend_pid,
        ..api::Execution::default()
    };
    let Some((assignment, started)) = row.running else {
        return idle;
    };
    api::Execution {
        handle: assignment.handle.to_string(),
        seq: assignment.first.0,
        order: assignment.order.map(|order| order.0),
        attempt: assignment.attempt.0,
        caller: assignment.caller.to_string(),
        started_at: Some(timestamp(started)),
        elapsed_ms: now.since(started).as_millis() as i64,
        ..idle
    }
}

fn attempt(row: ExecutionRow, replica: &str) -> api::RunningAttempt {
    api::RunningAttempt {
        started_at: row.running.map(|(_, started)| timestamp(started)),
        replica: replica.to_owned(),
        slot: row.slot as i32,
        backend_pid: row.backend_pid,
        ..Default::default()
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
            .map_or_else(String::new, |outage| outage.why),
        sessions: rows
            .iter()
            .filter(|row| row.work == kind && row.backend_pid != 0)
            .count() as i32,
    }
}

fn timestamp(time: Time) -> Timestamp {
    Timestamp {
        seconds: time.0.div_euclid(1_000_000),
        nanos: (time.0.rem_euclid(1_000_000) * 1_000) as i32,
    }
}
