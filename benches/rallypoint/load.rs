//! Tasks for the benches, and the loop that submits them and waits for their events.

use anyhow::Result;
use bytes::Bytes;
use rallypoint_client::{
    Client,
    api::{self, SchedulerSettings, Task, task::Kind, until},
};
use std::{
    fmt::Write,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
    vec,
};
use tokio::{sync::Semaphore, task::JoinSet};

/// Most tasks submitted and not yet done.
const WINDOW: u32 = 20_000;

/// A no-op task with a body of 200 bytes that looks like SQL and does not compress away.
pub(crate) fn task(number: u64) -> Task {
    Task {
        kind: Some(Kind::Noop(api::NoopTask {
            payload: body(number),
        })),
        order: None,
        options: None,
    }
}

pub(crate) fn body(number: u64) -> Bytes {
    let mut text = String::with_capacity(220);
    text.push_str("insert into warehouse.fact_sales select * from staging.sales where key = '");
    let mut x = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    while text.len() < 200 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        // Writing to a string cannot fail.
        let _ = write!(text, "{x:016x}");
    }
    text.truncate(200);
    text.into()
}

/// Submits `total` tasks to a new scheduler, `per_call` a call from `callers` callers, and waits
/// for every AsyncDone.
pub(crate) async fn drive(
    address: &str,
    total: u64,
    per_call: u64,
    callers: u64,
) -> Result<Duration> {
    // Built before the clock starts, as the rows of the baseline are.
    let calls = calls(total, per_call, task);
    drive_calls(address, SchedulerSettings::default(), calls, callers).await
}

/// `total` tasks, `per_call` a call.
pub(crate) fn calls(total: u64, per_call: u64, task: impl Fn(u64) -> Task) -> Vec<Vec<Task>> {
    (0..total.div_ceil(per_call))
        .map(|call| {
            (call * per_call..((call + 1) * per_call).min(total))
                .map(&task)
                .collect()
        })
        .collect()
}

/// Makes these calls to a new scheduler from `callers` callers, and waits for every AsyncDone.
pub(crate) async fn drive_calls(
    address: &str,
    settings: SchedulerSettings,
    calls: Vec<Vec<Task>>,
    callers: u64,
) -> Result<Duration> {
    let client = Client::connect(address).await?;
    drive_by(&client, settings, calls, callers).await
}

/// As [`drive_calls`], by a client that may have to say who it is.
pub(crate) async fn drive_by(
    client: &Client,
    settings: SchedulerSettings,
    calls: Vec<Vec<Task>>,
    callers: u64,
) -> Result<Duration> {
    let total: u64 = calls.iter().map(|tasks| tasks.len() as u64).sum();
    let scheduler = client.open(settings).await?;
    let mut stream = scheduler
        .synchronize(0, Some(until::Kind::Forever(())))
        .await?;
    let window = Arc::new(Semaphore::new(WINDOW as usize));
    let calls = Arc::new(Mutex::new(calls.into_iter()));
    let start = Instant::now();
    let mut submitting = JoinSet::new();
    for _ in 0..callers {
        let (scheduler, window, calls) = (scheduler.clone(), window.clone(), calls.clone());
        submitting.spawn(async move {
            while let Some(tasks) = next_call(&calls) {
                window
                    .acquire_many(tasks.len() as u32)
                    .await
                    .expect("never closed")
                    .forget();
                scheduler.exec(tasks).await?;
            }
            Ok::<_, rallypoint_client::Error>(())
        });
    }
    while stream.cursor() < total as i64
        && let Some(done) = stream.next().await?
    {
        window.add_permits(done.len());
    }
    let took = start.elapsed();
    while let Some(ended) = submitting.join_next().await {
        ended??;
    }
    anyhow::ensure!(
        stream.cursor() == total as i64,
        "{} of {total} tasks are done",
        stream.cursor()
    );
    Ok(took)
}

fn next_call(calls: &Mutex<vec::IntoIter<Vec<Task>>>) -> Option<Vec<Task>> {
    calls.lock().unwrap_or_else(PoisonError::into_inner).next()
}
