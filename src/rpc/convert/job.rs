//! Jobs, their runs and the agent in API form.

use super::{duration, options, task, timestamp};
use crate::core::{
    AgentImage, JobCounts, JobImage, JobSettings, JobState, Misfire, NewJob, Overlap, Rerun,
    RunClaim, RunImage, Submit, Time, Work,
    schedule::{DstFold, DstGap, DueTime, Period, RuleText, ScheduleText},
};
use rallypoint_client::api::{self, schedule::Rule};

/// A job, with its steps or without.
pub(crate) fn job(image: &JobImage, state: &JobState, with_steps: bool) -> api::Job {
    let paused = state.paused.as_ref();
    let tasks = [&image.steps, &image.on_failure].map(|tasks| &**tasks);
    api::Job {
        name: image.key.name.to_string(),
        settings: Some(settings(&image.settings, tasks, with_steps)),
        etag: image.version.to_string(),
        created_at: Some(timestamp(image.created_at)),
        changed_at: Some(timestamp(image.changed_at)),
        changed_by: image.changed_by.to_string(),
        next_due: state.next_due.map(timestamp),
        time_zones: state.time_zones.to_string(),
        failures: i32::try_from(state.failures).unwrap_or(i32::MAX),
        paused: paused.map(|pause| api::JobPause {
            since: Some(timestamp(pause.since)),
            by: pause.by.to_string(),
            reason: pause.reason.to_string(),
        }),
    }
}

/// A job that is not defined.
pub(crate) fn planned_job(name: &str, job: &NewJob) -> api::Job {
    api::Job {
        name: name.to_owned(),
        settings: Some(settings(&job.settings, [&job.steps, &job.on_failure], true)),
        ..api::Job::default()
    }
}

/// `tasks`: those of a run, and those that follow a failure.
fn settings(settings: &JobSettings, tasks: [&Submit; 2], with_tasks: bool) -> api::JobSettings {
    let [steps, on_failure] = tasks;
    let listed = |tasks: &Submit, is_listed: bool| match is_listed {
        true => task::steps(tasks),
        false => Vec::new(),
    };
    let (misfire, catch_up_max) = match settings.misfire {
        Misfire::Skip => (api::Misfire::Skip, 0),
        Misfire::RunOnce => (api::Misfire::RunOnce, 0),
        Misfire::CatchUp(most) => (api::Misfire::CatchUp, most as i32),
    };
    api::JobSettings {
        schedule: Some(schedule(&settings.schedule)),
        steps: listed(steps, with_tasks && !settings.claimed),
        on_failure: listed(on_failure, with_tasks),
        claims: settings.claimed.then(|| claims(steps)),
        scheduler: Some(options::settings(&settings.scheduler)),
        overlap: match settings.overlap {
            Overlap::Skip => api::Overlap::Skip,
            Overlap::QueueOne => api::Overlap::QueueOne,
            Overlap::QueueAll => api::Overlap::QueueAll,
            Overlap::KeepNewest => api::Overlap::KeepNewest,
            Overlap::CancelRunning => api::Overlap::CancelRunning,
            Overlap::Allow => api::Overlap::Allow,
        }
        .into(),
        misfire: misfire.into(),
        catch_up_max,
        rerun: settings.rerun.map(rerun),
        max_runtime: settings.max_runtime.map(duration),
        pause_after_failures: settings.pause_after_failures.unwrap_or(0) as i32,
    }
}

/// The steps of a claimed job ask the target.
fn claims(steps: &Submit) -> api::RunClaims {
    let target = steps.runs.first().map(|run| match &run.spec.work {
        Work::Sql { target } => target.to_string(),
        Work::Noop => String::new(),
    });
    api::RunClaims {
        target: target.unwrap_or_default(),
    }
}

/// A claim of a run, for its owner.
pub(crate) fn run_claim(claim: &RunClaim) -> api::RunClaim {
    let (end, late) = (claim.end.as_ref(), claim.late.as_ref());
    api::RunClaim {
        token: claim.token.0,
        owner: claim.owner.to_string(),
        caller: claim.caller.to_string(),
        claimed_at: Some(timestamp(claim.claimed_at)),
        lease: Some(duration(claim.lease)),
        end: end.map_or(0, |end| i32::from(end.outcome as i16)),
        ended_at: end.map(|end| timestamp(end.at)),
        detail: end.map(|end| end.detail.to_string()).unwrap_or_default(),
        late_at: late.map(|late| timestamp(late.at)),
        late_succeeded: late.is_some_and(|late| late.succeeded),
        late_detail: late.map(|late| late.detail.to_string()).unwrap_or_default(),
    }
}

/// A claim of a run, for others: without its token while it is open.
pub(crate) fn run_claim_of_others(claim: &RunClaim) -> api::RunClaim {
    let token = claim.end.as_ref().map_or(0, |_| claim.token.0);
    api::RunClaim {
        token,
        ..run_claim(claim)
    }
}

fn rerun(rerun: Rerun) -> api::Rerun {
    api::Rerun {
        within_window: rerun.within_window,
        max: rerun.max.unwrap_or(0) as i32,
        delay: Some(duration(rerun.delay)),
    }
}

fn schedule(text: &ScheduleText) -> api::Schedule {
    let rule = match &text.rule {
        RuleText::Cron(text) => Rule::Cron(text.clone()),
        RuleText::Interval { every, phase } => Rule::Interval(api::Interval {
            every: Some(duration(*every)),
            phase: Some(duration(*phase)),
        }),
        RuleText::OncePer {
            period,
            after,
            before,
        } => Rule::OncePer(api::OncePer {
            period: match period {
                Period::Day => api::Period::Day,
                Period::Week => api::Period::Week,
                Period::Month => api::Period::Month,
            }
            .into(),
            after: after.clone(),
            before: before.clone(),
        }),
        RuleText::After(job) => Rule::After(job.clone()),
    };
    api::Schedule {
        rule: Some(rule),
        time_zone: text.time_zone.clone(),
        dst_gap: match text.dst_gap {
            None => api::DstGap::Unspecified,
            Some(DstGap::NextValid) => api::DstGap::NextValid,
            Some(DstGap::Skip) => api::DstGap::Skip,
        }
        .into(),
        dst_fold: match text.dst_fold {
            None => api::DstFold::Unspecified,
            Some(DstFold::First) => api::DstFold::First,
            Some(DstFold::Second) => api::DstFold::Second,
            Some(DstFold::Both) => api::DstFold::Both,
        }
        .into(),
        jitter: (!text.jitter.is_zero()).then(|| duration(text.jitter)),
        start: text.start.clone(),
        end: text.end.clone(),
        exclude: text.exclude.clone(),
    }
}

/// A run of the job of this name.
pub(crate) fn run(job: &str, run: &RunImage) -> api::JobRun {
    api::JobRun {
        job: job.to_owned(),
        due: Some(timestamp(run.key.due)),
        last_due: run.last.map(timestamp),
        count: run.count,
        cause: i32::from(run.cause as i16),
        state: i32::from(run.state as i16),
        reason: run.reason.map_or(0, |reason| i32::from(reason as i16)),
        detail: run.detail.to_string(),
        by: run.by.to_string(),
        attempt: i32::try_from(run.attempt).unwrap_or(i32::MAX),
        handle: run
            .handle
            .map(|handle| handle.to_string())
            .unwrap_or_default(),
        started_at: run.started_at.map(timestamp),
        ended_at: run.ended_at.map(timestamp),
        next_attempt_at: run.next_attempt_at.map(timestamp),
        failed_tasks: run.failed,
        cancelled_tasks: run.cancelled,
        closes: run.closes.map(timestamp),
    }
}

/// The agent, without runs.
pub(crate) fn agent(image: &AgentImage, running: usize) -> api::Agent {
    api::Agent {
        stopped: image.is_stopped,
        changed_at: (image.changed_at > Time(0)).then(|| timestamp(image.changed_at)),
        changed_by: image.changed_by.to_string(),
        reason: image.reason.to_string(),
        running: running as i64,
        runs: Vec::new(),
    }
}

/// Counts over all jobs.
pub(crate) fn job_counts(counts: &JobCounts) -> api::JobCounts {
    api::JobCounts {
        agent: Some(agent(&counts.agent, counts.running)),
        jobs: counts.jobs as i64,
        paused: counts.paused as i64,
        failing: counts.failing as i64,
        late: counts.late as i64,
        waiting: counts.waiting as i64,
        next_due: counts.next_due.map(timestamp),
        unreadable: counts.unreadable as i64,
    }
}

/// A due time.
pub(crate) fn due_time(due: &DueTime) -> api::DueTime {
    let at = |at: jiff::Timestamp| timestamp(Time(at.as_microsecond()));
    api::DueTime {
        due: Some(at(due.at)),
        local: due.local.to_string(),
        closes: due.closes.map(at),
    }
}
