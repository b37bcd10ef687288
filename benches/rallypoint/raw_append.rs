//! The baseline of throughput: the same rows into the same tables, fenced alike, on one connection
//! and without a service around it.

use crate::{environment::Environment, load};
use anyhow::{Result, bail, ensure};
use rallypoint::{
    core::{
        Attempt, BatchNo, CompletionRecord, Done, DoneNo, Epoch, Handle, Outcome, Packed, Records,
        Run, Seq, ShardId, Spec, SubmissionRecord, Submit, Time, Work,
    },
    journal::{Batch, Claim, Commit, Replica, TakeOver},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use uuid::Uuid;

/// Appends `total` tasks and their outcomes in batches of about `per_batch` tasks, `per_call` a
/// call. Returns tasks per second.
pub(crate) async fn append(
    environment: &Environment,
    database: &str,
    total: u64,
    per_batch: u64,
    per_call: u64,
) -> Result<f64> {
    let journal = environment.journal(database).await?;
    let replica = Replica {
        id: Uuid::now_v7(),
        name: "bench".into(),
        address: None,
    };
    let TakeOver::Owned(owned) = journal
        .take_over(
            &replica,
            Claim::Start,
            Duration::from_secs(5),
            None,
            Epoch(0),
        )
        .await?
    else {
        bail!("a fresh journal already has an owner")
    };
    let handle = Handle::new(ShardId(0), (owned.now.0 / 1_000) as u64, [1; 10]);
    let batches = batches(handle, owned.now, total, per_batch, per_call);
    let mut writer = journal.writer(&replica);
    let start = Instant::now();
    for (at, records) in batches.into_iter().enumerate() {
        let no = BatchNo(owned.last_batch.0 + 1 + at as i64);
        let commit = writer
            .append(&Batch {
                shard: ShardId(0),
                epoch: owned.epoch,
                no,
                day: owned.now.day(),
                records,
            })
            .await;
        ensure!(commit == Commit::Durable, "batch {}: {commit:?}", no.0);
    }
    Ok(total as f64 / start.elapsed().as_secs_f64())
}

/// The records of all batches: each has the submissions of some tasks and the outcomes of the tasks
/// of the batch before.
fn batches(handle: Handle, at: Time, total: u64, per_batch: u64, per_call: u64) -> Vec<Records> {
    let calls_per_batch = (per_batch / per_call).max(1);
    let mut batches: Vec<Records> = Vec::new();
    let mut previous: Option<(u64, u64)> = None;
    let mut first = 0;
    while first < total || previous.is_some() {
        let tasks = (calls_per_batch * per_call).min(total - first);
        let submissions = (0..tasks.div_ceil(per_call)).map(|call| {
            let from = first + call * per_call;
            submission(
                handle,
                at,
                from,
                per_call.min(total - from),
                previous.map_or(0, |(from, count)| from + count),
            )
        });
        let completions =
            previous.map(|(from, count)| Arc::new(completion(handle, at, from, count, per_call)));
        let submissions = submissions.collect();
        batches.push(Records {
            submissions,
            completions: completions.into_iter().collect(),
            ..Records::default()
        });
        previous = (tasks > 0).then_some((first, tasks));
        first += tasks;
    }
    batches
}

fn submission(handle: Handle, at: Time, from: u64, count: u64, done: u64) -> SubmissionRecord {
    let bodies: Vec<_> = (from..from + count).map(load::body).collect();
    let spec = Arc::new(Spec {
        work: Work::Noop,
        options: Default::default(),
        trace: None,
    });
    SubmissionRecord {
        handle,
        caller: "bench".into(),
        first_seq: Seq(from as i64 + 1),
        submitted_at: at,
        done_no: DoneNo(done as i64),
        submit: Arc::new(Submit {
            request: None,
            runs: vec![Run {
                count: count as u32,
                order: None,
                spec: spec.clone(),
            }],
            bodies: Packed::new(bodies.iter().map(|body| &body[..])),
            params: Packed::default(),
            retries: None,
        }),
        resolved: vec![(None, spec)],
    }
}

fn completion(handle: Handle, at: Time, from: u64, count: u64, per_call: u64) -> CompletionRecord {
    let done = (0..count.div_ceil(per_call)).map(|call| Done {
        first: Seq((from + call * per_call) as i64 + 1),
        count: per_call.min(count - call * per_call) as u32,
        order: None,
        retry_of: None,
        outcome: Outcome::Succeeded,
        attempt: Attempt(1),
        started: Some(Time(at.0 + from as i64)),
        ended: Time(at.0 + from as i64),
        slot: 0,
        backend_pid: 0,
        diagnostics: Default::default(),
        error: None,
        result: None,
    });
    CompletionRecord {
        handle,
        first_done_no: DoneNo(from as i64 + 1),
        done: done.collect(),
    }
}
