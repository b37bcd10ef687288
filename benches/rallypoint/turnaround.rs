//! How long a place under a limit stands empty between two tasks, and how much of the time as many
//! run as the limit allows; against the same texts on as many connections without any service.
//!
//! Each text notes on its target when it begins and ends, so all of it is measured there.

use crate::{
    environment::{Environment, Server},
    latency::at,
    load,
    report::{Report, median},
    sql,
};
use anyhow::{Context, Result, ensure};
use rallypoint::{core::SessionReset, executor::request};
use rallypoint_client::api::{SchedulerSettings, SqlTask, Task, task::Kind};
use sqlx::{Connection, PgConnection};

const PER_CALL: u64 = 100;
const SLOTS: &str = "16";
/// 20 ms of work. The table is not logged, so nothing of it waits for the disk.
const TEXT: &str = "insert into bench_turn select clock_timestamp(), pg_sleep(0.02)::text, \
                    clock_timestamp()";

/// Each limit, and what its figures are called. The second one is the figure.
const LIMITS: [(i32, [&str; 3]); 3] = [
    (1, ["1_p50_us", "1_p99_us", "1_share_of_time"]),
    (3, ["3_p50_us", "3_p99_us", "3_share_of_time"]),
    (8, ["8_p50_us", "8_p99_us", "8_share_of_time"]),
];

/// What the texts of one run have noted, in microseconds.
struct Turns {
    begun: Vec<i64>,
    ended: Vec<i64>,
}

pub(crate) async fn run(total: u64, runs: usize) -> Result<Report> {
    let environment = Environment::new().await?;
    let database = environment.database("bench").await?;
    let target = sql::Target::prepare(&environment).await?;
    let mut reader = environment.connect(&environment.target()).await?;
    sqlx::raw_sql(
        "create unlogged table bench_turn (
             begun timestamptz,
             slept text,
             ended timestamptz
         )",
    )
    .execute(&mut reader)
    .await?;
    let server = environment
        .server_with(&database, &["--slots", SLOTS])
        .await?;
    let mut found = vec![Vec::new(); LIMITS.len()];
    let mut raw = Vec::new();
    for run in 0..=runs {
        for (index, (limit, _)) in LIMITS.into_iter().enumerate() {
            drive(&server, total, limit).await?;
            let turns = Turns::take(&mut reader, total).await?;
            // The first run opens sessions and warms up.
            if run > 0 {
                found[index].push(turns.figures(limit as usize));
            }
        }
        let bytes = request(TEXT, SessionReset::Task).context("a request")?;
        target.send(&bytes, total).await?;
        let turns = Turns::take(&mut reader, total).await?;
        raw.push(turns.figures(sql::SLOTS)[0]);
    }
    reader.close().await?;
    let mut also = Vec::new();
    for ((_, names), found) in LIMITS.into_iter().zip(&found) {
        for (place, name) in names.into_iter().enumerate() {
            also.push((name, median(&column(found, place))));
        }
    }
    let (p50s, baseline) = (column(&found[1], 0), median(&raw));
    let figure = median(&p50s);
    Ok(Report {
        name: "turnaround",
        figure,
        unit: "us (p50)",
        runs: p50s,
        baseline: (
            "the same bytes on 8 connections, each after the answer to the last, no service",
            baseline,
        ),
        ratio: figure / baseline,
        also,
        ran: format!(
            "{total} tasks of 20 ms on one scheduler, 1, 3 and 8 at a time, {PER_CALL} a call, \
             {SLOTS} slots: from the end of a text to the start of the one that takes its place; \
             and the share of the time in which as many ran as the limit allows"
        ),
    })
}

fn column(figures: &[[f64; 3]], place: usize) -> Vec<f64> {
    figures.iter().map(|figures| figures[place]).collect()
}

async fn drive(server: &Server, total: u64, limit: i32) -> Result<()> {
    let settings = SchedulerSettings {
        max_parallelism: Some(limit),
        ..SchedulerSettings::default()
    };
    let task = |_| Task {
        kind: Some(Kind::Sql(SqlTask {
            statement: TEXT.to_owned(),
            ..SqlTask::default()
        })),
        ..Task::default()
    };
    let calls = load::calls(total, PER_CALL, task);
    load::drive_calls(&server.address, settings, calls, 1).await?;
    Ok(())
}

impl Turns {
    /// What was noted since the last time.
    async fn take(reader: &mut PgConnection, total: u64) -> Result<Self> {
        let rows: Vec<(i64, i64)> = sqlx::query_as(
            "with noted as (
                 delete from bench_turn
                 returning begun, ended
             )
             select (extract(epoch from begun) * 1e6)::int8,
                 (extract(epoch from ended) * 1e6)::int8
             from noted",
        )
        .fetch_all(reader)
        .await?;
        ensure!(
            rows.len() as u64 == total,
            "{} of {total} texts have run",
            rows.len()
        );
        let (mut begun, mut ended): (Vec<i64>, Vec<i64>) = rows.into_iter().unzip();
        begun.sort_unstable();
        ended.sort_unstable();
        Ok(Turns { begun, ended })
    }

    /// Median and 99th percentile of the time for which a place is empty, and the share of the time
    /// in which none was, from when all were taken first to when nobody was left to take one.
    fn figures(&self, limit: usize) -> [f64; 3] {
        let next = self.begun.iter().skip(limit);
        let empty = self.ended.iter().zip(next);
        let empty: Vec<f64> = empty.map(|(end, next)| (next - end) as f64).collect();
        let first = self.begun.get(limit - 1).copied().unwrap_or_default();
        let last = self.ended[self.ended.len() - limit];
        let events = self.begun.iter().map(|at| (*at, 1));
        let mut events: Vec<(i64, i64)> = events
            .chain(self.ended.iter().map(|at| (*at, -1)))
            .collect();
        events.sort_unstable();
        let (mut running, mut since, mut full) = (0, first, 0);
        for (at, change) in events {
            if running >= limit as i64 && at > first {
                full += at.min(last) - since.min(last);
            }
            (running, since) = (running + change, at.max(first));
        }
        let share = full as f64 / (last - first).max(1) as f64;
        [at(&empty, 0.5), at(&empty, 0.99), share]
    }
}
