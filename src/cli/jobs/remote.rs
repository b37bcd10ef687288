//! Verbs about jobs of the service.

use super::show;
use crate::{
    cli::{connect::Server, error::CliError, output},
    core::{
        model::limits::MAX_ORDER,
        schedule::{Moment, TimeZones},
    },
};
use clap::Args;
use jiff::Timestamp;
use rallypoint_client::{Client, Error, api};

/// What to do where the zone of a job is not known here.
const IN_UTC: &str = "write the times in UTC, like 2026-11-01T00:00:00Z";

/// Which job.
#[derive(Args, Debug)]
pub(super) struct Named {
    /// Its name
    name: String,
}

/// Arguments of `jobs run`.
#[derive(Args, Debug)]
pub(super) struct RunNow {
    /// Its name
    name: String,
    /// Leave out steps of lower orders
    #[arg(
        long,
        value_name = "ORDER",
        value_parser = clap::value_parser!(i64).range(0..=MAX_ORDER)
    )]
    from_order: Option<i64>,
}

/// Arguments of `jobs pause`.
#[derive(Args, Debug)]
pub(super) struct Pause {
    /// Its name
    name: String,
    /// Why, for the record
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "TEXT"
    )]
    reason: String,
}

/// Arguments of `jobs runs`.
#[derive(Args, Debug)]
pub(super) struct Runs {
    /// Its name
    name: String,
    /// Most due times to show
    #[arg(
        long,
        default_value_t = 20,
        value_name = "N",
        value_parser = clap::value_parser!(i32).range(0..)
    )]
    limit: i32,
}

/// Which run.
#[derive(Args, Debug)]
pub(super) struct NamedRun {
    /// Its name
    name: String,
    /// The due time of the run, as `jobs runs` shows it
    due: Timestamp,
}

/// Arguments of `jobs backfill`.
#[derive(Args, Debug)]
pub(super) struct Backfill {
    /// Its name
    name: String,
    /// Due times from then on: 2026-11-01, 2026-11-01T08:00 (both by the clock of the job's time
    /// zone) or 2026-11-01T08:00:00Z
    #[arg(long, value_name = "TIME")]
    from: Moment,
    /// Due times before then [default: now]
    #[arg(long, value_name = "TIME")]
    until: Option<Moment>,
    /// Only say which due times would have a run
    #[arg(long)]
    dry_run: bool,
}

impl Named {
    pub(super) async fn get(self, server: &Server) -> Result<(), CliError> {
        let what = format!("cannot show job {}", self.name);
        let request = api::GetJobRequest { name: self.name };
        let known = server.client().await?.get_job(request).await;
        let known = known.map_err(|error| CliError::call(what, &error))?;
        output::answer(&known, |known| show::job(known.job.as_ref(), ""));
        Ok(())
    }

    pub(super) async fn delete(self, server: &Server) -> Result<(), CliError> {
        let what = format!("cannot delete job {}", self.name);
        let said = format!("{}: deleted", self.name);
        let request = api::DeleteJobRequest {
            name: self.name,
            etag: String::new(),
        };
        let deleted = server.client().await?.delete_job(request).await;
        let deleted = deleted.map_err(|error| CliError::call(what, &error))?;
        output::answer(&deleted, |_| output::line(said));
        Ok(())
    }

    pub(super) async fn resume(self, server: &Server) -> Result<(), CliError> {
        let what = format!("cannot resume job {}", self.name);
        let request = api::ResumeJobRequest { name: self.name };
        let resumed = server.client().await?.resume_job(request).await;
        let resumed = resumed.map_err(|error| CliError::call(what, &error))?;
        output::answer(&resumed, |resumed| {
            let before = if resumed.already_resumed {
                " (was not paused)"
            } else {
                ""
            };
            show::job(resumed.job.as_ref(), before);
        });
        Ok(())
    }
}

impl RunNow {
    pub(super) async fn run(self, server: &Server) -> Result<(), CliError> {
        let what = format!("cannot run job {}", self.name);
        let request = api::RunJobRequest {
            name: self.name,
            request_id: String::new(),
            from_order: self.from_order,
        };
        let run = server.client().await?.run_job(request).await;
        let run = run.map_err(|error| CliError::call(what, &error))?;
        output::answer(&run, |answer| show::run(answer.run.as_ref()));
        Ok(())
    }
}

impl Pause {
    pub(super) async fn run(self, server: &Server) -> Result<(), CliError> {
        let what = format!("cannot pause job {}", self.name);
        let request = api::PauseJobRequest {
            name: self.name,
            reason: self.reason,
        };
        let paused = server.client().await?.pause_job(request).await;
        let paused = paused.map_err(|error| CliError::call(what, &error))?;
        output::answer(&paused, |paused| {
            let before = if paused.already_paused {
                " (was paused before)"
            } else {
                ""
            };
            show::job(paused.job.as_ref(), before);
        });
        Ok(())
    }
}

impl Runs {
    pub(super) async fn run(self, server: &Server) -> Result<(), CliError> {
        let what = format!("cannot list runs of job {}", self.name);
        let request = api::ListRunsRequest {
            name: self.name,
            page_size: self.limit,
            page_token: String::new(),
        };
        let runs = server.client().await?.list_runs(request).await;
        let runs = runs.map_err(|error| CliError::call(what, &error))?;
        output::answer(&runs, |answer| show::runs(&answer.runs));
        Ok(())
    }
}

impl Backfill {
    pub(super) async fn run(self, server: &Server) -> Result<(), CliError> {
        let what = format!("cannot backfill job {}", self.name);
        let failed = |error| CliError::call(&what, &error);
        let client = server.client().await?;
        let zone = self.zone(&client).await?;
        let zone = TimeZones::bundled().zone(&zone);
        let zone = zone.map_err(|why| CliError::new(&what).why(why).next(IN_UTC))?;
        let from = self.from.resolve(&zone);
        let is_ahead = from > Timestamp::now();
        let request = api::BackfillJobRequest {
            name: self.name,
            from: Some(message(from)),
            until: self.until.map(|until| message(until.resolve(&zone))),
            dry_run: self.dry_run,
        };
        let answer = client.backfill_job(request).await.map_err(failed)?;
        output::answer(&answer, |answer| {
            show::backfilled(answer, self.dry_run, is_ahead);
        });
        Ok(())
    }

    /// The name of the zone by whose clock the times are; the job is asked if it matters.
    async fn zone(&self, client: &Client) -> Result<String, CliError> {
        let mut times = [self.from].into_iter().chain(self.until);
        if !times.any(|time| matches!(time, Moment::Local(_))) {
            return Ok("UTC".to_owned());
        }
        let what = format!("cannot backfill job {}", self.name);
        let request = api::GetJobRequest {
            name: self.name.clone(),
        };
        let known = client.get_job(request).await;
        let known = known.map_err(|error| CliError::call(what, &error))?;
        let settings = known.job.and_then(|job| job.settings);
        let zone = settings.and_then(|settings| settings.schedule);
        let zone = zone.map(|schedule| schedule.time_zone);
        let zone = zone.filter(|zone| !zone.is_empty());
        Ok(zone.unwrap_or_else(|| "UTC".to_owned()))
    }
}

impl NamedRun {
    pub(super) async fn cancel(self, server: &Server) -> Result<(), CliError> {
        let what = format!("cannot cancel the run of {} of job {}", self.due, self.name);
        let request = api::CancelRunRequest {
            due: Some(self.due()),
            name: self.name.clone(),
        };
        let run = server.client().await?.cancel_run(request).await;
        let run = run.map_err(|error| self.failed(&what, &error))?;
        output::answer(&run, |answer| show::run(answer.run.as_ref()));
        Ok(())
    }

    pub(super) async fn get(self, server: &Server) -> Result<(), CliError> {
        let what = format!("cannot show the run of {} of job {}", self.due, self.name);
        let request = api::GetRunRequest {
            due: Some(self.due()),
            name: self.name.clone(),
        };
        let run = server.client().await?.get_run(request).await;
        let run = run.map_err(|error| self.failed(&what, &error))?;
        output::answer(&run, |answer| {
            show::run(answer.run.as_ref());
            show::claims(&answer.claims);
        });
        Ok(())
    }

    fn failed(&self, what: &str, error: &Error) -> CliError {
        CliError::call(what, error).naming("JOB", &self.name)
    }

    fn due(&self) -> prost_types::Timestamp {
        message(self.due)
    }
}

/// A time as the API has it.
pub(super) fn message(time: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: time.as_microsecond().div_euclid(1_000_000),
        nanos: time.subsec_nanosecond(),
    }
}

/// All pages as one answer.
pub(super) async fn list(server: &Server) -> Result<(), CliError> {
    let client = server.client().await?;
    let mut all = api::ListJobsResponse::default();
    loop {
        let request = api::ListJobsRequest {
            page_size: 1_000,
            page_token: std::mem::take(&mut all.next_page_token),
        };
        let page = client.list_jobs(request).await;
        let page = page.map_err(|error| CliError::call("cannot list jobs", &error))?;
        all.jobs.extend(page.jobs);
        all.next_page_token = page.next_page_token;
        if all.next_page_token.is_empty() {
            break;
        }
    }
    output::answer(&all, |all| show::jobs(&all.jobs));
    Ok(())
}
