//! Recurring jobs: values only.

use super::{
    ids::{JobNo, Namespace},
    run_claim::RunToken,
    settings::Settings,
    time::Time,
};
use crate::core::{Submit, schedule::ScheduleText};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};

/// What a job is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobKey {
    /// Whose it is.
    pub namespace: Namespace,
    /// Unique there.
    pub name: Arc<str>,
}

/// What is said of a job besides its steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSettings {
    /// When it is due.
    pub schedule: ScheduleText,
    /// What becomes of a due time while an earlier run goes on.
    pub overlap: Overlap,
    /// What becomes of due times that nobody served.
    pub misfire: Misfire,
    /// Whether a failed run is repeated under its due time; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerun: Option<Rerun>,
    /// How long an attempt of a run may take; `None`: any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_runtime: Option<Duration>,
    /// Failed runs in a row behind which it is paused; `None`: it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_after_failures: Option<u32>,
    /// Those of the scheduler that a run opens.
    pub scheduler: Arc<Settings>,
    /// Outside programs do its runs. Its steps, if there are any, then ask a target whether the
    /// work of a run is done there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub claimed: bool,
}

/// What becomes of a due time while an earlier run of the job goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Overlap {
    /// There is no run.
    Skip,
    /// One run waits; further due times are skipped.
    QueueOne,
    /// A run for each due time waits.
    QueueAll,
    /// One run waits: that of the newest due time.
    KeepNewest,
    /// The earlier run is cancelled, and the new one begins when it has ended.
    CancelRunning,
    /// They run side by side.
    Allow,
}

/// What becomes of due times that nobody served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Misfire {
    /// They are missed.
    Skip,
    /// The newest one has a run, which stands for all.
    RunOnce,
    /// So many of the newest have a run each, one after the other.
    CatchUp(u32),
}

/// How a run that failed is repeated under its due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rerun {
    /// Only while its window is open.
    pub within_window: bool,
    /// Further attempts at most; `None`: any number.
    pub max: Option<u32>,
    /// Between the end of an attempt and the next one.
    pub delay: Duration,
}

/// A definition as the journal has it: always the whole image.
#[derive(Clone, Debug)]
pub struct JobImage {
    /// Its number.
    pub no: JobNo,
    /// What it is called.
    pub key: JobKey,
    /// Rises with each change: 1, 2, …
    pub version: i64,
    /// As last set.
    pub settings: Arc<JobSettings>,
    /// What a newer version has set besides, as JSON; the journal keeps it.
    pub unknown: Option<Arc<str>>,
    /// The tasks of a run.
    pub steps: Arc<Submit>,
    /// The tasks that follow a run that failed, was lost, missed or completed late.
    pub on_failure: Arc<Submit>,
    /// When it was created.
    pub created_at: Time,
    /// When it was created, changed or deleted last.
    pub changed_at: Time,
    /// Who did that: the caller of its runs.
    pub changed_by: Arc<str>,
    /// It is there no more.
    pub deleted: bool,
}

/// Where a job stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobState {
    /// The first due time whose fate is open; `None`: there is none to come.
    pub next_due: Option<Time>,
    /// The last due time of a schedule that has had its fate; `None`: none has.
    pub last_due: Option<Time>,
    /// Since when its rule has had such periods, or none; `None`: since it was created.
    pub periods_since: Option<Time>,
    /// The release of the time zone database it was computed with.
    pub time_zones: Arc<str>,
    /// The last run that no schedule names, or backfill: rises with each.
    pub last_unscheduled: Time,
    /// The token of the last claim of a run.
    pub last_token: RunToken,
    /// Failed runs in a row.
    pub failures: u32,
    /// It starts nothing.
    pub paused: Option<JobPause>,
}

/// A job is paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobPause {
    /// Since when.
    pub since: Time,
    /// Who paused it; empty: the service, after failures.
    pub by: Arc<str>,
    /// Why.
    pub reason: Arc<str>,
}

/// Whether the service fires jobs at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentImage {
    /// It fires nothing.
    pub is_stopped: bool,
    /// When it was started or stopped last.
    pub changed_at: Time,
    /// When it was stopped last.
    pub stopped_at: Option<Time>,
    /// Who started or stopped it last.
    pub changed_by: Arc<str>,
    /// Why.
    pub reason: Arc<str>,
}

/// What stopping the agent does to runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// They go on.
    Drain,
    /// They are cancelled.
    CancelRunning,
}

impl JobImage {
    /// Whether it is what somebody says of it.
    pub fn says(&self, settings: &JobSettings, steps: &Submit, on_failure: &Submit) -> bool {
        let same = |one: &Submit, other: &Submit| {
            one.runs == other.runs && one.bodies == other.bodies && one.params == other.params
        };
        *self.settings == *settings
            && same(&self.steps, steps)
            && same(&self.on_failure, on_failure)
    }
}
