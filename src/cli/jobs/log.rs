//! `jobs log`: the tasks of a run, the last one or that of a due time.

use super::{job_clock, show};
use crate::cli::{
    connect::Server,
    error::CliError,
    filter,
    number::whole,
    output, shell, tasks, time_text,
    when::{self, When},
};
use clap::Args;
use jiff::Timestamp;
use rallypoint_client::{
    Client,
    api::{
        GetRunRequest, JobRun, ListRunsRequest, ListTasksRequest, ListTasksResponse, TaskFilter,
    },
};

/// Due times of a page, newest first.
const PAGE_SIZE: i32 = 1_000;

/// Arguments of `jobs log`.
#[derive(Args, Debug)]
pub(super) struct Log {
    /// Its name
    name: String,
    /// The due time of the run, as `jobs runs` shows it [default: the last run that has begun]
    due: Option<When>,
    /// Only tasks that failed, timed out or were exhausted
    #[arg(long)]
    failed: bool,
    /// Number of tasks, the newest ones
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = whole::<usize>(1..))]
    limit: usize,
}

impl Log {
    pub(super) async fn run(self, server: &Server) -> Result<(), CliError> {
        let client = server.client().await?;
        let found = match self.due {
            Some(due) => {
                let due = job_clock::instant(&client, &self.name, due).await?;
                self.of(&client, due).await?
            }
            None => self.last(&client).await?,
        };
        let list = match found.as_ref().filter(|run| !run.handle.is_empty()) {
            Some(run) => {
                let scheduler = client.scheduler(&run.handle);
                let filter = self.failed.then(|| TaskFilter {
                    outcomes: filter::failures(),
                    ..TaskFilter::default()
                });
                let query = ListTasksRequest {
                    filter,
                    ..ListTasksRequest::default()
                };
                tasks::read(&scheduler, query, self.limit).await?
            }
            None => ListTasksResponse::default(),
        };
        output::answer(&list, |list| {
            show::run(found.as_ref());
            if !list.tasks.is_empty() {
                tasks::print(&list.tasks);
            }
        });
        self.note(found.as_ref(), &list);
        Ok(())
    }

    /// What the tasks do not show.
    fn note(&self, run: Option<&JobRun>, list: &ListTasksResponse) {
        match run {
            None => output::note(format!("no run of {} has begun yet", self.name)),
            Some(run) if is_claimed(run) => output::note(format!(
                "a program does its work, so it has no tasks here: `rallypoint jobs get-run {} {}`",
                shell::word(&run.job),
                show::due(run)
            )),
            Some(run) if run.handle.is_empty() => {
                output::note("it has no tasks: no scheduler was opened for it");
            }
            Some(run) if run.attempt > 1 => output::note(format!(
                "the tasks of attempt {}; the schedulers of all attempts: \
                 `rallypoint list --label {} --label due={}`",
                run.attempt,
                shell::word(&format!("job={}", run.job)),
                show::due(run)
            )),
            Some(_) => {}
        }
        if !list.next_page_token.is_empty() {
            output::note("older tasks are not shown: see --limit");
        }
    }

    async fn of(&self, client: &Client, due: Timestamp) -> Result<Option<JobRun>, CliError> {
        let due = when::message(due);
        let shown = time_text::exact(Some(&due));
        let what = format!("cannot show the run of {shown} of job {}", self.name);
        let request = GetRunRequest {
            name: self.name.clone(),
            due: Some(due),
        };
        let run = client.get_run(request).await;
        run.map(|answer| answer.run)
            .map_err(|error| CliError::call(what, &error).naming("JOB", shell::word(&self.name)))
    }

    /// The newest run that has begun.
    async fn last(&self, client: &Client) -> Result<Option<JobRun>, CliError> {
        let mut request = ListRunsRequest {
            name: self.name.clone(),
            page_size: PAGE_SIZE,
            page_token: String::new(),
        };
        loop {
            let page = client.list_runs(request.clone()).await;
            let page = page.map_err(|error| {
                CliError::call(format!("cannot list runs of job {}", self.name), &error)
            })?;
            let mut runs = page.runs.into_iter();
            let begun = runs.find(|run| !run.handle.is_empty() || is_claimed(run));
            request.page_token = page.next_page_token;
            if begun.is_some() || request.page_token.is_empty() {
                return Ok(begun);
            }
        }
    }
}

/// Whether a program does the run: it has begun, and no scheduler was opened for it.
fn is_claimed(run: &JobRun) -> bool {
    run.handle.is_empty() && run.started_at.is_some()
}
