//! No-op tasks end to end over gRPC, durable, 100 tasks a call, against the raw append of the same
//! rows.

use crate::{
    environment::Environment,
    load, raw_append,
    report::{Report, median},
};
use anyhow::Result;

const PER_CALL: u64 = 100;
const CALLERS: u64 = 64;

pub(crate) async fn run(total: u64, runs: usize) -> Result<Report> {
    let environment = Environment::new().await?;
    let (mut rates, mut raw_rates, mut wal, mut per_batch) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for run in 0..runs {
        let database = environment.database(&format!("bench_{run}")).await?;
        let server = environment.server(&database).await?;
        // The first tasks warm up connections and plans.
        load::drive(&server.address, total / 20, PER_CALL, CALLERS).await?;
        let (before, batches_before) = (
            environment.wal_bytes().await?,
            last_batch(&environment, &database).await?,
        );
        let took = load::drive(&server.address, total, PER_CALL, CALLERS).await?;
        let batches = last_batch(&environment, &database).await? - batches_before;
        wal.push((environment.wal_bytes().await? - before) / total as f64);
        rates.push(total as f64 / took.as_secs_f64());
        per_batch.push(total as f64 / batches);
        drop(server);
        let database = environment.database(&format!("bench_raw_{run}")).await?;
        raw_rates.push(
            raw_append::append(
                &environment,
                &database,
                total,
                median(&per_batch) as u64,
                PER_CALL,
            )
            .await?,
        );
    }
    let (figure, baseline) = (median(&rates), median(&raw_rates));
    Ok(Report {
        name: "throughput",
        figure,
        unit: "tasks/s",
        runs: rates,
        baseline: (
            "raw append of the same rows on one connection, no service",
            baseline,
        ),
        ratio: figure / baseline,
        also: vec![
            ("wal_bytes_per_task", median(&wal)),
            ("tasks_per_batch", median(&per_batch)),
        ],
        ran: format!(
            "{total} no-op tasks with 200-byte bodies, {PER_CALL} a call, {CALLERS} callers, \
             one scheduler, durable"
        ),
    })
}

async fn last_batch(environment: &Environment, database: &str) -> Result<f64> {
    let status = environment
        .journal(database)
        .await?
        .reader()
        .status()
        .await?;
    Ok(status.last_batch.0 as f64)
}
