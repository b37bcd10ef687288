//! Decodes rows of `job`, `job_state`, `job_run`, `job_claim` and `job_agent`.

use crate::core::{
    AgentImage, Handle, JobImage, JobKey, JobNo, JobState, LateReport, Namespace, RunCause,
    RunClaim, RunClaimEnd, RunClaimOutcome, RunImage, RunKey, RunReason, RunState, RunToken,
    Submit, Time,
};
use crate::journal::{
    JournalError,
    encoding::Stamp,
    rows::{from_row, job_steps::StepsText, settings},
};
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

/// The columns that say where a job stands, of a table called `s`.
macro_rules! job_state_columns {
    () => {
        "s.next_due, s.last_due, s.periods_since, s.time_zones, s.last_unscheduled, s.last_token,
        s.failures, s.paused"
    };
}
pub(crate) use job_state_columns;

/// The columns of a [`JobRow`], of tables called `j` and `s`.
macro_rules! job_columns {
    () => {
        concat!(
            "j.job_no, j.namespace, j.name, j.version, j.settings, j.steps, j.bodies, j.params,
            j.created_at, j.changed_at, j.changed_by, j.deleted, ",
            $crate::journal::rows::job::job_state_columns!()
        )
    };
}
pub(crate) use job_columns;

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
    pub deleted: bool,
    next_due: Option<Stamp>,
    last_due: Option<Stamp>,
    periods_since: Option<Stamp>,
    time_zones: Option<Vec<u8>>,
    last_unscheduled: Option<Stamp>,
    last_token: Option<i64>,
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
    last_due,
    periods_since,
    time_zones,
    last_unscheduled,
    last_token,
    failures,
    paused,
});

/// The columns of a [`RunRow`], of a table called `r`.
macro_rules! run_columns {
    () => {
        "r.job_no, r.due_at, r.last_due_at, r.due_count, r.cause, r.state, r.reason, r.detail, r.by,
        r.request_id, r.from_order, r.closes_at, r.catches_up, r.attempt, r.handle, r.started_at,
        r.ended_at, r.next_attempt_at, r.failed, r.cancelled"
    };
}
pub(crate) use run_columns;

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

/// The columns of a [`RunClaimRow`], of a table called `c`.
macro_rules! run_claim_columns {
    () => {
        "c.job_no, c.due_at, c.token, c.owner, c.caller, c.request_id, c.lease_ms, c.claimed_at,
        c.ended_at, c.outcome, c.detail, c.late_at, c.late_succeeded, c.late_detail"
    };
}
pub(crate) use run_claim_columns;

/// A claim of a run.
#[derive(Debug)]
pub(crate) struct RunClaimRow {
    job_no: i64,
    due_at: Stamp,
    token: i64,
    owner: Vec<u8>,
    caller: Vec<u8>,
    request_id: Option<Uuid>,
    lease_ms: i64,
    claimed_at: Stamp,
    ended_at: Option<Stamp>,
    outcome: Option<i16>,
    detail: Option<Vec<u8>>,
    late_at: Option<Stamp>,
    late_succeeded: Option<bool>,
    late_detail: Option<Vec<u8>>,
}

from_row!(RunClaimRow {
    job_no,
    due_at,
    token,
    owner,
    caller,
    request_id,
    lease_ms,
    claimed_at,
    ended_at,
    outcome,
    detail,
    late_at,
    late_succeeded,
    late_detail,
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
    pub(crate) fn job(mut self) -> Result<(JobImage, JobState), JournalError> {
        let (bodies, params) = (
            std::mem::take(&mut self.bodies),
            std::mem::take(&mut self.params),
        );
        let tasks = steps_text(&self.steps).and_then(|steps| steps.tasks(bodies, params));
        let tasks = tasks.map_err(|what| self.wrong(what))?;
        self.with(tasks)
    }

    /// The job without its tasks, which were not read.
    pub(crate) fn outline(self) -> Result<(JobImage, JobState), JournalError> {
        self.with([Submit::none(), Submit::none()])
    }

    /// What it is called, and whose it is.
    pub(crate) fn key(&self) -> JobKey {
        JobKey {
            namespace: Namespace(text(&self.namespace)),
            name: text(&self.name),
        }
    }

    /// What it is called.
    pub(crate) fn name(&self) -> String {
        text(&self.name).to_string()
    }

    fn wrong(&self, what: impl std::fmt::Display) -> JournalError {
        JournalError::corrupt(format!("job {}: {what}", text(&self.name)))
    }

    fn with(self, tasks: [Submit; 2]) -> Result<(JobImage, JobState), JournalError> {
        let settings = settings::known_and_unknown(&self.settings);
        let (settings, unknown) = settings.map_err(|error| self.wrong(error))?;
        let paused = self.paused.as_deref().map(serde_json::from_slice);
        let state = JobState {
            next_due: self.next_due.as_ref().map(|due| due.0),
            last_due: self.last_due.as_ref().map(|due| due.0),
            periods_since: self.periods_since.as_ref().map(|at| at.0),
            time_zones: self.time_zones.as_deref().map(text).unwrap_or_default(),
            last_unscheduled: self.last_unscheduled.as_ref().map_or(Time(0), |at| at.0),
            last_token: RunToken(self.last_token.unwrap_or(0)),
            failures: self.failures.unwrap_or(0).max(0) as u32,
            paused: paused.transpose().map_err(|error| self.wrong(error))?,
        };
        let [steps, on_failure] = tasks.map(Arc::new);
        let image = JobImage {
            no: JobNo(self.job_no),
            key: self.key(),
            version: self.version,
            settings: Arc::new(settings),
            unknown,
            steps,
            on_failure,
            created_at: self.created_at.0,
            changed_at: self.changed_at.0,
            changed_by: text(&self.changed_by),
            deleted: self.deleted,
        };
        Ok((image, state))
    }
}

impl RunRow {
    /// Its due time, or the first of its range.
    pub(crate) fn due(&self) -> Time {
        self.due_at.0
    }

    /// Its job.
    pub(crate) fn job(&self) -> JobNo {
        JobNo(self.job_no)
    }

    /// Whether the run may go on. All other states are those of a run that is over, also one that
    /// only a later version knows: so say the statements that read runs, and their index.
    pub(crate) fn may_go_on(&self) -> bool {
        self.state <= RunState::Retrying as i16
    }

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

impl RunClaimRow {
    /// The claim.
    pub(crate) fn claim(self) -> Result<RunClaim, JournalError> {
        let of = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(text).unwrap_or_default();
        let outcome = self.outcome.unwrap_or(RunClaimOutcome::Lost as i16);
        let outcome = RunClaimOutcome::from_number(outcome).ok_or_else(|| {
            JournalError::corrupt(format!("outcome {outcome} of claim {}", self.token))
        })?;
        let end = self.ended_at.map(|at| RunClaimEnd {
            at: at.0,
            outcome,
            detail: of(&self.detail),
        });
        let late = self.late_at.map(|at| LateReport {
            at: at.0,
            succeeded: self.late_succeeded.unwrap_or(false),
            detail: of(&self.late_detail),
        });
        Ok(RunClaim {
            run: RunKey {
                job: JobNo(self.job_no),
                due: self.due_at.0,
            },
            token: RunToken(self.token),
            owner: text(&self.owner),
            caller: text(&self.caller),
            request: self.request_id,
            lease: Duration::from_millis(self.lease_ms.max(0) as u64),
            claimed_at: self.claimed_at.0,
            end,
            late,
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

/// The tasks of a claimed job without their texts.
pub(crate) fn task_outlines(steps: &[u8]) -> Result<Submit, JournalError> {
    let steps = steps_text(steps).map_err(JournalError::corrupt)?;
    Ok(steps.outline())
}

fn steps_text(steps: &[u8]) -> Result<StepsText, String> {
    serde_json::from_slice(steps).map_err(|error| error.to_string())
}

fn text(bytes: &[u8]) -> Arc<str> {
    Arc::from(String::from_utf8_lossy(bytes))
}
