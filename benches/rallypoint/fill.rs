//! A backlog: tasks that wait and cannot run.

use anyhow::Result;
use rallypoint_client::{
    Client, Scheduler,
    api::{SchedulerSettings, SqlTask, Task, task::Kind},
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tokio::task::JoinSet;

/// Bytes of a body.
const BODY: usize = 1_024;

/// A scheduler that is paused, and so keeps what it is given.
pub(crate) async fn paused(address: &str) -> Result<Scheduler> {
    let scheduler = Client::connect(address)
        .await?
        .open(SchedulerSettings::default())
        .await?;
    scheduler.pause().await?;
    Ok(scheduler)
}

/// Submits SQL tasks with bodies of 1 KiB until `scheduler`, which has `from`, has `to`: `per_call`
/// a call.
pub(crate) async fn fill(
    scheduler: &Scheduler,
    from: u64,
    to: u64,
    per_call: u64,
    callers: u64,
) -> Result<()> {
    fill_with(scheduler, from, to, per_call, callers, sql).await
}

/// The same with tasks of another kind.
pub(crate) async fn fill_with(
    scheduler: &Scheduler,
    from: u64,
    to: u64,
    per_call: u64,
    callers: u64,
    task: fn(u64) -> Task,
) -> Result<()> {
    let next = Arc::new(AtomicU64::new(from));
    let mut submitting = JoinSet::new();
    for _ in 0..callers {
        let (scheduler, next) = (scheduler.clone(), next.clone());
        submitting.spawn(async move {
            loop {
                let first = next.fetch_add(per_call, Ordering::Relaxed);
                if first >= to {
                    return Ok::<_, rallypoint_client::Error>(());
                }
                scheduler
                    .exec((first..(first + per_call).min(to)).map(task).collect())
                    .await?;
            }
        });
    }
    while let Some(ended) = submitting.join_next().await {
        ended??;
    }
    Ok(())
}

/// A statement of 1 KiB. It compresses well, as statements of one program do, and so does not fill
/// the disk.
pub(crate) fn sql(number: u64) -> Task {
    let mut statement = format!("select {number} /*");
    statement.extend(std::iter::repeat_n(
        " the same words again and again",
        BODY / 31 + 1,
    ));
    statement.truncate(BODY - 2);
    statement.push_str("*/");
    Task {
        kind: Some(Kind::Sql(SqlTask {
            statement,
            ..Default::default()
        })),
        order: None,
        options: None,
    }
}
