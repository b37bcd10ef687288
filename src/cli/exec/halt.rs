//! The failures that halt a scheduler, for whom they were not printed: others have met them.

use super::task_option::titled;
use crate::cli::{async_done, filter, plural, terminal_text::plain};
use rallypoint_client::{
    Result, Scheduler,
    api::{ListTasksRequest, TaskFilter, TaskView},
};

/// Failures that are said one by one.
const MOST_SAID: usize = 3;
/// Failures that are read, the last ones: a halt names up to a hundred.
const READ: i32 = 100;

/// A sentence about each failure that halts the scheduler now, but for tasks that are known. `None`
/// if the scheduler is not halted, or does not answer: this only adds to what is said.
pub(super) async fn failures(
    scheduler: &Scheduler,
    is_known: impl Fn(i64) -> bool,
) -> Option<Vec<String>> {
    let halt = scheduler.describe().await.ok()?.halt?;
    let mut unknown = halt.failed_seqs;
    unknown.retain(|seq| !is_known(*seq));
    if unknown.is_empty() {
        return Some(Vec::new());
    }
    let failed = failed(scheduler).await.unwrap_or_default();
    let said = failed.iter().filter_map(|task| sentence(task, &unknown));
    let mut said: Vec<String> = said.take(MOST_SAID).collect();
    let rest = unknown.len() - said.len();
    let more = [
        "more task has failed before",
        "more tasks have failed before",
    ];
    said.extend((rest > 0).then(|| plural::with_verb(rest, more)));
    Some(said)
}

/// Failed tasks, in the order of their numbers.
async fn failed(scheduler: &Scheduler) -> Result<Vec<TaskView>> {
    let request = ListTasksRequest {
        page_size: READ,
        filter: Some(TaskFilter {
            outcomes: filter::failures(),
            ..TaskFilter::default()
        }),
        ..ListTasksRequest::default()
    };
    let mut tasks = scheduler.tasks(request).await?.tasks;
    tasks.sort_by_key(|task| task.id.as_ref().map(|id| id.seq));
    Ok(tasks)
}

/// About a task, if it is one of these.
fn sentence(task: &TaskView, these: &[i64]) -> Option<String> {
    let seq = task.id.as_ref()?.seq;
    let error = task.done.as_ref()?.error.as_ref()?;
    let options = task.task.as_ref()?.options.clone().unwrap_or_default();
    let title = titled(&options, &task.statement_preview);
    let why = async_done::why(error, task.retry_of.is_some());
    let said = || format!("task {seq} has failed before: {why}  — {}", plain(&title));
    these.contains(&seq).then(said)
}
