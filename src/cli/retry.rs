//! `retry HANDLE SEQ…` and `retry HANDLE --failed`: submits tasks once more that ended in vain.

use super::{
    connect::Server,
    error::CliError,
    filter::{AsEnded, AsSubmitted},
    output,
    submit_calls::SUBMIT_TIMEOUT,
    task_name,
};
use clap::Args;
use rallypoint_client::{Scheduler, api};
use std::process::ExitCode;

/// Arguments of `retry`.
#[derive(Args, Debug)]
pub(super) struct Retry {
    /// The scheduler: its handle or its name; HANDLE/SEQ is a task of it
    handle: String,
    /// Numbers of tasks, or HANDLE/SEQ
    #[arg(conflicts_with_all = ["failed", "AsSubmitted", "AsEnded"])]
    seq: Vec<String>,
    /// All that failed, timed out or were exhausted and have no retry yet
    #[arg(long)]
    failed: bool,
    /// What the retry of one task runs instead, when its statement was wrong
    #[arg(long, value_name = "SQL", conflicts_with = "failed")]
    statement: Option<String>,
    #[command(flatten)]
    submitted: AsSubmitted,
    #[command(flatten)]
    ended: AsEnded,
}

impl Retry {
    /// Retries the tasks, and prints each with its retry.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let (handle, tasks) = task_name::tasks(&self.handle, &self.seq)?;
        if tasks.is_empty() != self.failed {
            return Err(CliError::usage("which tasks are to be retried?")
                .next("name tasks by their numbers, or all that failed by --failed"));
        }
        if self.statement.is_some() && tasks.len() != 1 {
            return Err(CliError::usage("--statement is for one task")
                .next("retry tasks one by one, each with its statement"));
        }
        let scheduler = server.scheduler(&handle).await?;
        match self.failed {
            true => self.all_failed(&scheduler).await?,
            false => self.named(&scheduler, &tasks).await?,
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn named(&self, scheduler: &Scheduler, tasks: &[i64]) -> Result<(), CliError> {
        for seq in tasks {
            let what = format!("cannot retry task {}/{seq}", scheduler.handle());
            let answer = match &self.statement {
                None => scheduler.retry(*seq).await,
                Some(statement) => {
                    let sql = api::SqlTask {
                        statement: statement.clone(),
                        ..Default::default()
                    };
                    scheduler.retry_as(*seq, sql).await
                }
            };
            let answer = answer.map_err(|error| CliError::call(what, &error))?;
            let before = if answer.already_retried {
                " before"
            } else {
                ""
            };
            output::answer(&answer, |answer| {
                let retry = answer.seq;
                output::line(format!("task {seq} was retried{before} as task {retry}"));
            });
        }
        Ok(())
    }

    async fn all_failed(&self, scheduler: &Scheduler) -> Result<(), CliError> {
        let scheduler = scheduler.clone().with_time_limit(None);
        let scheduler = scheduler.with_retry_timeout(SUBMIT_TIMEOUT);
        let (mut page_token, mut count) = (String::new(), 0);
        let mut filter = api::TaskFilter::default();
        self.submitted.add_to(&mut filter);
        self.ended.add_to(&mut filter);
        loop {
            let answer = scheduler.retry_failed(Some(filter.clone()), page_token);
            let answer = answer.await;
            let what = format!("cannot retry the failed tasks of {}", self.handle);
            let answer = answer.map_err(|error| {
                let done = (count > 0).then(|| format!("{count} tasks were retried before"));
                let error = CliError::call(what, &error);
                done.into_iter().fold(error, CliError::why)
            })?;
            output::answer(&answer, |answer| {
                let first = answer.first_seq.unwrap_or_default();
                for (seq, retry) in answer.retried.iter().zip(first..) {
                    output::line(format!("task {seq} was retried as task {retry}"));
                }
            });
            count += answer.retried.len();
            page_token = answer.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        if !output::is_json() {
            let tasks = if count == 1 { "task" } else { "tasks" };
            output::note(format!("{count} {tasks} retried"));
        }
        Ok(())
    }
}
