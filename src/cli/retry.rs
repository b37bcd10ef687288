//! `retry HANDLE SEQ…` and `retry HANDLE --failed`: submits tasks once more that ended in vain.

use super::{
    connect::Server,
    enum_text,
    error::CliError,
    exec::{refuse_file, sql_value},
    filter::{AsEnded, AsSubmitted},
    output, plural, shell,
    submit_calls::SUBMIT_TIMEOUT,
    task_name::{self, TaskName},
};
use clap::Args;
use rallypoint_client::{Scheduler, api};
use std::{collections::HashMap, process::ExitCode};

/// Arguments of `retry`.
#[derive(Args, Debug)]
pub(super) struct Retry {
    /// The scheduler: its handle or its name; HANDLE/SEQ is a task of it
    handle: String,
    /// Numbers of tasks, or HANDLE/SEQ
    #[arg(conflicts_with_all = ["order", "labels", "outcomes", "error_codes"])]
    seq: Vec<String>,
    /// All that failed, timed out or were exhausted and have no retry yet
    #[arg(long)]
    failed: bool,
    /// What the retry of one task runs instead, when its statement was wrong
    #[arg(long, value_name = "SQL", conflicts_with = "failed")]
    statement: Option<String>,
    /// Value of $1, then of $2 … in --statement (may be repeated; \N: NULL) [default: those of the
    /// task]
    #[arg(long = "param", value_name = "VALUE", requires = "statement")]
    #[arg(allow_hyphen_values = true)]
    params: Vec<String>,
    /// --statement has no parameters, though the task had some
    #[arg(long, requires = "statement", conflicts_with = "params")]
    no_params: bool,
    /// Name of the target of --statement [default: that of the task]
    #[arg(long, value_name = "NAME", requires = "statement")]
    #[arg(hide_default_value = true, default_value = "")]
    target: String,
    #[command(flatten)]
    submitted: AsSubmitted,
    #[command(flatten)]
    ended: AsEnded,
}

impl Retry {
    /// Retries the tasks, and prints each with its retry.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let (handle, tasks) = task_name::tasks(&self.handle, &self.seq)?;
        if let (true, Some(first)) = (self.failed, tasks.first()) {
            let handle = shell::word(&handle);
            return Err(CliError::usage(
                "--failed is for all tasks that failed, and a task is named",
            )
            .next(format!(
                "`rallypoint retry {handle} {first}` retries that task, `rallypoint retry \
                     {handle} --failed` all that failed"
            )));
        }
        if tasks.is_empty() != self.failed {
            return Err(CliError::usage("which tasks are to be retried?").next(
                "name tasks by their numbers, or all that failed by --failed, of which \
                     --order, --label, --outcome and --error-code choose some",
            ));
        }
        if let Some(statement) = &self.statement {
            if tasks.len() != 1 {
                return Err(CliError::usage("--statement is for one task")
                    .next("retry tasks one by one, each with its statement"));
            }
            let next = "give the SQL itself: `--statement \"$(cat FILE)\"`";
            refuse_file(statement).map_err(|error| error.next(next))?;
        }
        let scheduler = server.scheduler(&handle).await?;
        match self.failed {
            true => self.all_failed(&scheduler).await?,
            false => self.named(&scheduler, &tasks).await?,
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn named(&self, scheduler: &Scheduler, tasks: &[i64]) -> Result<(), CliError> {
        if tasks.len() > 1 {
            self.check(scheduler, tasks).await?;
        }
        for (before, seq) in tasks.iter().enumerate() {
            let retried = self.one(scheduler, *seq).await;
            let rest = &tasks[before + 1..];
            retried.map_err(|error| self.stopped(error, before, rest))?;
        }
        Ok(())
    }

    /// Refuses several tasks before the first one is retried, if one of them is not there or has
    /// succeeded: a number may also be that of a retry which is still to be made.
    async fn check(&self, scheduler: &Scheduler, tasks: &[i64]) -> Result<(), CliError> {
        for seq in tasks {
            let what = format!("cannot retry task {}/{seq}", scheduler.handle());
            let task = scheduler.task(*seq).await;
            let task = task.map_err(|error| {
                CliError::call(&what, &error)
                    .naming("HANDLE", self.word())
                    .why("none was retried")
            })?;
            let outcome = task.done.as_ref().map(api::AsyncDone::outcome);
            if outcome == Some(api::Outcome::Succeeded) {
                return Err(CliError::new(what)
                    .why("it has succeeded; none was retried")
                    .next("leave it out"));
            }
        }
        Ok(())
    }

    /// The error of one of several tasks, behind which the command stops: how far it came, and how
    /// the rest is retried.
    fn stopped(&self, error: CliError, before: usize, rest: &[i64]) -> CliError {
        if error.may_pass() || error.has_effect() {
            return done_before(error, before);
        }
        // Repeated, the command would stop at the same task.
        let error = match before {
            0 => error,
            _ => retried_before(error, before).with_effect(),
        };
        let numbers: Vec<String> = rest.iter().map(i64::to_string).collect();
        match rest.is_empty() || !concerns_one_task(&error) {
            true => error,
            false => error.then(&format!(
                "retry the others: `rallypoint retry {} {}`",
                self.word(),
                numbers.join(" ")
            )),
        }
    }

    async fn one(&self, scheduler: &Scheduler, seq: i64) -> Result<(), CliError> {
        let what = || format!("cannot retry task {}/{seq}", scheduler.handle());
        let answer = scheduler.retry_task(seq, self.request()).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                let failed = CliError::call(what(), &error);
                return Err(refused(scheduler, &self.word(), seq, failed).await);
            }
        };
        let before = if answer.already_retried {
            " before"
        } else {
            ""
        };
        output::step(&answer, |answer| {
            let retry = answer.seq;
            vec![format!("task {seq} was retried{before} as task {retry}")]
        });
        if !answer.already_retried {
            return Ok(());
        }
        let (last, task) = last_retry(scheduler, answer.seq).await?;
        let outcome = task.done.as_ref().map(api::AsyncDone::outcome);
        match outcome.filter(|outcome| *outcome != api::Outcome::Succeeded) {
            Some(outcome) => Err(CliError::new(what())
                .why(format!(
                    "its retry, task {last}, ended as well: {}",
                    enum_text::outcome(outcome)
                ))
                .next(format!(
                    "retry that one: `rallypoint retry {} {last}`",
                    self.word()
                ))),
            None => Ok(()),
        }
    }

    /// What the service is asked for.
    fn request(&self) -> api::RetryTaskRequest {
        let sql = |statement: &String| api::SqlTask {
            statement: statement.clone(),
            params: self.params.iter().map(|text| sql_value(text)).collect(),
            target: self.target.clone(),
        };
        api::RetryTaskRequest {
            sql: self.statement.as_ref().map(sql),
            no_params: self.no_params,
            ..Default::default()
        }
    }

    /// The error where some tasks were left out, the first of which is this one.
    fn without_target(&self, first: i64, count: usize) -> CliError {
        let tasks = plural::count(count, "task");
        let what = format!("{tasks} of {} not retried", self.handle);
        let next = format!(
            "add the target, or run each on another one: `rallypoint retry {} {first} \
             --statement SQL --target NAME`",
            self.word()
        );
        CliError::new(what)
            .why(format!(
                "the target is no longer configured: task {first}, …"
            ))
            .next(next)
            .with_effect()
    }

    /// The scheduler as commands name it.
    fn word(&self) -> String {
        let task = self.handle.parse::<TaskName>();
        shell::word(task.as_ref().map_or(&self.handle, |task| &task.handle))
    }

    async fn all_failed(&self, scheduler: &Scheduler) -> Result<(), CliError> {
        let scheduler = scheduler.clone().with_time_limit(None);
        let scheduler = scheduler.with_retry_timeout(SUBMIT_TIMEOUT);
        let (mut page_token, mut count) = (String::new(), 0);
        let mut no_target = Vec::new();
        let mut filter = api::TaskFilter::default();
        self.submitted.add_to(&mut filter);
        self.ended.add_to(&mut filter);
        loop {
            let answer = scheduler.retry_failed(Some(filter.clone()), page_token);
            let answer = match answer.await {
                Ok(answer) => answer,
                Err(error) => {
                    let what = format!("cannot retry the failed tasks of {}", self.handle);
                    let failed = of_job(&scheduler, CliError::call(what, &error)).await;
                    return Err(done_before(failed, count));
                }
            };
            output::step(&answer, |answer| {
                let first = answer.first_seq.unwrap_or_default();
                let retried = answer.retried.iter().zip(first..);
                retried
                    .map(|(seq, retry)| format!("task {seq} was retried as task {retry}"))
                    .collect()
            });
            count += answer.retried.len();
            no_target.extend(answer.no_target);
            page_token = answer.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        if !output::is_json() {
            output::note(format!("{} retried", plural::count(count, "task")));
        }
        match &no_target[..] {
            [] => Ok(()),
            [first, ..] => Err(self.without_target(*first, no_target.len())),
        }
    }
}

/// The error of a refused retry, with the state of the task, or of its last retry. `word`: what
/// commands call the scheduler.
async fn refused(scheduler: &Scheduler, word: &str, seq: i64, failed: CliError) -> CliError {
    let is_retried = failed.is("ALREADY_RETRIED");
    if !is_retried && !failed.is("TASK_UNFINISHED") {
        return of_job(scheduler, failed.naming("HANDLE", word)).await;
    }
    let Ok((last, task)) = last_retry(scheduler, seq).await else {
        return failed.naming("HANDLE", word);
    };
    let state = enum_text::state(&task);
    // In this order: a scheduler may be called SEQ.
    let failed = failed.naming("SEQ", last).naming("HANDLE", word);
    let failed = failed.why(format!("state of task {last}: {state}"));
    match task.done.as_ref().map(api::AsyncDone::outcome) {
        None if is_retried => failed.next(format!(
            "wait until that one has ended: `rallypoint wait {word}`; if it fails, retry it"
        )),
        None if has_not_begun(&task) => failed.next(waits_for(scheduler, word, seq).await),
        Some(api::Outcome::Succeeded) => {
            failed.next("nothing is left to retry: submit another statement with `rallypoint exec`")
        }
        _ => failed,
    }
}

/// Whether the task waits for its first attempt.
fn has_not_begun(task: &api::TaskView) -> bool {
    matches!(
        task.state(),
        api::TaskState::Blocked | api::TaskState::Queued
    )
}

/// What to do with a task that has not run, in the place of a retry. Nothing says that it will end
/// by itself.
async fn waits_for(scheduler: &Scheduler, word: &str, seq: i64) -> String {
    let explain =
        format!("it has not run yet: `rallypoint explain {word} {seq}` says what it waits for");
    let described = scheduler.describe().await;
    match described.ok().and_then(|scheduler| scheduler.halt) {
        Some(halt) if halt.failures.is_some() => {
            format!("{explain}; `rallypoint retry {word} --failed` repeats what halts it")
        }
        _ => explain,
    }
}

/// The error of a retry; with another next step if a run of a job has opened the scheduler, and has
/// released it at its end.
async fn of_job(scheduler: &Scheduler, failed: CliError) -> CliError {
    if !failed.is("HANDLE_RELEASED") {
        return failed;
    }
    let settings = scheduler.describe().await.ok().and_then(|it| it.settings);
    match settings.as_ref().and_then(|it| job_of_run(&it.labels)) {
        Some(job) => failed.next(format!(
            "it belongs to a run of job {job}, whose tasks are not retried one by one: when \
             `rallypoint jobs runs {word}` shows that the run is over, `rallypoint jobs run {word}` \
             runs the job again; with --from-order N without the steps of lower orders",
            word = shell::word(job)
        )),
        None => failed,
    }
}

/// The job whose run has opened a scheduler with these labels. The tasks of `on_failure` are no
/// run.
fn job_of_run(labels: &HashMap<String, String>) -> Option<&str> {
    let is_run = labels.contains_key("due") && !labels.contains_key("on_failure");
    labels.get("job").filter(|_| is_run).map(String::as_str)
}

/// Whether other tasks of the scheduler may be retried all the same.
fn concerns_one_task(error: &CliError) -> bool {
    let reasons = [
        "TASK_NOT_FOUND",
        "TASK_SUCCEEDED",
        "TASK_UNFINISHED",
        "TARGET_UNKNOWN",
        "ALREADY_RETRIED",
    ];
    error.is_own() || reasons.iter().any(|reason| error.is(reason))
}

/// The error of a command that has retried so many tasks before.
fn done_before(error: CliError, count: usize) -> CliError {
    match count {
        0 => error,
        _ => retried_before(error, count).repeatable(),
    }
}

fn retried_before(error: CliError, count: usize) -> CliError {
    error.why(plural::with_verb(
        count,
        ["task was retried before", "tasks were retried before"],
    ))
}

/// The last retry in the line that begins with this task, by its number.
async fn last_retry(scheduler: &Scheduler, mut seq: i64) -> Result<(i64, api::TaskView), CliError> {
    loop {
        let what = || format!("cannot see how task {}/{seq} ended", scheduler.handle());
        let task = scheduler.task(seq).await;
        let task = task.map_err(|error| CliError::call(what(), &error))?;
        match task.retried_as {
            Some(next) => seq = next,
            None => return Ok((seq, task)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_of_a_run_is_known_by_its_labels() {
        let job = |labels: &[&str]| {
            let labels = labels.iter().map(|key| (key.to_string(), "a".to_owned()));
            job_of_run(&labels.collect()).map(str::to_owned)
        };
        assert_eq!(job(&["job", "due"]).as_deref(), Some("a"));
        for other in [&["job"][..], &["due"], &[], &["job", "due", "on_failure"]] {
            assert_eq!(job(other), None);
        }
    }
}
