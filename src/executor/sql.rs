//! SQL tasks: targets, their sessions, and one attempt from its statement to its report.
//!
//! Nothing here knows who owns the shard, and nothing here decides what follows from a report.

pub(crate) mod answer;
pub(crate) mod attempt;
pub(crate) mod backend_control;
mod control_logins;
pub(crate) mod error;
pub(crate) mod extended_query;
pub(crate) mod markers;
pub(crate) mod marking;
pub(crate) mod notices;
pub(crate) mod preparation;
pub(crate) mod register;
pub(crate) mod rows;
pub(crate) mod session_end;
mod session_waits;
pub(crate) mod statement;
pub(crate) mod stops;
pub(crate) mod target;
pub(crate) mod target_session;
pub(crate) mod target_settings;
pub(crate) mod target_slots;

use crate::backoff::Backoff;
use std::time::Duration;

/// Wait before a target that could not be reached is tried again.
const RECONNECT_BACKOFF: Backoff =
    Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
