//! Rows of `job`, `job_state`, `job_run` and `job_agent`: whole images.

use super::columns::{OrNull, columns};
use crate::core::{
    AgentImage, JobImage, JobNo, JobState, RunClaim, RunImage, RunKey, RunToken, Submit,
};
use crate::journal::{
    encoding::{Blobs, Stamp},
    rows::{job_steps::StepsText, settings},
};
use bytes::Bytes;
use sqlx::error::BoxDynError;
use std::collections::BTreeMap;
use uuid::Uuid;

/// What the insert does with a job that has a row.
pub(super) const ON_JOB_CONFLICT: &str = "
on conflict on constraint job_pkey do update
set version = excluded.version,
    settings = excluded.settings,
    steps = excluded.steps,
    bodies = excluded.bodies,
    params = excluded.params,
    changed_at = excluded.changed_at,
    changed_by = excluded.changed_by,
    deleted = excluded.deleted";

/// What it does with where a job stood.
pub(super) const ON_STATE_CONFLICT: &str = "
on conflict on constraint job_state_pkey do update
set next_due = excluded.next_due,
    last_due = excluded.last_due,
    periods_since = excluded.periods_since,
    time_zones = excluded.time_zones,
    last_unscheduled = excluded.last_unscheduled,
    last_token = excluded.last_token,
    failures = excluded.failures,
    paused = excluded.paused";

/// What it does with a due time that has a row.
pub(super) const ON_RUN_CONFLICT: &str = "
on conflict on constraint job_run_pkey do update
set last_due_at = excluded.last_due_at,
    due_count = excluded.due_count,
    cause = excluded.cause,
    closes_at = excluded.closes_at,
    catches_up = excluded.catches_up,
    state = excluded.state,
    reason = excluded.reason,
    detail = excluded.detail,
    by = excluded.by,
    attempt = excluded.attempt,
    handle = excluded.handle,
    started_at = excluded.started_at,
    ended_at = excluded.ended_at,
    next_attempt_at = excluded.next_attempt_at,
    failed = excluded.failed,
    cancelled = excluded.cancelled";

/// What it does with a claim that has a row.
pub(super) const ON_CLAIM_CONFLICT: &str = "
on conflict on constraint job_claim_pkey do update
set ended_at = excluded.ended_at,
    outcome = excluded.outcome,
    detail = excluded.detail,
    late_at = excluded.late_at,
    late_succeeded = excluded.late_succeeded,
    late_detail = excluded.late_detail";

/// What it does with the agent.
pub(super) const ON_AGENT_CONFLICT: &str = "
on conflict on constraint job_agent_pkey do update
set stopped = excluded.stopped,
    changed_at = excluded.changed_at,
    stopped_at = excluded.stopped_at,
    changed_by = excluded.changed_by,
    reason = excluded.reason";

columns! {
    /// Definitions.
    pub(super) struct Jobs of "job" {
        job_no: Vec<i64>,
        namespace: Blobs,
        name: Blobs,
        version: Vec<i64>,
        settings: Blobs,
        steps: Blobs,
        bodies: Blobs,
        params: Blobs,
        created_at: Vec<Stamp>,
        changed_at: Vec<Stamp>,
        changed_by: Blobs,
        deleted: Vec<bool>,
    }
}

columns! {
    /// Where jobs stand.
    pub(super) struct States of "job_state" {
        job_no: Vec<i64>,
        next_due: Vec<Option<Stamp>>,
        last_due: Vec<Option<Stamp>>,
        periods_since: Vec<Option<Stamp>>,
        time_zones: Blobs,
        last_unscheduled: Vec<Stamp>,
        last_token: Vec<i64>,
        failures: Vec<i32>,
        paused: Blobs,
    }
}

columns! {
    /// Due times.
    pub(super) struct Runs of "job_run" {
        job_no: Vec<i64>,
        due_at: Vec<Stamp>,
        last_due_at: Vec<Option<Stamp>>,
        due_count: Vec<i64>,
        cause: Vec<i16>,
        state: Vec<i16>,
        reason: Vec<Option<i16>>,
        detail: Blobs,
        by: Blobs,
        request_id: Vec<Option<Uuid>>,
        from_order: OrNull,
        closes_at: Vec<Option<Stamp>>,
        catches_up: Vec<bool>,
        attempt: Vec<i32>,
        handle: Vec<Option<Uuid>>,
        started_at: Vec<Option<Stamp>>,
        ended_at: Vec<Option<Stamp>>,
        next_attempt_at: Vec<Option<Stamp>>,
        failed: Vec<i64>,
        cancelled: Vec<i64>,
    }
}

columns! {
    /// Claims of runs.
    pub(super) struct Claims of "job_claim" {
        job_no: Vec<i64>,
        due_at: Vec<Stamp>,
        token: Vec<i64>,
        owner: Blobs,
        caller: Blobs,
        request_id: Vec<Option<Uuid>>,
        lease_ms: Vec<i64>,
        claimed_at: Vec<Stamp>,
        ended_at: Vec<Option<Stamp>>,
        outcome: Vec<Option<i16>>,
        detail: Blobs,
        late_at: Vec<Option<Stamp>>,
        late_succeeded: Vec<Option<bool>>,
        late_detail: Blobs,
    }
}

columns! {
    /// The agent.
    pub(super) struct Agents of "job_agent" {
        stopped: Vec<bool>,
        changed_at: Vec<Stamp>,
        stopped_at: Vec<Option<Stamp>>,
        changed_by: Blobs,
        reason: Blobs,
    }
}

impl Jobs {
    /// Adds a row for each image.
    pub(super) fn fill(&mut self, images: &BTreeMap<JobNo, JobImage>) -> Result<(), BoxDynError> {
        for (no, image) in images {
            self.job_no.push(no.0);
            self.namespace.row(text(&image.key.namespace.0));
            self.name.row(text(&image.key.name));
            self.version.push(image.version);
            let unknown = image.unknown.as_deref();
            let settings = settings::with_unknown(&*image.settings, unknown)?;
            self.settings.row(Some(settings.into()));
            let steps = serde_json::to_vec(&StepsText::of(&image.steps, &image.on_failure))?;
            self.steps.row(Some(steps.into()));
            let texts = |of: fn(&Submit) -> &[u8]| {
                let texts = [&image.steps, &image.on_failure].map(|tasks| of(tasks));
                Some(texts.concat().into())
            };
            self.bodies.row(texts(|tasks| &tasks.bodies.bytes));
            self.params.row(texts(|tasks| &tasks.params.bytes));
            self.created_at.push(Stamp(image.created_at));
            self.changed_at.push(Stamp(image.changed_at));
            self.changed_by.row(text(&image.changed_by));
            self.deleted.push(image.deleted);
        }
        Ok(())
    }
}

impl States {
    /// Adds a row for each image.
    pub(super) fn fill(&mut self, images: &BTreeMap<JobNo, JobState>) -> Result<(), BoxDynError> {
        for (no, state) in images {
            self.job_no.push(no.0);
            self.next_due.push(state.next_due.map(Stamp));
            self.last_due.push(state.last_due.map(Stamp));
            self.periods_since.push(state.periods_since.map(Stamp));
            self.time_zones.row(text(&state.time_zones));
            self.last_unscheduled.push(Stamp(state.last_unscheduled));
            self.last_token.push(state.last_token.0);
            self.failures
                .push(i32::try_from(state.failures).unwrap_or(i32::MAX));
            let paused = state.paused.as_ref().map(serde_json::to_vec).transpose()?;
            self.paused.row(paused.map(Into::into));
        }
        Ok(())
    }
}

impl Runs {
    /// Adds a row for each image.
    pub(super) fn fill(&mut self, images: &BTreeMap<RunKey, RunImage>) {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        for (key, run) in images {
            self.job_no.push(key.job.0);
            self.due_at.push(Stamp(key.due));
            self.last_due_at.push(run.last.map(Stamp));
            self.due_count.push(run.count);
            self.cause.push(run.cause as i16);
            self.state.push(run.state as i16);
            self.reason.push(run.reason.map(|reason| reason as i16));
            self.detail.row(some(&run.detail).map(Into::into));
            self.by.row(some(&run.by).map(Into::into));
            self.request_id.push(run.request);
            self.from_order.0.push(run.from_order.unwrap_or(-1));
            self.closes_at.push(run.closes.map(Stamp));
            self.catches_up.push(run.catches_up);
            self.attempt
                .push(i32::try_from(run.attempt).unwrap_or(i32::MAX));
            self.handle.push(run.handle.map(|handle| handle.uuid()));
            self.started_at.push(run.started_at.map(Stamp));
            self.ended_at.push(run.ended_at.map(Stamp));
            self.next_attempt_at.push(run.next_attempt_at.map(Stamp));
            self.failed.push(run.failed);
            self.cancelled.push(run.cancelled);
        }
    }
}

impl Claims {
    /// Adds a row for each image.
    pub(super) fn fill(&mut self, images: &BTreeMap<(RunKey, RunToken), RunClaim>) {
        for ((run, token), claim) in images {
            let (end, late) = (claim.end.as_ref(), claim.late.as_ref());
            self.job_no.push(run.job.0);
            self.due_at.push(Stamp(run.due));
            self.token.push(token.0);
            self.owner.row(text(&claim.owner));
            self.caller.row(text(&claim.caller));
            self.request_id.push(claim.request);
            self.lease_ms.push(claim.lease.as_millis() as i64);
            self.claimed_at.push(Stamp(claim.claimed_at));
            self.ended_at.push(end.map(|end| Stamp(end.at)));
            self.outcome.push(end.map(|end| end.outcome as i16));
            self.detail.row(end.and_then(|end| text(&end.detail)));
            self.late_at.push(late.map(|late| Stamp(late.at)));
            self.late_succeeded.push(late.map(|late| late.succeeded));
            self.late_detail
                .row(late.and_then(|late| text(&late.detail)));
        }
    }
}

impl Agents {
    /// Adds the row.
    pub(super) fn fill(&mut self, agent: &AgentImage) {
        self.stopped.push(agent.is_stopped);
        self.changed_at.push(Stamp(agent.changed_at));
        self.stopped_at.push(agent.stopped_at.map(Stamp));
        self.changed_by.row(text(&agent.changed_by));
        self.reason.row(text(&agent.reason));
    }
}

fn text(text: &str) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(text.as_bytes()))
}
