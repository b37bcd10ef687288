//! Recurring jobs as their users meet them: they fire on real servers, and what became of each due
//! time can be read.

mod backfills;
mod claims;
mod errors;
mod kept_claims;
mod outages;
mod pages;
mod reports;
mod series;
mod steps;
mod stopped;
mod windows;

use crate::harness::{
    conversation::WAIT_TIMEOUT,
    server::{Server, Setup},
    work::{Work, sleep as sleep_for, sql},
};
use rallypoint_client::{
    Client, Error,
    api::{
        Agent, CancelRunRequest, CreateJobRequest, GetJobRequest, Interval, JobRun, JobSettings,
        ListRunsRequest, Misfire, Overlap, PauseJobRequest, ResumeJobRequest, RunCause,
        RunJobRequest, RunReason, RunState, Schedule, SchedulerSettings, StartAgentRequest,
        StopAgentRequest, StopMode, Task, schedule::Rule,
    },
};
use std::{collections::BTreeSet, time::Duration};
use tokio::time::{sleep, timeout};

const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) fn every(seconds: i64) -> Option<Schedule> {
    let every = prost_types::Duration { seconds, nanos: 0 };
    let interval = Interval {
        every: Some(every),
        phase: None,
    };
    Some(Schedule {
        rule: Some(Rule::Interval(interval)),
        ..Schedule::default()
    })
}

fn job(seconds: i64, steps: impl IntoIterator<Item = Work>) -> JobSettings {
    JobSettings {
        schedule: every(seconds),
        steps: steps.into_iter().map(Task::from).collect(),
        ..JobSettings::default()
    }
}

async fn create(client: &Client, name: &str, settings: JobSettings) {
    let request = CreateJobRequest {
        name: name.into(),
        settings: Some(settings),
        validate_only: false,
    };
    let created = client.create_job(request).await.expect("created");
    assert!(!created.already_exists);
}

/// Due times of a job, oldest first.
async fn runs(client: &Client, name: &str) -> Vec<JobRun> {
    let request = ListRunsRequest {
        name: name.into(),
        page_size: 1_000,
        page_token: String::new(),
    };
    let mut runs = client.list_runs(request).await.expect("listed").runs;
    runs.reverse();
    runs
}

/// Waits until the due times of a job are as they are to be.
async fn runs_until(client: &Client, name: &str, is_it: impl Fn(&[JobRun]) -> bool) -> Vec<JobRun> {
    let mut last = Vec::new();
    let wait = async {
        loop {
            last = runs(client, name).await;
            if is_it(&last) {
                return;
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    let waited = timeout(WAIT_TIMEOUT, wait).await;
    assert!(waited.is_ok(), "{last:?}");
    last
}

fn count(runs: &[JobRun], state: RunState) -> usize {
    runs.iter().filter(|run| run.state() == state).count()
}

/// Every whole second from the first due time to the last has one fate.
fn none_is_left_out(runs: &[JobRun]) {
    let mut next = None;
    for run in runs {
        let due = run.due.as_ref().expect("a due time").seconds;
        assert!(next.is_none_or(|next| next == due), "{runs:?}");
        next = Some(run.last_due.as_ref().map_or(due, |last| last.seconds) + 1);
    }
    let due = |run: &JobRun| run.due.as_ref().map(|due| due.seconds);
    let all: BTreeSet<_> = runs.iter().map(due).collect();
    assert_eq!(all.len(), runs.len(), "{runs:?}");
}

fn reason(error: &Error) -> &str {
    error.reason.as_deref().unwrap_or("none")
}

async fn run_now(client: &Client, name: &str) -> Result<JobRun, Error> {
    let request = RunJobRequest {
        name: name.into(),
        ..RunJobRequest::default()
    };
    let run = client.run_job(request).await?;
    Ok(run.run.expect("a run"))
}

#[tokio::test]
async fn a_job_fires_each_second_and_each_run_is_in_the_log() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "tick", job(1, [sql("select 1").order(1)])).await;
    let fired = runs_until(client, "tick", |runs| count(runs, RunState::Succeeded) >= 3).await;
    none_is_left_out(&fired);
    let handles: BTreeSet<&String> = fired.iter().map(|run| &run.handle).collect();
    assert_eq!(handles.len(), fired.len(), "one scheduler each");
    assert!(fired.iter().all(|run| run.cause() == RunCause::Scheduled));
    let known = client
        .get_job(GetJobRequest {
            name: "tick".into(),
        })
        .await;
    let known = known.expect("it is there").job.expect("a job");
    assert!(known.next_due.is_some() && !known.time_zones.is_empty());
    let steps = known.settings.expect("settings").steps;
    assert_eq!(steps.len(), 1);
    let status = client.status().await.expect("a status").jobs.expect("jobs");
    assert_eq!((status.jobs, status.failing), (1, 0));
}

#[tokio::test]
async fn a_due_time_that_meets_a_long_run_is_skipped_and_says_so() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "long", job(1, [sleep_for(600_000).order(1)])).await;
    let met = runs_until(client, "long", |runs| count(runs, RunState::Skipped) >= 2).await;
    none_is_left_out(&met);
    assert_eq!(count(&met, RunState::Running), 1);
    let skipped = met.iter().filter(|run| run.state() == RunState::Skipped);
    assert!(
        skipped
            .into_iter()
            .all(|run| run.reason() == RunReason::StillRunning)
    );
    let refused = run_now(client, "long").await.unwrap_err();
    assert_eq!(reason(&refused), "JOB_BLOCKED");
    let request = CancelRunRequest {
        name: "long".into(),
        due: met[0].due,
    };
    client.cancel_run(request).await.expect("it runs");
    let ended = |runs: &[JobRun]| runs[0].state() == RunState::Cancelled;
    let ended = runs_until(client, "long", ended).await;
    assert_eq!(ended[0].reason(), RunReason::Asked);
}

#[tokio::test]
async fn a_paused_job_skips_and_a_stopped_agent_fires_nothing_and_says_what_runs() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "tick", job(1, [sql("select 1").order(1)])).await;
    create(client, "long", job(1, [sleep_for(600_000).order(1)])).await;
    runs_until(client, "tick", |runs| !runs.is_empty()).await;
    runs_until(client, "long", |runs| !runs.is_empty()).await;
    let pause = PauseJobRequest {
        name: "tick".into(),
        reason: "a release".into(),
    };
    client.pause_job(pause).await.expect("it is there");
    let before = runs(client, "tick").await.len();
    // What is due meanwhile is noted when the job goes on.
    sleep(Duration::from_millis(2_500)).await;
    let name = "tick".to_owned();
    client
        .resume_job(ResumeJobRequest { name })
        .await
        .expect("it is there");
    let after = runs_until(client, "tick", |runs| runs.len() > before + 2).await;
    let paused = after
        .iter()
        .filter(|run| run.reason() == RunReason::JobPaused);
    assert!(paused.count() >= 2, "{after:?}");
    none_is_left_out(&after);
    let stop = StopAgentRequest {
        mode: StopMode::Drain.into(),
        reason: "a release".into(),
    };
    let stopped = client.stop_agent(stop.clone()).await.expect("stopped");
    let Agent {
        stopped,
        runs: still,
        ..
    } = stopped.agent.expect("the agent");
    let still: Vec<&String> = still.iter().map(|run| &run.job).collect();
    assert!(stopped && still.contains(&&"long".to_owned()), "{still:?}");
    let again = client.stop_agent(stop).await.expect("stopped");
    assert!(again.already_stopped);
    let refused = run_now(client, "tick").await.unwrap_err();
    assert_eq!(reason(&refused), "JOB_BLOCKED");
    client
        .start_agent(StartAgentRequest {})
        .await
        .expect("started");
    let before = after.len();
    let more = runs_until(client, "tick", |runs| runs.len() > before + 1).await;
    none_is_left_out(&more);
}
