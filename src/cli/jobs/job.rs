//! A job as a file describes it.

use super::{
    rules::{Misfire, Overlap, Rerun},
    schedule,
};
use crate::{
    cli::{exec::Described, time_text},
    core::schedule::{Recurrence, Schedule, ScheduleText},
    toml_file::Lines,
};
use rallypoint_client::api::{self, OnFailure};
use serde_json::{Value, json};
use std::time::Duration;

/// A job as a file describes it.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) name: String,
    /// The lines of it and of its keys.
    pub(super) lines: Lines,
    /// Those of its schedule, which begins with its rule.
    pub(super) schedule_lines: Lines,
    /// Its schedule as it is written.
    pub(super) text: ScheduleText,
    pub(super) schedule: Schedule,
    /// The tasks of a run; their lines are those of `steps_file`, if there is one.
    pub(super) steps: Vec<Described>,
    pub(super) steps_file: Option<StepsFile>,
    /// The tasks that a failed, lost or missed run has follow.
    pub(super) on_failure: Vec<Described>,
    /// Steps that run at a time; `None`: as many as there are slots.
    pub(super) max_parallelism: Option<u32>,
    /// What a failed step does to steps of later orders.
    pub(super) on_step_failure: OnFailure,
    pub(super) overlap: Overlap,
    pub(super) misfire: Misfire,
    /// Programs outside the service do its runs; with a target, on that one.
    pub(super) claimed: Option<String>,
    /// `None`: a run is not repeated.
    pub(super) rerun: Option<Rerun>,
    pub(super) max_runtime: Option<Duration>,
    /// Failed runs in a row behind which the job is paused; `None`: it goes on.
    pub(super) pause_after_failures: Option<u32>,
}

/// A file of SQL in which the steps of a job stand.
#[derive(Clone, Debug)]
pub(super) struct StepsFile {
    pub(super) name: String,
    /// The line of the file of jobs that names it.
    pub(super) line: usize,
}

impl Job {
    /// The line on which it begins.
    pub(super) fn line(&self) -> usize {
        self.lines.of("")
    }

    /// What the file says of it, as JSON.
    pub(super) fn json(&self) -> Value {
        let orders: Vec<_> = self.steps.iter().map(|step| step.order).collect();
        json!({
            "job": self.name,
            "line": self.line(),
            "time_zone": self.schedule.zone().name(),
            "dst_gap": schedule::name_of_gap(self.schedule.dst_gap()),
            "dst_fold": schedule::name_of_fold(self.schedule.dst_fold()),
            "delay_s": self.schedule.delay(&self.name).as_secs_f64(),
            "orders": orders,
            "on_failure": self.on_failure.len(),
            "overlap": self.overlap.name(),
            "misfire": self.misfire.json(),
            "rerun": self.rerun.map(Rerun::json),
            "claimed": self.claimed.is_some(),
            "max_runtime_s": self.max_runtime.map(|most| most.as_secs_f64()),
            "pause_after_failures": self.pause_after_failures,
        })
    }

    /// What the service is told of it.
    pub(super) fn settings(&self) -> api::JobSettings {
        let (misfire, catch_up_max) = match self.misfire {
            Misfire::Skip => (api::Misfire::Skip, 0),
            Misfire::RunOnce => (api::Misfire::RunOnce, 0),
            Misfire::CatchUp(most) => (api::Misfire::CatchUp, most as i32),
        };
        let overlap = format!("OVERLAP_{}", self.overlap.name());
        let overlap = api::Overlap::from_str_name(&overlap);
        api::JobSettings {
            schedule: Some(schedule::message(&self.text)),
            steps: tasks(&self.steps),
            scheduler: Some(api::SchedulerSettings {
                max_parallelism: self.max_parallelism.map(|most| most as i32),
                on_failure: self.on_step_failure.into(),
                ..api::SchedulerSettings::default()
            }),
            overlap: overlap.unwrap_or(api::Overlap::Unspecified).into(),
            misfire: misfire.into(),
            catch_up_max,
            rerun: self.rerun.map(|rerun| api::Rerun {
                within_window: rerun.within_window,
                max: rerun.max.unwrap_or(0) as i32,
                delay: Some(time_text::message(rerun.delay)),
            }),
            max_runtime: self.max_runtime.map(time_text::message),
            pause_after_failures: self.pause_after_failures.unwrap_or(0) as i32,
            claims: self.claimed.clone().map(|target| api::RunClaims { target }),
            on_failure: tasks(&self.on_failure),
        }
    }

    /// The job that it follows.
    pub(super) fn follows(&self) -> Option<&str> {
        match self.schedule.recurrence() {
            Recurrence::After(job) => Some(job),
            _ => None,
        }
    }
}

fn tasks(described: &[Described]) -> Vec<api::Task> {
    let tasks = described.iter().cloned();
    tasks.map(Described::into_task).collect()
}
