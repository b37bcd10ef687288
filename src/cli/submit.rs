//! Many tasks, few calls: cuts what a file brings into calls that keep the service's limits.

use super::error::CliError;
use crate::core::model::limits;
use prost::Message;
use rallypoint_client::{Error, Scheduler, api::Task};
use std::time::Duration;

/// Bytes of tasks put into one call: room is left for the rest of the message.
const CALL_BYTES: usize = limits::CALL_BYTES - (64 << 10);
/// How often a full queue is waited for.
const PATIENCE: u32 = 60;

/// Submits tasks in as many calls as their size needs. A later call may bring no lower order than
/// an earlier one, so the tasks must come in ascending order.
pub(super) async fn submit(scheduler: &Scheduler, tasks: Vec<Task>) -> Result<(), CliError> {
    for call in calls(tasks) {
        exec(scheduler, call)
            .await
            .map_err(|error| CliError::call("the tasks were not accepted", &error))?;
    }
    Ok(())
}

/// One call, again while the service says that it is full and when to come back.
async fn exec(scheduler: &Scheduler, call: Vec<Task>) -> Result<(), Error> {
    for _ in 0..PATIENCE {
        match scheduler.exec(call.clone()).await {
            Err(Error {
                code: tonic::Code::ResourceExhausted,
                retry_after: Some(wait),
                ..
            }) => {
                tokio::time::sleep(wait.clamp(Duration::from_millis(10), Duration::from_secs(5)))
                    .await;
            }
            answer => return answer.map(drop),
        }
    }
    scheduler.exec(call).await.map(drop)
}

/// Cuts tasks into calls that keep the service's limits.
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
