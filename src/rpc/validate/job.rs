//! Requests about jobs.

mod backfill;
mod claims;
mod definition;
mod tasks;

use super::{Targets, scalar};
use crate::{
    core::{JobVerb, StopAgent, StopMode, Time, model::limits::NAME_BYTES, schedule::Schedule},
    rpc::errors::{
        reason::Reason,
        violations::{Path, Violations},
    },
};
pub(crate) use backfill::{BackfillRange, backfill};
pub(crate) use claims::{claim_run, finish_run, renew_run};
use definition::{checked, job, number};
use rallypoint_client::api;
use std::{ops::RangeInclusive, sync::Arc};

const TEXT_BYTES: usize = 1_000;
const PAGE_SIZES: RangeInclusive<i32> = 0..=1_000;
const DEFAULT_PAGE_SIZE: usize = 100;
const DEFAULT_COUNT: usize = 10;

/// A validated CreateJobRequest.
pub(crate) fn create(
    request: &api::CreateJobRequest,
    targets: &Targets,
) -> Result<JobVerb, Violations> {
    let mut v = Violations::default();
    let name = name(&mut v, &request.name);
    let job = job(&mut v, request.settings.as_ref(), targets);
    v.into_result(JobVerb::Create { name, job })
}

/// A validated UpdateJobRequest.
pub(crate) fn update(
    request: &api::UpdateJobRequest,
    targets: &Targets,
) -> Result<JobVerb, Violations> {
    let mut v = Violations::default();
    let name = name(&mut v, &request.name);
    let job = job(&mut v, request.settings.as_ref(), targets);
    let version = etag(&mut v, &request.etag);
    v.into_result(JobVerb::Update { name, job, version })
}

/// A validated DeleteJobRequest.
pub(crate) fn delete(request: &api::DeleteJobRequest) -> Result<JobVerb, Violations> {
    let mut v = Violations::default();
    let name = name(&mut v, &request.name);
    let version = etag(&mut v, &request.etag);
    v.into_result(JobVerb::Delete { name, version })
}

/// A validated RunJobRequest.
pub(crate) fn run(request: &api::RunJobRequest) -> Result<JobVerb, Violations> {
    let mut v = Violations::default();
    let name = name(&mut v, &request.name);
    let path = Path::Root.field("request_id");
    let id = scalar::request_id(&mut v, path, &request.request_id);
    let from = request.from_order;
    let from = from.map(|order| scalar::order(&mut v, Path::Root.field("from_order"), order).0);
    v.into_result(JobVerb::Run {
        name,
        request: id,
        from_order: from,
    })
}

/// A validated PauseJobRequest.
pub(crate) fn pause(request: &api::PauseJobRequest) -> Result<JobVerb, Violations> {
    let mut v = Violations::default();
    let name = name(&mut v, &request.name);
    let reason = text(&request.reason);
    v.into_result(JobVerb::Pause { name, reason })
}

/// A validated ResumeJobRequest.
pub(crate) fn resume(request: &api::ResumeJobRequest) -> Result<JobVerb, Violations> {
    Ok(JobVerb::Resume(named(&request.name)?))
}

/// A validated CancelRunRequest.
pub(crate) fn cancel_run(request: &api::CancelRunRequest) -> Result<JobVerb, Violations> {
    let (name, due) = run_of(&request.name, request.due.as_ref())?;
    Ok(JobVerb::CancelRun { name, due })
}

/// A validated StopAgentRequest.
pub(crate) fn stop_agent(request: &api::StopAgentRequest) -> Result<StopAgent, Violations> {
    let mut v = Violations::default();
    let mode = scalar::enumeration(&mut v, Path::Root.field("mode"), request.mode);
    let mode = match mode.unwrap_or(api::StopMode::Unspecified) {
        api::StopMode::Unspecified | api::StopMode::Drain => StopMode::Drain,
        api::StopMode::CancelRunning => StopMode::CancelRunning,
    };
    let reason = text(&request.reason);
    v.into_result(StopAgent {
        mode,
        reason,
        goes_on: None,
    })
}

/// The name of a job.
pub(crate) fn named(text: &str) -> Result<Arc<str>, Violations> {
    let mut v = Violations::default();
    let name = name(&mut v, text);
    v.into_result(name)
}

/// Which run.
pub(crate) fn run_of(
    job: &str,
    due: Option<&prost_types::Timestamp>,
) -> Result<(Arc<str>, Time), Violations> {
    let mut v = Violations::default();
    let name = name(&mut v, job);
    let path = Path::Root.field("due");
    let due = match due {
        Some(due) => scalar::time(&mut v, path, due),
        None => {
            v.add(
                path,
                Reason::JobInvalid,
                "missing: the due time names the run",
            );
            None
        }
    };
    v.into_result((name, due.unwrap_or_default()))
}

/// The job to list runs of, how many, and only those before.
pub(crate) fn list_runs(
    request: &api::ListRunsRequest,
) -> Result<(Arc<str>, usize, Time), Violations> {
    let mut v = Violations::default();
    let name = name(&mut v, &request.name);
    let size = page_size(&mut v, request.page_size);
    let before = match &*request.page_token {
        "" => Some(Time::NEVER),
        token => token.parse().ok().map(Time),
    };
    if before.is_none() {
        let path = Path::Root.field("page_token");
        v.add(path, Reason::PageTokenInvalid, "not one of this call");
    }
    v.into_result((name, size, before.unwrap_or(Time::NEVER)))
}

/// How many jobs, and only those after this name.
pub(crate) fn list_jobs(request: &api::ListJobsRequest) -> Result<(usize, &str), Violations> {
    let mut v = Violations::default();
    let size = page_size(&mut v, request.page_size);
    if request.page_token.len() > *NAME_BYTES.end() {
        let path = Path::Root.field("page_token");
        v.add(path, Reason::PageTokenInvalid, "not one of this call");
    }
    v.into_result((size, &request.page_token))
}

/// The schedule of a preview, if it names one; how many due times, and those after which time.
pub(crate) fn preview(
    request: &api::PreviewScheduleRequest,
) -> Result<(Option<Schedule>, usize, Option<Time>), Violations> {
    use api::preview_schedule_request::Of;
    let mut v = Violations::default();
    let schedule = match &request.of {
        Some(Of::Schedule(given)) => {
            let path = Path::Root.field("schedule");
            checked(&mut v, path, given).map(|(_, schedule)| schedule)
        }
        Some(Of::Name(text)) => {
            name(&mut v, text);
            None
        }
        None => {
            let path = Path::Root.field("of");
            v.add(path, Reason::JobInvalid, "set `name` or `schedule`");
            None
        }
    };
    let path = Path::Root.field("count");
    let count = number(&mut v, path, request.count, 0..=1_000);
    let after = request.after.as_ref();
    let after = after.and_then(|after| scalar::time(&mut v, Path::Root.field("after"), after));
    let count = match count {
        0 => DEFAULT_COUNT,
        count => count as usize,
    };
    v.into_result((schedule, count, after))
}

fn name(v: &mut Violations, text: &str) -> Arc<str> {
    if !NAME_BYTES.contains(&text.len()) || text.contains(char::is_control) {
        let what = "a job has a name of 1 to 63 bytes, without control characters";
        v.add(Path::Root.field("name"), Reason::JobInvalid, what);
    }
    text.into()
}

/// What a caller says for people. It is cut: a call that reports what has happened already must not
/// fail because of it.
fn text(text: &str) -> Arc<str> {
    let mut text = text.replace('\0', "\u{fffd}");
    text.truncate(text.floor_char_boundary(TEXT_BYTES));
    text.into()
}

/// A version, as an etag has it.
fn etag(v: &mut Violations, text: &str) -> Option<i64> {
    if text.is_empty() {
        return None;
    }
    let version = text.parse().ok();
    if version.is_none() {
        let what = "not an etag of this service: pass the one of GetJob, or none";
        v.add(Path::Root.field("etag"), Reason::JobInvalid, what);
    }
    version
}

fn page_size(v: &mut Violations, size: i32) -> usize {
    if !PAGE_SIZES.contains(&size) {
        let path = Path::Root.field("page_size");
        v.add(path, Reason::PageSizeOutOfRange, "must be 1 to 1000");
    }
    match size {
        0 => DEFAULT_PAGE_SIZE,
        size => size.max(0) as usize,
    }
}
