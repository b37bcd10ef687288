//! A job as a file describes it.

use super::{
    rules::{Misfire, Overlap, Rerun},
    schedule,
};
use crate::{
    cli::exec::Described,
    core::schedule::{Recurrence, Schedule},
};
use serde_json::{Value, json};
use std::time::Duration;

/// A job as a file describes it.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) name: String,
    /// The line on which it begins.
    pub(super) line: usize,
    pub(super) schedule: Schedule,
    /// The tasks of a run.
    pub(super) steps: Vec<Described>,
    /// The tasks that a failed, lost or missed run has follow.
    pub(super) on_failure: Vec<Described>,
    pub(super) overlap: Overlap,
    pub(super) misfire: Misfire,
    /// `None`: a run is not repeated.
    pub(super) rerun: Option<Rerun>,
    pub(super) max_runtime: Option<Duration>,
    /// Failed runs in a row behind which the job is paused; `None`: it goes on.
    pub(super) pause_after_failures: Option<u32>,
}

impl Job {
    /// What the file says of it, as JSON.
    pub(super) fn json(&self) -> Value {
        let orders: Vec<_> = self.steps.iter().map(|step| step.order).collect();
        json!({
            "job": self.name,
            "line": self.line,
            "time_zone": self.schedule.zone().name(),
            "dst_gap": schedule::name_of_gap(self.schedule.dst_gap()),
            "dst_fold": schedule::name_of_fold(self.schedule.dst_fold()),
            "delay_s": self.schedule.delay(&self.name).as_secs_f64(),
            "orders": orders,
            "on_failure": self.on_failure.len(),
            "overlap": self.overlap.name(),
            "misfire": self.misfire.json(),
            "rerun": self.rerun.map(Rerun::json),
            "max_runtime_s": self.max_runtime.map(|most| most.as_secs_f64()),
            "pause_after_failures": self.pause_after_failures,
        })
    }

    /// The job that it follows.
    pub(super) fn follows(&self) -> Option<&str> {
        match self.schedule.recurrence() {
            Recurrence::After(job) => Some(job),
            _ => None,
        }
    }
}
