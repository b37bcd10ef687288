//! `cancel HANDLE SEQ`: cancels one task. `cancel HANDLE --order N …`: cancels the unfinished tasks
//! that meet conditions, page by page, after a count where a person can be asked.

use super::{
    confirm::Confirm,
    connect::Server,
    enum_text,
    error::CliError,
    filter::{AsOfNow, AsSubmitted},
    output, plural, shell,
    task_name::TaskWords,
};
use clap::Args;
use rallypoint_client::{
    Scheduler,
    api::{CancelTasksRequest, CancelTasksResponse, Outcome, TaskFilter, TaskState},
};
use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

/// Time between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Arguments of `cancel`.
#[derive(Args, Debug)]
pub(super) struct Cancel {
    #[command(flatten)]
    task: TaskWords,
    /// All tasks of the scheduler that have not ended
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    submitted: AsSubmitted,
    #[command(flatten)]
    now: AsOfNow,
    /// Say how many tasks that would be, and cancel none
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    confirm: Confirm,
}

impl Cancel {
    /// Cancels the task or the tasks, and prints the result.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let mut filter = TaskFilter::default();
        self.submitted.add_to(&mut filter);
        self.now.add_to(&mut filter);
        let has_conditions = filter != TaskFilter::default() || self.all;
        match self.task.scheduler() {
            Some(handle) if has_conditions => {
                let scheduler = server.scheduler(handle).await?;
                self.cancel_all(&scheduler, filter).await?;
            }
            Some(_) => {
                return Err(CliError::usage("which tasks are to be cancelled?")
                    .next("name one by its number, or all by conditions like --order, or --all"));
            }
            None if has_conditions => {
                return Err(CliError::usage("one task is named, and conditions besides")
                    .next("leave out the number of the task, or the conditions"));
            }
            None if self.dry_run => {
                let what = "--dry-run counts the tasks that meet conditions, and one task is named";
                return Err(CliError::usage(what)
                    .next("leave out --dry-run, or name conditions in place of the task"));
            }
            None => self.cancel_one(server).await?,
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn cancel_one(&self, server: &Server) -> Result<(), CliError> {
        let task = self.task.task()?;
        let what = format!("cannot cancel task {task}");
        let scheduler = server.scheduler(&task.handle).await?;
        let answer = scheduler.cancel(task.seq).await;
        let failed =
            |error| CliError::call(what, &error).naming("HANDLE", shell::word(&task.handle));
        let answer = answer.map_err(failed)?;
        output::answer(&answer, |answer| {
            output::line(match answer.state() {
                TaskState::Done if answer.outcome() != Outcome::Cancelled => {
                    let outcome = enum_text::outcome(answer.outcome());
                    format!("nothing to cancel: task {task} had ended before, {outcome}")
                }
                TaskState::Done => format!("task {task} is cancelled"),
                _ => "running, and being stopped".to_owned(),
            })
        });
        Ok(())
    }

    async fn cancel_all(&self, scheduler: &Scheduler, filter: TaskFilter) -> Result<(), CliError> {
        let mut request = CancelTasksRequest {
            filter: Some(filter),
            dry_run: self.dry_run,
            ..Default::default()
        };
        let mut total = None;
        if self.confirm.is_needed() && !self.dry_run {
            let count = CancelTasksRequest {
                dry_run: true,
                ..request.clone()
            };
            let counted = every_page(scheduler, count, None).await?;
            // What is submitted after the count is not part of it.
            if tasks(&counted) == 0 {
                output::answer(&counted, |_| output::line("nothing to cancel"));
                return Ok(());
            }
            request.last_seq = Some(counted.last_seq);
            self.confirm.ask(&question(&counted, scheduler)).await?;
            total = Some(tasks(&counted));
        }
        let answer = every_page(scheduler, request, total).await?;
        output::answer(&answer, |answer| {
            output::line(match self.dry_run {
                true => format!(
                    "tasks to cancel: {} that wait, {} that run",
                    answer.waiting, answer.running
                ),
                false => format!(
                    "tasks cancelled: {} that waited, {} that run and are being stopped",
                    answer.waiting, answer.running
                ),
            });
        });
        Ok(())
    }
}

/// Makes the call until there are no more pages. The counts of all of them, as one answer.
async fn every_page(
    scheduler: &Scheduler,
    mut request: CancelTasksRequest,
    total: Option<i64>,
) -> Result<CancelTasksResponse, CliError> {
    let mut sum = CancelTasksResponse::default();
    let mut noted = Instant::now();
    loop {
        let page = scheduler.cancel_tasks(request.clone()).await;
        let page = page.map_err(|error| failure(scheduler, &request, &sum, &error))?;
        sum.waiting += page.waiting;
        sum.running += page.running;
        sum.last_seq = page.last_seq;
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return Ok(sum);
        }
        if noted.elapsed() >= PROGRESS_INTERVAL {
            noted = Instant::now();
            let of = total.map_or(String::new(), |total| format!(" of {total}"));
            let done = if request.dry_run {
                "counted"
            } else {
                "cancelled"
            };
            output::note(format!("{}{of} tasks {done}", tasks(&sum)));
        }
    }
}

fn failure(
    scheduler: &Scheduler,
    request: &CancelTasksRequest,
    sum: &CancelTasksResponse,
    error: &rallypoint_client::Error,
) -> CliError {
    let error = CliError::call(
        format!("cannot cancel tasks of {}", scheduler.handle()),
        error,
    );
    match tasks(sum) {
        0 => error,
        _ if request.dry_run => error,
        done => error
            .why(plural::with_verb(
                done,
                ["task was cancelled before", "tasks were cancelled before"],
            ))
            .repeatable(),
    }
}

fn tasks(answer: &CancelTasksResponse) -> i64 {
    answer.waiting + answer.running
}

fn question(counted: &CancelTasksResponse, scheduler: &Scheduler) -> String {
    format!(
        "This cancels {} and stops {} of {}. Go on?",
        plural::count(counted.waiting, "waiting task"),
        plural::count(counted.running, "running task"),
        scheduler.handle()
    )
}
