//! A slot, and what runs on it.

use super::timestamp;
use crate::{api, core::Time, executor::ExecutionRow};

/// One row of the status.
pub fn execution(replica: &str, row: &ExecutionRow, now: Time) -> api::Execution {
    let idle = api::Execution {
        replica: replica.to_owned(),
        kind: row.work.to_string(),
        slot: row.slot as i32,
        backend_pid: row.backend_pid,
        ..Default::default()
    };
    let Some((assignment, started)) = &row.running else { return idle };
    api::Execution {
        handle: assignment.handle.to_string(),
        seq: assignment.first.0,
        order: assignment.order.map(|order| order.0),
        attempt: assignment.attempt.0,
        caller: assignment.caller.to_string(),
        started_at: Some(timestamp(*started)),
        elapsed_ms: now.since(*started).as_millis() as i64,
        ..idle
    }
}
