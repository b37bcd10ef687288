//! What the log of the service says of the jobs of a file: how long their runs take, so that a
//! `max_runtime` and a window that are too short are known before they end a run.

use super::{
    finding::{Finding, due_times},
    job::Job,
    rules::Overlap,
};
use crate::{
    cli::{connect::Server, error::CliError, output, plural, time_text},
    core::schedule::DueTime,
};
use jiff::{SignedDuration, Timestamp};
use rallypoint_client::{
    Client,
    api::{JobRun, ListRunsRequest, RunState},
};
use std::time::Duration;

/// Due times that are read of a job, the newest ones.
const READ: usize = 5_000;
const PAGE_SIZE: i32 = 1_000;
/// Of fewer runs nothing is concluded.
const LEAST: usize = 20;

/// How long the last attempts of runs took, ascending.
#[derive(Debug)]
pub(super) struct Lengths(Vec<Duration>);

impl Lengths {
    pub(super) fn of(mut lengths: Vec<Duration>) -> Self {
        lengths.sort_unstable();
        Lengths(lengths)
    }

    /// 99 of 100 runs took no longer. `None`: there are too few runs.
    fn p99(&self) -> Option<Duration> {
        let rank = (self.0.len() * 99).div_ceil(100);
        let known = self.0.len() >= LEAST;
        known.then(|| self.0[rank - 1])
    }
}

/// What the runs of these jobs say of them. Which of them have too few runs is noted.
pub(super) async fn findings(
    server: &Server,
    jobs: &[Job],
    from: Timestamp,
    factor: u32,
) -> Result<Vec<Finding>, CliError> {
    let client = server.client().await?;
    let (mut findings, mut unknown) = (Vec::new(), Vec::new());
    for job in jobs {
        let lengths = read(&client, job).await?;
        if lengths.p99().is_none() {
            unknown.push(format!("{} ({})", job.name, lengths.0.len()));
        }
        findings.extend(judge(job, &lengths, from, factor));
    }
    if !unknown.is_empty() {
        let unknown = unknown.join(", ");
        let what = format!("nothing is said of jobs with fewer than {LEAST} runs in the log");
        output::note(format!("{what}: {unknown}"));
    }
    Ok(findings)
}

/// Runs that came to their end by themselves. A job that the service does not have has none.
async fn read(client: &Client, job: &Job) -> Result<Lengths, CliError> {
    let mut request = ListRunsRequest {
        name: job.name.clone(),
        page_size: PAGE_SIZE,
        page_token: String::new(),
    };
    let (mut lengths, mut seen) = (Vec::new(), 0);
    loop {
        let page = match client.list_runs(request.clone()).await {
            Err(error) if error.reason.as_deref() == Some("JOB_NOT_FOUND") => break,
            page => page.map_err(|error| {
                CliError::call(format!("cannot list runs of job {}", job.name), &error)
            })?,
        };
        seen += page.runs.len();
        lengths.extend(page.runs.iter().filter_map(length));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() || seen >= READ {
            break;
        }
    }
    Ok(Lengths::of(lengths))
}

/// How long a run took. One that was stopped would have taken longer.
fn length(run: &JobRun) -> Option<Duration> {
    let is_whole = matches!(run.state(), RunState::Succeeded | RunState::TimedOut);
    let started = time_text::micros(Some(run.started_at.as_ref()?));
    let ended = time_text::micros(Some(run.ended_at.as_ref()?));
    let took = u64::try_from(ended - started).ok()?;
    is_whole.then(|| Duration::from_micros(took))
}

/// What may surprise in a job whose runs take so long.
pub(super) fn judge(job: &Job, lengths: &Lengths, from: Timestamp, factor: u32) -> Vec<Finding> {
    let Some(p99) = lengths.p99() else {
        return Vec::new();
    };
    let took = format!(
        "99 of 100 runs take up to {} ({} in the log)",
        said(p99),
        plural::count(lengths.0.len(), "run")
    );
    let narrow = narrow_window(job, p99, from, &took);
    let slow = slow_run(job, p99, from, &took);
    let suggested = max_runtime(job, p99, factor, &took);
    narrow.into_iter().chain(slow).chain(suggested).collect()
}

/// Windows that close before most runs are over: none of these can be repeated.
fn narrow_window(job: &Job, p99: Duration, from: Timestamp, took: &str) -> Option<Finding> {
    let open = |time: DueTime| {
        let delay = SignedDuration::try_from(job.schedule.delay(&job.name)).ok()?;
        (time.closes?.duration_since(time.at) - delay)
            .try_into()
            .ok()
    };
    let least: Duration = due_times(job, from).filter_map(open).min()?;
    let text = || format!("{took}, and its window is open for {}", said(least));
    (least < p99).then(|| Finding::of(job, "SLOW_FOR_WINDOW", text()))
}

/// Runs that meet the next due time as a rule.
fn slow_run(job: &Job, p99: Duration, from: Timestamp, took: &str) -> Option<Finding> {
    let times: Vec<Timestamp> = due_times(job, from).map(|time| time.at).collect();
    let apart = |pair: &[Timestamp]| pair[1].duration_since(pair[0]).try_into().ok();
    let least: Duration = times.windows(2).filter_map(apart).min()?;
    let meets = least < p99 && job.overlap != Overlap::Allow;
    let text = || {
        format!(
            "{took}, and the next one is due after {}: `overlap = {}` decides",
            said(least),
            job.overlap.name()
        )
    };
    meets.then(|| Finding::of(job, "SLOW_RUN", text()))
}

/// A `max_runtime` by the log, where there is none or one that ends runs that are as ever.
fn max_runtime(job: &Job, p99: Duration, factor: u32, took: &str) -> Option<Finding> {
    let fitting = readable(p99.saturating_mul(factor));
    let hint = format!("`max_runtime = \"{fitting}\"` would be {factor} times that");
    let text = match job.max_runtime {
        None => format!("{took}, and nothing ends one that hangs: {hint}"),
        Some(most) if most <= p99 => {
            format!(
                "{took}, as long as `max_runtime` ({}) or longer: {hint}",
                said(most)
            )
        }
        Some(_) => return None,
    };
    Some(Finding::of(job, "MAX_RUNTIME", text))
}

/// A length of time as files have it, not shorter: in whole seconds, minutes or hours.
fn readable(length: Duration) -> String {
    let seconds = length.as_secs() + u64::from(length.subsec_nanos() > 0);
    match seconds.max(1) {
        seconds @ ..120 => format!("{seconds}s"),
        seconds @ ..10_800 => format!("{}m", seconds.div_ceil(60)),
        seconds => format!("{}h", seconds.div_ceil(3_600)),
    }
}

fn said(length: Duration) -> String {
    time_text::duration(i64::try_from(length.as_micros()).unwrap_or(i64::MAX))
}
