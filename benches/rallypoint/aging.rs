//! Millions of tasks with autovacuum off: the last million against the first, dead rows in the
//! growing tables, and the disk space a task takes.

use crate::{
    environment::Environment,
    load,
    report::{Report, median},
    series::{Measured, Point},
};
use anyhow::{Context, Result};
use sqlx::Connection;

const MILLION: u64 = 1_000_000;
const PER_CALL: u64 = 100;
const CALLERS: u64 = 64;

pub(crate) async fn run(total: u64, runs: usize) -> Result<Measured> {
    let environment = Environment::with(&[("autovacuum", "off")]).await?;
    let (mut firsts, mut lasts, mut dead, mut bytes) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut points = Vec::new();
    for run in 0..runs {
        let database = environment.database(&format!("bench_{run}")).await?;
        let server = environment.server(&database).await?;
        // The first tasks warm up connections and plans.
        load::drive(&server.address, MILLION / 20, PER_CALL, CALLERS).await?;
        let before = size(&environment, &database).await?;
        let mut rates = Vec::new();
        for _ in 0..(total / MILLION).max(1) {
            let took = load::drive(&server.address, MILLION, PER_CALL, CALLERS).await?;
            rates.push(MILLION as f64 / took.as_secs_f64());
        }
        bytes.push(
            (size(&environment, &database).await? - before) / (rates.len() as u64 * MILLION) as f64,
        );
        drop(server);
        dead.push(dead_rows(&environment, &database).await?);
        firsts.push(*rates.first().context("a million at least")?);
        lasts.push(*rates.last().context("a million at least")?);
        let point = |(millions, rate)| Point {
            at: millions,
            values: vec![("tasks_per_s", rate)],
        };
        points = (1..).zip(rates).map(point).collect();
    }
    let (figure, baseline) = (median(&lasts), median(&firsts));
    let report = Report {
        name: "aging",
        figure,
        unit: "tasks/s",
        runs: lasts,
        baseline: ("the first million of the same run", baseline),
        ratio: figure / baseline,
        also: vec![
            ("dead_rows_in_hot_tables", median(&dead)),
            ("disk_bytes_per_task", median(&bytes)),
        ],
        ran: format!(
            "{total} no-op tasks with 200-byte bodies, {PER_CALL} a call, \
             a scheduler for each million; autovacuum off"
        ),
    };
    Ok(Measured {
        report,
        by: "millions",
        points,
    })
}

async fn size(environment: &Environment, database: &str) -> Result<f64> {
    let mut connection = environment.connect(database).await?;
    let size = sqlx::query_scalar("select pg_database_size(current_database())::float8")
        .fetch_one(&mut connection)
        .await?;
    connection.close().await?;
    Ok(size)
}

async fn dead_rows(environment: &Environment, database: &str) -> Result<f64> {
    // Statistics are flushed when a session ends, if not before.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let mut connection = environment.connect(database).await?;
    let dead = "select sum(n_dead_tup)::float8 from pg_stat_user_tables \
                where relname ~ '^(submission|completion|attempt|batch)_'";
    let dead = sqlx::query_scalar(dead).fetch_one(&mut connection).await?;
    connection.close().await?;
    Ok(dead)
}
