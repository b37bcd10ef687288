//! Submits any number of tasks in calls that stay within the limits of the service.

use super::{error::CliError, outage_note::OutageNote};
use crate::core::model::limits;
use prost::Message;
use rallypoint_client::{
    Scheduler,
    api::{ExecAsyncResponse, Task},
};
use std::{ops::ControlFlow, time::Duration};

/// Bytes of tasks per call, which leaves space for the rest of the message.
const CALL_BYTES: usize = limits::CALL_BYTES - (64 << 10);
/// How long a call is repeated: a full queue has room again only when tasks have ended.
pub(super) const SUBMIT_TIMEOUT: Duration = Duration::from_secs(300);

/// Submits tasks in as many calls as they need, as long as `submitted` says to go on. The tasks
/// must be in ascending order, since a later call must not have a lower order than an earlier one.
/// `say`: what keeps a call waiting. An error without an effect: nothing was submitted.
pub(super) async fn submit(
    scheduler: &Scheduler,
    tasks: Vec<Task>,
    say: impl Fn(String),
    mut submitted: impl FnMut(&ExecAsyncResponse) -> ControlFlow<()>,
) -> Result<(), CliError> {
    // The time limit of a call is for servers that do not answer, and a full queue is an answer.
    let scheduler = scheduler.clone().with_time_limit(None);
    let scheduler = scheduler.with_retry_timeout(SUBMIT_TIMEOUT);
    let mut outage = OutageNote::of(scheduler.outage());
    let mut before = 0;
    for call in calls(tasks) {
        let count = call.len();
        let answer = outage.beside(scheduler.exec(call), &say).await;
        let answer = answer.map_err(|error| {
            let error = CliError::call("cannot submit the tasks", &error).behind(before);
            match before {
                0 => error,
                _ => error.with_effect(),
            }
        })?;
        before += count;
        if submitted(&answer).is_break() {
            break;
        }
    }
    Ok(())
}

/// Whether these tasks are submitted in one call.
pub(super) fn is_one_call(tasks: &[Task]) -> bool {
    calls(tasks.to_vec()).len() <= 1
}

/// Splits tasks into calls that stay within the limits of the service.
fn calls(tasks: Vec<Task>) -> Vec<Vec<Task>> {
    let mut calls: Vec<Vec<Task>> = Vec::new();
    let mut bytes = 0;
    for task in tasks {
        let size = task.encoded_len() + 8;
        match calls.last_mut() {
            Some(call) if call.len() < limits::TASKS_PER_CALL && bytes + size <= CALL_BYTES => {
                bytes += size;
                call.push(task);
            }
            _ => {
                bytes = size;
                calls.push(vec![task]);
            }
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use rallypoint_client::api::{SqlTask, task::Kind};

    fn task(bytes: usize) -> Task {
        let sql = SqlTask {
            statement: "x".repeat(bytes),
            ..SqlTask::default()
        };
        Task {
            kind: Some(Kind::Sql(sql)),
            ..Task::default()
        }
    }

    #[test]
    fn calls_keep_the_limit_of_tasks() {
        let sizes: Vec<usize> = calls(vec![task(1); 20_001]).iter().map(Vec::len).collect();
        assert_eq!(sizes, [10_000, 10_000, 1]);
    }

    #[test]
    fn calls_keep_the_limit_of_bytes() {
        let calls = calls(vec![task(1 << 20); 7]);
        assert_eq!(calls.iter().map(Vec::len).sum::<usize>(), 7);
        assert!(
            calls
                .iter()
                .all(|call| call.iter().map(Task::encoded_len).sum::<usize>() < limits::CALL_BYTES)
        );
    }
}
