//! Builds a backlog: queued tasks of a paused scheduler.

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

const BODY_BYTES: usize = 1_024;

/// A paused scheduler: its tasks stay queued.
pub(crate) async fn paused(address: &str) -> Result<Scheduler> {
    let scheduler = Client::connect(address)
        .await?
        .open(SchedulerSettings::default())
        .await?;
    scheduler.pause().await?;
    Ok(scheduler)
}

/// Submits the SQL tasks number `from` to `to`, each with a body of 1 KiB, `per_call` a call.
pub(crate) async fn fill(
    scheduler: &Scheduler,
    from: u64,
    to: u64,
    per_call: u64,
    callers: u64,
) -> Result<()> {
    fill_with(scheduler, from, to, per_call, callers, sql).await
}

/// The same with other tasks.
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

/// A statement of 1 KiB. It compresses well, as statements of one program do, which saves disk
/// space.
pub(crate) fn sql(number: u64) -> Task {
    let mut statement = format!("select {number} /*");
    statement.extend(std::iter::repeat_n(
        " the same words again and again",
        BODY_BYTES / 31 + 1,
    ));
    statement.truncate(BODY_BYTES - 2);
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
