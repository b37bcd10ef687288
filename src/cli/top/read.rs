//! Reads what a view shows. One list for each view and reading, whatever its length; what is asked
//! of single rows is bounded by constants here and in `read/`.

mod again;
mod attention;
mod executions;
mod overview;

use super::{
    fault::is_away,
    filter,
    place::Place,
    seen::{Jobs, OneJob, OneScheduler, OneTask, Query, Seen, System},
};
use crate::core::Handle;
use executions::executions;
use rallypoint_client::{
    Client, Result, Scheduler,
    api::{
        GetJobRequest, GetResourceRequest, JobRun, ListAttemptsRequest, ListJobsRequest,
        ListResourcesRequest, ListRunsRequest, ListSchedulersRequest, ListTasksRequest,
        PreviewScheduleRequest, RunState, WatchResourceResponse, preview_schedule_request::Of,
    },
};
use tonic::Status;

/// Rows of a page of a list.
const PAGE: i32 = 200;
/// Attempts of a task.
const ATTEMPTS: i32 = 50;
/// Due times of a job: what became of them, and the next.
const RUNS: i32 = 50;
const DUE: i32 = 6;
/// Of how many jobs a reading of the list asks the last runs, and how many of them.
const JOBS_ASKED: usize = 5;
const LAST_RUNS: i32 = 10;
/// After so long, in microseconds, the last runs of a job are asked again in any case.
const RUNS_AGE: i64 = 15_000_000;

/// Reads a view.
pub(super) async fn read(client: &Client, query: Query) -> Result<Seen> {
    match &query.place {
        Place::Overview => overview::read(client, &query).await,
        Place::Schedulers => schedulers(client, &query).await,
        Place::Scheduler(handle) => scheduler(client, handle, &query).await,
        Place::Task(handle, seq) => task(client, handle, *seq, &query).await,
        Place::Jobs => jobs(client, &query).await,
        Place::Job(name) => job(client, name, &query).await,
        Place::Resources => resources(client, &query).await,
        Place::Resource(name) => resource(client, name).await,
        Place::System => system(client).await,
    }
}

async fn schedulers(client: &Client, query: &Query) -> Result<Seen> {
    let (filter, _) = filter::of_schedulers(&query.filter);
    let request = ListSchedulersRequest {
        page_size: PAGE,
        page_token: query.page_token.clone(),
        filter: Some(filter),
    };
    client.schedulers(request).await.map(Seen::Schedulers)
}

async fn scheduler(client: &Client, handle: &str, query: &Query) -> Result<Seen> {
    let scheduler = found(client, handle).await?;
    if let Some(before) = again::filtered(query) {
        let one = scheduler.describe().await?;
        if before.scheduler == one {
            return Ok(Seen::Scheduler(Box::new(before.clone())));
        }
    }
    let (filter, _) = filter::of_tasks(&query.filter);
    let request = ListTasksRequest {
        page_size: PAGE,
        page_token: query.page_token.clone(),
        filter: Some(filter),
        ..ListTasksRequest::default()
    };
    let (one, page) = tokio::try_join!(scheduler.describe(), scheduler.tasks(request))?;
    Ok(Seen::Scheduler(Box::new(OneScheduler {
        scheduler: one,
        tasks: page.tasks,
        next_page_token: page.next_page_token,
        filter: query.filter.clone(),
        page_token: query.page_token.clone(),
        listed_at: query.now,
    })))
}

/// A scheduler by its handle, or by its name.
async fn found(client: &Client, word: &str) -> Result<Scheduler> {
    if word.parse::<Handle>().is_ok() {
        return Ok(client.scheduler(word));
    }
    let found = client.find(word).await?;
    found.ok_or_else(|| Status::not_found(format!("no scheduler has the name {word}")).into())
}

async fn task(client: &Client, handle: &str, seq: i64, query: &Query) -> Result<Seen> {
    let scheduler = found(client, handle).await?;
    let request = ListAttemptsRequest {
        page_size: ATTEMPTS,
        ..ListAttemptsRequest::default()
    };
    let (one, task, attempts) = tokio::try_join!(
        scheduler.describe(),
        scheduler.task(seq),
        scheduler.attempts(seq, request)
    )?;
    let (explained, explained_at) = match again::explained(query, &one, &task) {
        Some(before) => (before.explained.clone(), before.explained_at),
        None => (scheduler.explain(seq).await?, query.now),
    };
    Ok(Seen::Task(Box::new(OneTask {
        scheduler: one,
        task,
        explained,
        attempts: attempts.attempts,
        explained_at,
    })))
}

async fn jobs(client: &Client, query: &Query) -> Result<Seen> {
    let request = ListJobsRequest {
        page_size: PAGE,
        page_token: query.page_token.clone(),
    };
    let (page, status) = tokio::try_join!(client.list_jobs(request), client.status())?;
    let mut runs = match query.before.as_deref() {
        Some(Seen::Jobs(before)) => before.runs.clone(),
        _ => Default::default(),
    };
    let names: Vec<String> = page.jobs.iter().map(|job| job.name.clone()).collect();
    runs.retain(|name, _| names.contains(name));
    // Those on the screen come first.
    let asked = query.visible.iter().chain(&names);
    let is_stale = |name: &&String| {
        let read = runs.get(*name);
        read.is_none_or(|(at, runs)| query.now - at > RUNS_AGE || runs.iter().any(is_open))
    };
    let mut asked: Vec<&String> = asked
        .filter(|name| names.contains(name))
        .filter(is_stale)
        .collect();
    asked.sort_by_key(|name| runs.get(*name).map_or(0, |(at, _)| *at));
    asked.dedup();
    for name in asked.into_iter().take(JOBS_ASKED) {
        let last = last_runs(client, name).await?;
        runs.insert(name.clone(), (query.now, last));
    }
    Ok(Seen::Jobs(Box::new(Jobs {
        jobs: page.jobs,
        next_page_token: page.next_page_token,
        status,
        runs,
    })))
}

fn is_open(run: &JobRun) -> bool {
    use RunState::{Retrying, Running, Waiting};
    matches!(run.state(), Waiting | Running | Retrying)
}

/// None, of a job that has been deleted meanwhile.
async fn last_runs(client: &Client, name: &str) -> Result<Vec<JobRun>> {
    let request = ListRunsRequest {
        name: name.to_owned(),
        page_size: LAST_RUNS,
        page_token: String::new(),
    };
    match client.list_runs(request).await {
        Ok(page) => Ok(page.runs),
        Err(error) if error.is("JOB_NOT_FOUND") => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

async fn job(client: &Client, name: &str, query: &Query) -> Result<Seen> {
    let runs = ListRunsRequest {
        name: name.to_owned(),
        page_size: RUNS,
        page_token: query.page_token.clone(),
    };
    let preview = PreviewScheduleRequest {
        count: DUE,
        of: Some(Of::Name(name.to_owned())),
        after: None,
    };
    let name = name.to_owned();
    let (job, runs) = tokio::try_join!(
        client.get_job(GetJobRequest { name }),
        client.list_runs(runs)
    )?;
    // A job that follows another one has no due times of its own.
    let due = match client.preview_schedule(preview).await {
        Ok(preview) => preview.due_times,
        Err(error) if is_away(&error) => return Err(error),
        Err(_) => Vec::new(),
    };
    let job = job.job.unwrap_or_default();
    Ok(Seen::Job(Box::new(OneJob { job, due, runs })))
}

async fn resources(client: &Client, query: &Query) -> Result<Seen> {
    let request = ListResourcesRequest {
        page_size: PAGE,
        page_token: query.page_token.clone(),
    };
    client.resources(request).await.map(Seen::Resources)
}

async fn resource(client: &Client, name: &str) -> Result<Seen> {
    let request = GetResourceRequest {
        name: name.to_owned(),
        page_size: PAGE,
    };
    let one = client.get_resource(request).await?;
    Ok(Seen::Resource(Box::new(WatchResourceResponse {
        resource: one.resource,
        holds: one.holds,
        queue: one.queue,
        waiting_tasks: one.waiting_tasks,
        deleted: false,
    })))
}

async fn system(client: &Client) -> Result<Seen> {
    let (status, (executions, left_out)) = tokio::try_join!(client.status(), executions(client))?;
    Ok(Seen::System(Box::new(System {
        status,
        executions,
        left_out,
    })))
}
