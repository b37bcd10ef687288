//! Decodes rows of `job`, `job_state`, `job_run` and `job_agent`; steps as JSON beside their texts.

use crate::core::{
    AgentImage, Handle, JobImage, JobKey, JobNo, JobState, Namespace, Packed, Run, RunCause,
    RunImage, RunKey, RunReason, RunState, Spec, Submit, Time,
};
use crate::journal::{JournalError, encoding::Stamp, rows::from_row};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use uuid::Uuid;

/// The tasks of a job without their texts.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StepsText {
    runs: Vec<RunText>,
    /// Where each text ends.
    body_ends: Vec<u32>,
    /// Where the parameters of each one end; empty: none has any.
    param_ends: Vec<u32>,
}

/// Consecutive tasks that are alike.
#[derive(Debug, Serialize, Deserialize)]
struct RunText {
    count: u32,
    order: Option<crate::core::Order>,
    spec: Arc<Spec>,
}

impl StepsText {
    pub(crate) fn of(steps: &Submit) -> Self {
        let run = |run: &Run| RunText {
            count: run.count,
            order: run.order,
            spec: run.spec.clone(),
        };
        StepsText {
            runs: steps.runs.iter().map(run).collect(),
            body_ends: steps.bodies.ends.clone(),
            param_ends: steps.params.ends.clone(),
        }
    }

    /// The tasks, or what is wrong with them.
    fn steps(self, bodies: Vec<u8>, params: Vec<u8>) -> Result<Submit, String> {
        let fits = |ends: &[u32], bytes: &[u8]| {
            ends.is_sorted() && ends.last().copied().unwrap_or(0) as usize == bytes.len()
        };
        let tasks: usize = self.runs.iter().map(|run| run.count as usize).sum();
        let is_whole = fits(&self.body_ends, &bodies)
            && fits(&self.param_ends, &params)
            && self.body_ends.len() == tasks;
        if !is_whole {
            return Err("the ends of its texts do not fit".to_owned());
        }
        let run = |run: RunText| Run {
            count: run.count,
            order: run.order,
            spec: run.spec,
        };
        let packed = |bytes: Vec<u8>, ends| Packed {
            bytes: bytes.into(),
            ends,
        };
        Ok(Submit {
            request: None,
            runs: self.runs.into_iter().map(run).collect(),
            bodies: packed(bodies, self.body_ends),
            params: packed(params, self.param_ends),
            retries: None,
        })
    }
}

/// A job, and where it stands.
#[derive(Debug)]
pub(crate) struct JobRow {
    pub job_no: i64,
    namespace: Vec<u8>,
    name: Vec<u8>,
    version: i64,
    settings: Vec<u8>,
    steps: Vec<u8>,
    bodies: Vec<u8>,
    params: Vec<u8>,
    created_at: Stamp,
    changed_at: Stamp,
    changed_by: Vec<u8>,
    deleted: bool,
    next_due: Option<Stamp>,
    time_zones: Option<Vec<u8>>,
    last_unscheduled: Option<Stamp>,
    failures: Option<i32>,
    paused: Option<Vec<u8>>,
}

from_row!(JobRow {
    job_no,
    namespace,
    name,
    version,
    settings,
    steps,
    bodies,
    params,
    created_at,
    changed_at,
    changed_by,
    deleted,
    next_due,
    time_zones,
    last_unscheduled,
    failures,
    paused,
});

/// A due time.
#[derive(Debug)]
pub(crate) struct RunRow {
    job_no: i64,
    due_at: Stamp,
    last_due_at: Option<Stamp>,
    due_count: i64,
    cause: i16,
    state: i16,
    reason: Option<i16>,
    detail: Option<Vec<u8>>,
    by: Option<Vec<u8>>,
    request_id: Option<Uuid>,
    from_order: Option<i64>,
    closes_at: Option<Stamp>,
    catches_up: bool,
    attempt: i32,
    handle: Option<Uuid>,
    started_at: Option<Stamp>,
    ended_at: Option<Stamp>,
    next_attempt_at: Option<Stamp>,
    failed: i64,
    cancelled: i64,
}

from_row!(RunRow {
    job_no,
    due_at,
    last_due_at,
    due_count,
    cause,
    state,
    reason,
    detail,
    by,
    request_id,
    from_order,
    closes_at,
    catches_up,
    attempt,
    handle,
    started_at,
    ended_at,
    next_attempt_at,
    failed,
    cancelled,
});

/// The agent.
#[derive(Debug)]
pub(crate) struct AgentRow {
    stopped: bool,
    changed_at: Stamp,
    stopped_at: Option<Stamp>,
    changed_by: Vec<u8>,
    reason: Vec<u8>,
}

from_row!(AgentRow {
    stopped,
    changed_at,
    stopped_at,
    changed_by,
    reason
});

impl JobRow {
    /// The job.
    pub(crate) fn job(self) -> Result<(JobImage, JobState), JournalError> {
        let name = text(&self.name);
        let wrong = |what: String| JournalError::corrupt(format!("job {name}: {what}"));
        let settings = serde_json::from_slice(&self.settings);
        let steps: Result<StepsText, _> = serde_json::from_slice(&self.steps);
        let steps = steps.map_err(|error| wrong(error.to_string()))?;
        let paused = self.paused.as_deref().map(serde_json::from_slice);
        let state = JobState {
            next_due: self.next_due.map(|due| due.0),
            time_zones: self.time_zones.as_deref().map(text).unwrap_or_default(),
            last_unscheduled: self.last_unscheduled.map_or(Time(0), |at| at.0),
            failures: self.failures.unwrap_or(0).max(0) as u32,
            paused: paused
                .transpose()
                .map_err(|error| wrong(error.to_string()))?,
        };
        let image = JobImage {
            no: JobNo(self.job_no),
            key: JobKey {
                namespace: Namespace(text(&self.namespace)),
                name: name.clone(),
            },
            version: self.version,
            settings: Arc::new(settings.map_err(|error| wrong(error.to_string()))?),
            steps: Arc::new(steps.steps(self.bodies, self.params).map_err(wrong)?),
            created_at: self.created_at.0,
            changed_at: self.changed_at.0,
            changed_by: text(&self.changed_by),
            deleted: self.deleted,
        };
        Ok((image, state))
    }
}

impl RunRow {
    /// The run.
    pub(crate) fn run(self) -> Result<RunImage, JournalError> {
        let of = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(text).unwrap_or_default();
        let unknown = |what: &str, number: i16| {
            JournalError::corrupt(format!("{what} {number} of a run of job {}", self.job_no))
        };
        let reason = self
            .reason
            .map(|number| RunReason::from_number(number).ok_or_else(|| unknown("reason", number)));
        Ok(RunImage {
            key: RunKey {
                job: JobNo(self.job_no),
                due: self.due_at.0,
            },
            last: self.last_due_at.map(|at| at.0),
            count: self.due_count,
            cause: RunCause::from_number(self.cause).ok_or_else(|| unknown("cause", self.cause))?,
            state: RunState::from_number(self.state).ok_or_else(|| unknown("state", self.state))?,
            reason: reason.transpose()?,
            detail: of(&self.detail),
            by: of(&self.by),
            request: self.request_id,
            from_order: self.from_order,
            closes: self.closes_at.map(|at| at.0),
            catches_up: self.catches_up,
            attempt: self.attempt.max(0) as u32,
            handle: self.handle.map(Handle::from_uuid),
            started_at: self.started_at.map(|at| at.0),
            ended_at: self.ended_at.map(|at| at.0),
            next_attempt_at: self.next_attempt_at.map(|at| at.0),
            failed: self.failed,
            cancelled: self.cancelled,
        })
    }
}

impl AgentRow {
    /// The agent.
    pub(crate) fn agent(&self) -> AgentImage {
        AgentImage {
            is_stopped: self.stopped,
            changed_at: self.changed_at.0,
            stopped_at: self.stopped_at.map(|at| at.0),
            changed_by: text(&self.changed_by),
            reason: text(&self.reason),
        }
    }
}

fn text(bytes: &[u8]) -> Arc<str> {
    Arc::from(String::from_utf8_lossy(bytes))
}
