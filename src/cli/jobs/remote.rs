//! Verbs about jobs of the service.

use super::{job_clock, show, waiting};
use crate::{
    cli::{
        connect::Server,
        error::CliError,
        number::whole,
        output, shell, time_text,
        when::{self, When},
    },
    core::model::limits::MAX_ORDER,
};
use clap::Args;
use jiff::Timestamp;
use rallypoint_client::{
    Client, Error,
    api::{self, RunState},
};

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
    /// Leave out steps of lower orders; those without an order run, too
    #[arg(
        long,
        value_name = "ORDER",
        value_parser = whole::<i64>(0..=MAX_ORDER)
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

/// Which run.
#[derive(Args, Debug)]
pub(super) struct NamedRun {
    /// Its name
    name: String,
    /// The due time of the run, as `jobs runs` shows it, or by the clock of the job's time zone
    due: When,
}

/// Arguments of `jobs backfill`.
#[derive(Args, Debug)]
pub(super) struct Backfill {
    /// Its name
    name: String,
    /// Due times from then on: 2026-11-01 or 2026-11-01T08:00 by the clock of the job's time zone,
    /// 2026-11-01T08:00:00Z, or 2d ago
    #[arg(long, value_name = "TIME")]
    from: When,
    /// Due times before then [default: now]
    #[arg(long, alias = "to", value_name = "TIME")]
    until: Option<When>,
    /// Only say which due times would have a run
    #[arg(long)]
    dry_run: bool,
}

impl Named {
    pub(super) async fn get(self, server: &Server) -> Result<(), CliError> {
        let what = format!("cannot show job {}", self.name);
        let failed = |error| CliError::call(&what, &error);
        let name = self.name;
        let client = server.client().await?;
        let request = api::GetJobRequest { name: name.clone() };
        let known = client.get_job(request).await.map_err(failed)?;
        if output::is_json() {
            output::answer(&known, |_| {});
            return Ok(());
        }
        let request = api::ListRunsRequest {
            name,
            page_size: 1,
            page_token: String::new(),
        };
        let runs = client.list_runs(request).await.map_err(failed)?;
        show::job(known.job.as_ref(), "");
        show::last_run(runs.runs.first());
        let settings = known.job.as_ref().and_then(|job| job.settings.as_ref());
        settings.into_iter().for_each(show::steps);
        Ok(())
    }

    pub(super) async fn delete(self, server: &Server) -> Result<(), CliError> {
        let what = format!("cannot delete job {}", self.name);
        let said = format!("{}: deleted", self.name);
        let request = api::DeleteJobRequest {
            name: self.name,
            etag: String::new(),
        };
        let client = server.client().await?;
        let going_on = runs_that_go_on(&client, &request.name).await;
        let deleted = client.delete_job(request).await;
        let deleted = deleted.map_err(|error| {
            let failed = CliError::call(what, &error);
            let follower = error.metadata.get("by").map(|by| shell::word(by));
            let failed = failed.naming("FOLLOWER", follower.unwrap_or_default());
            match error.is("JOB_NOT_FOUND") {
                true => failed.next(
                    "if it was deleted before, nothing is left to do; `rallypoint jobs list` \
                     shows the jobs there are",
                ),
                false => failed,
            }
        })?;
        output::answer(&deleted, |_| output::line(said));
        for run in going_on {
            output::note(format!(
                "its run of {due} goes on: `rallypoint jobs cancel-run {} {due}` ends it",
                shell::word(&run.job),
                due = show::due(&run)
            ));
        }
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
        let name = request.name.clone();
        let client = server.client().await?;
        let run = client.run_job(request).await;
        let failed = |error| refused_run(&name, &error, CliError::call(what, &error));
        let mut run = run.map_err(failed)?;
        waiting::explain(&client, run.run.as_mut_slice()).await;
        output::answer(&run, |answer| show::run(answer.run.as_ref()));
        Ok(())
    }
}

/// Says how the run is cancelled that the service names as the one in the way of another, and where
/// the orders of the job stand. The service names no run where something else is in the way, such
/// as an agent that is stopped.
fn refused_run(job: &str, error: &Error, failed: CliError) -> CliError {
    let job = shell::word(job);
    let is_of_order = |(field, _): &(String, String)| field == "from_order";
    match error.metadata.get("due") {
        Some(due) if error.is("JOB_BLOCKED") => failed.next(format!(
            "`rallypoint jobs cancel-run {job} {due}` ends that run"
        )),
        _ if error.violations.iter().any(is_of_order) => failed.next(format!(
            "give --from-order the order of a step, or leave it out: `rallypoint jobs get {job}` \
             lists the steps"
        )),
        _ => failed,
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

impl Backfill {
    pub(super) async fn run(self, server: &Server) -> Result<(), CliError> {
        let what = format!("cannot backfill job {}", self.name);
        let failed = |error: Error| {
            let failed = CliError::call(&what, &error);
            let is_of_until = |(field, _): &(String, String)| field == "until";
            match error.is("JOB_INVALID") && error.violations.iter().any(is_of_until) {
                true => {
                    failed.next("give --until a later time than --from; without --until it is now")
                }
                false => failed,
            }
        };
        let client = server.client().await?;
        let from = job_clock::instant(&client, &self.name, self.from).await?;
        let until = match self.until {
            Some(until) => Some(job_clock::instant(&client, &self.name, until).await?),
            None => None,
        };
        let is_ahead = from > Timestamp::now();
        let request = api::BackfillJobRequest {
            name: self.name,
            from: Some(when::message(from)),
            until: until.map(when::message),
            dry_run: self.dry_run,
        };
        let answer = client.backfill_job(request).await.map_err(failed)?;
        output::answer(&answer, |answer| {
            show::backfilled(answer, self.dry_run, is_ahead);
        });
        Ok(())
    }
}

impl NamedRun {
    pub(super) async fn cancel(self, server: &Server) -> Result<(), CliError> {
        let (client, due) = self.found(server).await?;
        let request = api::CancelRunRequest {
            due: Some(when::message(due)),
            name: self.name.clone(),
        };
        let run = client.cancel_run(request).await;
        let run = run.map_err(|error| self.failed("cancel", due, &error))?;
        output::answer(&run, |answer| show::run(answer.run.as_ref()));
        Ok(())
    }

    pub(super) async fn get(self, server: &Server) -> Result<(), CliError> {
        let (client, due) = self.found(server).await?;
        let request = api::GetRunRequest {
            due: Some(when::message(due)),
            name: self.name.clone(),
        };
        let run = client.get_run(request).await;
        let mut run = run.map_err(|error| self.failed("show", due, &error))?;
        waiting::explain(&client, run.run.as_mut_slice()).await;
        output::answer(&run, |answer| {
            show::run(answer.run.as_ref());
            show::claims(&answer.claims);
        });
        Ok(())
    }

    /// Who knows the run, and its due time.
    async fn found(&self, server: &Server) -> Result<(Client, Timestamp), CliError> {
        let client = server.client().await?;
        let due = job_clock::instant(&client, &self.name, self.due).await?;
        Ok((client, due))
    }

    fn failed(&self, verb: &str, due: Timestamp, error: &Error) -> CliError {
        let due = time_text::exact(Some(&when::message(due)));
        let what = format!("cannot {verb} the run of {due} of job {}", self.name);
        CliError::call(what, error).naming("JOB", shell::word(&self.name))
    }
}

/// The newest runs of a job that a deletion leaves alone: their tasks run. A call that fails is no
/// fault of the command, which only says more by it.
async fn runs_that_go_on(client: &Client, job: &str) -> Vec<api::JobRun> {
    let request = api::ListRunsRequest {
        name: job.to_owned(),
        ..api::ListRunsRequest::default()
    };
    let mut runs = client.list_runs(request).await.unwrap_or_default().runs;
    // A claim ends with its job.
    runs.retain(|run| run.state() == RunState::Running && !run.handle.is_empty());
    runs
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
    note_unreadable(&client).await;
    Ok(())
}

/// Says of jobs that are not fired, as rows of theirs cannot be read. A call that fails is no fault
/// of the command, which has its answer.
async fn note_unreadable(client: &Client) {
    let status = client.status().await.ok();
    let count = status.and_then(|status| status.jobs);
    if let Some(count @ 1..) = count.map(|jobs| jobs.unreadable) {
        output::note(format!(
            "jobs of all namespaces that are not fired, as this version cannot read them, or a run \
             of theirs that may go on: {count}; the log of the owner names them"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Status;

    #[test]
    fn only_the_run_that_the_service_names_is_to_be_cancelled() {
        let mut error = Error::from(Status::failed_precondition("the agent is stopped"));
        error.reason = Some("JOB_BLOCKED".to_owned());
        let said = |error: &Error| {
            let failed = CliError::call("cannot run job a", error);
            format!("{:?}", refused_run("a", error, failed))
        };
        let other = said(&error);
        assert!(
            !other.contains("cancel-run") && other.contains("start-agent"),
            "{other}"
        );
        let due = "2026-11-01T03:00:00Z".to_owned();
        error.metadata.insert("due".to_owned(), due);
        let command = "`rallypoint jobs cancel-run a 2026-11-01T03:00:00Z` ends that run";
        assert!(said(&error).contains(command));
    }
}
