//! `tasks HANDLE`: the tasks of a scheduler, which are its log.

use super::{
    async_done, connect::Server, enum_text, error::CliError, exec, filter::TaskConditions,
    number::whole, output, plural, table::Table, time_text,
};
use clap::Args;
use rallypoint_client::{
    Scheduler,
    api::{ListTasksRequest, ListTasksResponse, TaskView},
};
use std::process::ExitCode;

/// Tasks per page.
const PAGE_SIZE: i32 = 1000;

/// Arguments of `tasks`.
#[derive(Args, Debug)]
pub(super) struct Tasks {
    /// The scheduler: its handle or its name
    handle: String,
    #[command(flatten)]
    conditions: TaskConditions,
    /// Number of tasks, the newest ones
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = whole::<usize>(1..))]
    limit: usize,
}

impl Tasks {
    /// Reads the tasks and prints them, oldest first.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let scheduler = server.scheduler(&self.handle).await?;
        let query = ListTasksRequest {
            filter: Some(self.conditions.filter()),
            ..ListTasksRequest::default()
        };
        let list = read(&scheduler, query, self.limit).await?;
        output::answer(&list, |list| print(&list.tasks));
        if !list.next_page_token.is_empty() {
            output::note("older tasks are not shown: see --limit");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The newest `limit` tasks, oldest first, with a token when there are older ones.
pub(super) async fn read(
    scheduler: &Scheduler,
    mut query: ListTasksRequest,
    limit: usize,
) -> Result<ListTasksResponse, CliError> {
    let mut tasks = Vec::new();
    loop {
        query.page_size = i32::try_from(limit - tasks.len())
            .unwrap_or(PAGE_SIZE)
            .clamp(1, PAGE_SIZE);
        let page = scheduler.tasks(query.clone()).await;
        let page = page.map_err(|error| {
            CliError::call(
                format!("cannot list the tasks of {}", scheduler.handle()),
                &error,
            )
        })?;
        tasks.extend(page.tasks);
        query.page_token = page.next_page_token;
        if query.page_token.is_empty() || tasks.len() >= limit {
            break;
        }
    }
    tasks.truncate(limit);
    tasks.reverse();
    Ok(ListTasksResponse {
        tasks,
        next_page_token: query.page_token,
    })
}

/// Prints the tasks as a table. Times are relative to the first submission, which is printed above.
pub(super) fn print(tasks: &[TaskView]) {
    let Some(zero) = tasks
        .iter()
        .map(|task| time_text::micros(task.submitted_at.as_ref()))
        .min()
    else {
        return output::line("no tasks");
    };
    let since = format!("times are seconds since {}", time_text::time(zero));
    output::styled(since, output::DIM);
    // Of failures alone one wants to know why, rather than when.
    let mut table = Table::new(match tasks.iter().all(has_failed) {
        true => &FAILURES,
        false => &COLUMNS,
    });
    for task in tasks {
        table.row(row(task, zero));
    }
    table.print();
}

/// Columns of tasks.
const COLUMNS: [&str; 11] = [
    ">task",
    ">order",
    "state",
    "?>try",
    "?>queued",
    ">started",
    "?>ended",
    ">took",
    "?submitted by",
    "~remark",
    "~statement",
];

/// The same of tasks that have all failed.
const FAILURES: [&str; 11] = [
    ">task",
    ">order",
    "state",
    "?>try",
    "?>queued",
    "?>started",
    "?>ended",
    "?>took",
    "?submitted by",
    "~~remark",
    "~~statement",
];

fn row(task: &TaskView, zero: i64) -> [String; 11] {
    let done = task.done.clone().unwrap_or_default();
    let (started, ended) = span(task);
    [
        task.id.as_ref().map_or(0, |id| id.seq).to_string(),
        enum_text::order(task.effective_order),
        enum_text::state(task).to_owned(),
        task.attempt.to_string(),
        since(zero, time_text::micros(task.submitted_at.as_ref())),
        since(zero, started),
        since(zero, ended),
        if started > 0 && ended > 0 {
            time_text::duration(async_done::run_time_us(&done))
        } else {
            "-".to_owned()
        },
        enum_text::submitted_by(task.submitted_by.as_ref()),
        remark(task),
        title(task),
    ]
}

/// Why it failed is known.
fn has_failed(task: &TaskView) -> bool {
    task.done.as_ref().is_some_and(|done| done.error.is_some())
}

/// The name of a task, if it has one.
pub(super) fn name(task: &TaskView) -> Option<&str> {
    let options = task.task.as_ref()?.options.as_ref()?;
    exec::name_of(options)
}

/// What a person calls a task: its name if it has one, and how its statement begins.
pub(super) fn title(task: &TaskView) -> String {
    let options = task.task.as_ref().and_then(|task| task.options.clone());
    exec::titled(&options.unwrap_or_default(), &task.statement_preview)
}

/// Start and end of a task's last attempt in microseconds; 0: not yet.
pub(super) fn span(task: &TaskView) -> (i64, i64) {
    match &task.done {
        Some(done) => (done.started_us, done.ended_us),
        None => (time_text::micros(task.started_at.as_ref()), 0),
    }
}

fn since(zero: i64, us: i64) -> String {
    if us == 0 {
        "-".to_owned()
    } else {
        format!("+{:.3}", time_text::seconds(us - zero))
    }
}

fn remark(task: &TaskView) -> String {
    let of = task.retry_of.map(|of| format!("retry of {of}"));
    let as_ = task.retried_as.map(|retry| format!("retried as {retry}"));
    let said = Some(ending(task)).filter(|said| !said.is_empty());
    let parts: Vec<String> = [of, as_, said].into_iter().flatten().collect();
    parts.join("; ")
}

fn ending(task: &TaskView) -> String {
    if let Some(error) = task.done.as_ref().and_then(|done| done.error.as_ref()) {
        return async_done::why(error, task.retry_of.is_some());
    }
    let result = task.done.as_ref().and_then(|done| done.result.as_ref());
    match (result, time_text::micros(task.next_attempt_at.as_ref())) {
        (Some(result), _) => plural::count(result.rows_affected, "row"),
        (None, 0) => String::new(),
        (None, next) => format!("next at {}", time_text::time(next)),
    }
}
