//! Converts core types to API messages. Total: every value of the core has an API form.

mod attempt;
pub(super) mod explanation;
pub(super) mod forecast;
mod job;
mod options;
mod resource;
mod scheduler;
pub(crate) mod stream;
mod target_pause;
mod task;

pub(super) use attempt::attempts;
pub(super) use job::{
    agent, due_time, job, job_counts, planned_job, run, run_claim, run_claim_of_others,
};
pub(super) use resource::{Messages, claim, claims, holder, resource, stored_claim, waiting_tasks};
pub(super) use scheduler::{halt, scheduler, stored_scheduler};
pub(super) use target_pause::{paused_target, target_pause};
pub(super) use task::{event, task_view};

use crate::core::{TaskId, Time, Work};
use prost_types::Timestamp;
use rallypoint_client::api::{self, SlotKind, slot_kind};
use std::time::Duration;

/// The slots that work of a kind needs.
pub(crate) fn slot_kind(work: &Work) -> SlotKind {
    SlotKind {
        kind: Some(match work {
            Work::Noop => slot_kind::Kind::Noop(()),
            Work::Sql { target } => slot_kind::Kind::SqlTarget(target.to_string()),
        }),
    }
}

/// The name of a task.
pub(crate) fn task_id(task: TaskId) -> api::TaskId {
    api::TaskId {
        handle: task.handle.to_string(),
        seq: task.seq.0,
    }
}

/// Microseconds since 1970 as a proto timestamp.
pub(crate) fn timestamp(time: Time) -> Timestamp {
    let (seconds, micros) = (time.0.div_euclid(1_000_000), time.0.rem_euclid(1_000_000));
    Timestamp {
        seconds,
        nanos: micros as i32 * 1_000,
    }
}

/// A duration of the API, as long as it can be.
pub(crate) fn duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: duration.subsec_nanos() as i32,
    }
}
