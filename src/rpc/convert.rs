//! Core types → proto. Total: everything the core can say has its place in the API.

mod options;
mod scheduler;
pub(crate) mod stream;
mod task;

pub(super) use scheduler::{halt, scheduler, settled};
pub(super) use task::{event, state, task_view};

use crate::core::Time;
use prost_types::Timestamp;

/// A time of the core.
pub(super) fn timestamp(time: Time) -> Timestamp {
    let (seconds, micros) = (time.0.div_euclid(1_000_000), time.0.rem_euclid(1_000_000));
    Timestamp {
        seconds,
        nanos: micros as i32 * 1_000,
    }
}
