//! Cancelling a backlog of millions: how soon it is acknowledged, and what other callers notice
//! meanwhile.

use crate::{
    environment::{Environment, Server},
    fill,
    latency::{self, at},
    report::{Report, median},
};
use anyhow::Result;
use rallypoint_client::{
    Scheduler,
    api::{ReleaseMode, SchedulerState, Task},
};
use std::time::Instant;

/// Tasks run one at a time between two checks of what is left.
const ROUND: u64 = 250;
const PER_CALL: u64 = 1_000;
/// Rounds before the cancellation.
const ROUNDS_BEFORE: usize = 12;

pub(crate) async fn run(total: u64, runs: usize) -> Result<Report> {
    let environment = Environment::new().await?;
    let (mut calm, mut busy, mut acknowledged, mut rates) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for run in 0..runs {
        let server = environment
            .server(&environment.database(&format!("bench_{run}")).await?)
            .await?;
        let backlog = fill::paused(&server.address).await?;
        fill::fill_with(&backlog, 0, total, PER_CALL, 8, task).await?;
        environment.checkpoint().await?;
        let mut before = Vec::new();
        for _ in 0..ROUNDS_BEFORE {
            before.extend(latency::tasks(&server.address, ROUND).await?);
        }
        calm.push(at(&before, 0.99));
        let start = Instant::now();
        backlog.release(ReleaseMode::Cancel, false).await?;
        acknowledged.push(start.elapsed().as_secs_f64() * 1e3);
        busy.push(at(&until_over(&server, &backlog).await?, 0.99));
        rates.push(total as f64 / start.elapsed().as_secs_f64());
    }
    let (figure, baseline) = (median(&busy), median(&calm));
    Ok(Report {
        name: "cancel",
        figure,
        unit: "us (p99)",
        runs: busy,
        baseline: (
            "tasks of other callers before the cancellation, same run",
            baseline,
        ),
        ratio: figure / baseline,
        also: vec![
            ("acknowledged_ms", median(&acknowledged)),
            ("cancelled_per_s", median(&rates)),
        ],
        ran: format!(
            "{total} queued SQL tasks of 1 KiB in ascending orders and without, {PER_CALL} a call, \
             cancelled by ReleaseScheduler, while others run theirs one at a time"
        ),
    })
}

/// Latencies of tasks of another scheduler until everything is cancelled.
async fn until_over(server: &Server, backlog: &Scheduler) -> Result<Vec<f64>> {
    let mut latencies = Vec::new();
    loop {
        latencies.extend(latency::tasks(&server.address, ROUND).await?);
        if backlog.describe().await?.state() == SchedulerState::Released {
            return Ok(latencies);
        }
    }
}

/// Every third call has no order, the others have ascending ones.
fn task(number: u64) -> Task {
    let call = number / PER_CALL;
    Task {
        order: (!call.is_multiple_of(3)).then_some((call / 100) as i64),
        ..fill::sql(number)
    }
}
