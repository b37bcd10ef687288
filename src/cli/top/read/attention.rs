//! What needs somebody: errors of the last hour, and tasks that a lock holds up.

use super::super::{
    filter::FAILED,
    seen::{Errors, ErrorsOf, Failure, HeldUp},
};
use crate::cli::time_text::micros;
use futures_util::future::{join_all, try_join_all};
use rallypoint_client::{
    Client, Result,
    api::{
        AttemptState, Execution, ListAttemptsRequest, ListTasksRequest, Scheduler, TaskFilter,
        TaskState, TaskView, blocker,
    },
};

/// Errors of a scheduler that are looked for.
const LATEST: i32 = 3;
/// For how long an error is news, in microseconds.
const NEWS: i64 = 3_600_000_000;
/// Running tasks of which it is asked what holds them up, if they have run for so long.
const ASKED: usize = 6;
const LONG: i64 = 2_000_000;

/// The last errors of the schedulers that are listed. A scheduler of which nothing has ended or
/// failed since is not asked again.
pub(super) async fn errors(
    client: &Client,
    schedulers: &[Scheduler],
    before: &Errors,
    now: i64,
) -> Result<Errors> {
    let looked = schedulers
        .iter()
        .filter(|one| one.done + one.retrying + one.running > 0);
    let asked = looked.map(|one| async move {
        let counts = (one.done, one.retrying);
        let mut known = before.get(&one.handle).cloned().unwrap_or_default();
        if known.counts != counts {
            let found = errors_of(client, one, now).await?;
            known = ErrorsOf { counts, found };
        }
        known.found.retain(|failure| now - failure.at < NEWS);
        Result::Ok((one.handle.clone(), known))
    });
    Ok(try_join_all(asked).await?.into_iter().collect())
}

async fn errors_of(client: &Client, one: &Scheduler, now: i64) -> Result<Vec<Failure>> {
    let mut found = Vec::new();
    if one.retrying > 0 {
        let states = vec![TaskState::Retrying.into()];
        let filter = TaskFilter {
            states,
            ..TaskFilter::default()
        };
        for task in tasks(client, one, filter).await? {
            found.extend(retried(client, one, &task).await?);
        }
    }
    if one.done > 0 {
        let from = (now - NEWS).max(0);
        let filter = TaskFilter {
            outcomes: FAILED.iter().map(|one| i32::from(*one)).collect(),
            ended_from: Some(prost_types::Timestamp {
                seconds: from / 1_000_000,
                nanos: 0,
            }),
            ..TaskFilter::default()
        };
        found.extend(tasks(client, one, filter).await?.iter().map(ended));
    }
    Ok(found)
}

async fn tasks(client: &Client, one: &Scheduler, filter: TaskFilter) -> Result<Vec<TaskView>> {
    let request = ListTasksRequest {
        page_size: LATEST,
        filter: Some(filter),
        ..ListTasksRequest::default()
    };
    let listed = client.scheduler(&one.handle).tasks(request).await;
    match listed {
        Ok(page) => Ok(page.tasks),
        // One scheduler that cannot be read keeps nobody from seeing the others.
        Err(error) if error.reason.is_some() && !error.is_unknown() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn ended(task: &TaskView) -> Failure {
    let done = task.done.clone().unwrap_or_default();
    let error = done.error.unwrap_or_default();
    Failure {
        seq: done.seq,
        code: error.code,
        message: error.message,
        at: done.ended_us,
        retried: false,
    }
}

/// The last failed attempt of a task that waits for its next one.
async fn retried(client: &Client, one: &Scheduler, task: &TaskView) -> Result<Option<Failure>> {
    let seq = task.id.as_ref().map_or(0, |id| id.seq);
    let request = ListAttemptsRequest::default();
    let attempts = client.scheduler(&one.handle).attempts(seq, request).await?;
    let has_failed = |state| state != AttemptState::Running;
    let failed = attempts
        .attempts
        .into_iter()
        .rfind(|attempt| has_failed(attempt.state()));
    Ok(failed.and_then(|attempt| {
        let error = attempt.error?;
        Some(Failure {
            seq,
            code: error.code,
            message: error.message,
            at: micros(attempt.ended_at.as_ref()),
            retried: true,
        })
    }))
}

/// Long-running tasks that a lock of another session holds up. What cannot be asked is left out.
pub(super) async fn held_up(client: &Client, executions: &[Execution], now: i64) -> Vec<HeldUp> {
    let is_long = |run: &&Execution| {
        let started = micros(run.started_at.as_ref());
        !run.handle.is_empty() && run.backend_pid != 0 && started > 0 && now - started > LONG
    };
    let mut long: Vec<&Execution> = executions.iter().filter(is_long).collect();
    long.sort_by_key(|run| micros(run.started_at.as_ref()));
    let asked = long.into_iter().take(ASKED).map(|run| async move {
        let explained = client.scheduler(&run.handle).explain(run.seq).await.ok()?;
        let session = explained
            .blockers
            .into_iter()
            .find_map(|one| match one.kind {
                Some(blocker::Kind::Session(session)) => Some(session),
                _ => None,
            })?;
        Some(HeldUp {
            handle: run.handle.clone(),
            seq: run.seq,
            pid: session.backend_pid,
            user: session.user,
            application: session.application,
            state: session.state,
            started: micros(run.started_at.as_ref()),
        })
    });
    join_all(asked).await.into_iter().flatten().collect()
}
