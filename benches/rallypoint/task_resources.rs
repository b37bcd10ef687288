//! Tasks that hold resources: each one of a hundred keys of a pattern with one permit, and one of
//! twenty permits of a pool; against the same tasks without.
//!
//! Each text notes on its target when it begins and ends, so that the capacities are swept there,
//! and the time in which all slots were busy is measured there.

use crate::{
    environment::{Environment, Server},
    load,
    report::{Report, median},
};
use anyhow::{Result, ensure};
use rallypoint_client::{
    Client,
    api::{
        CreateResourceRequest, ResourceMode, ResourceSettings, ResourceUse, SchedulerSettings,
        SqlTask, Task, TaskOptions, task::Kind,
    },
};
use sqlx::{Connection, PgConnection};
use std::collections::BTreeMap;

const PER_CALL: u64 = 100;
const SLOTS: usize = 16;
const KEYS: u64 = 100;
const POOL: i32 = 20;

/// What the texts of one run have noted: key, begin and end in microseconds.
struct Noted(Vec<(i64, i64, i64)>);

pub(crate) async fn run(total: u64, runs: usize) -> Result<Report> {
    let environment = Environment::new().await?;
    let database = environment.database("bench").await?;
    let mut reader = environment.connect(&environment.target()).await?;
    sqlx::raw_sql(
        "create unlogged table bench_held (
             key int8,
             begun timestamptz,
             slept text,
             ended timestamptz
         )",
    )
    .execute(&mut reader)
    .await?;
    let slots = SLOTS.to_string();
    let server = environment
        .server_with(&database, &["--slots", &slots])
        .await?;
    define(&server).await?;
    let (mut rates, mut plain) = (Vec::new(), Vec::new());
    let (mut busy, mut plain_busy) = (Vec::new(), Vec::new());
    drive(&server, total / 10, true).await?;
    Noted::take(&mut reader, total / 10).await?;
    for _ in 0..runs {
        rates.push(drive(&server, total, true).await?);
        let noted = Noted::take(&mut reader, total).await?;
        noted.check()?;
        busy.push(noted.busy());
        plain.push(drive(&server, total, false).await?);
        plain_busy.push(Noted::take(&mut reader, total).await?.busy());
    }
    reader.close().await?;
    let (figure, baseline) = (median(&rates), median(&plain));
    Ok(Report {
        name: "task-resources",
        figure,
        unit: "tasks/s",
        runs: rates,
        baseline: ("the same tasks without resources", baseline),
        ratio: figure / baseline,
        also: vec![
            ("slots_busy", median(&busy)),
            ("slots_busy_without", median(&plain_busy)),
        ],
        ran: format!(
            "{total} tasks of 5 ms on one scheduler, {PER_CALL} a call, {SLOTS} slots: each holds \
             one of {KEYS} keys alone and one of {POOL} permits; no key was held twice at a time, \
             and no more than {POOL} permits; slots_busy: texts that ran at a time, on average"
        ),
    })
}

async fn define(server: &Server) -> Result<()> {
    let client = Client::connect(&server.address).await?;
    for (name, capacity) in [("key/*", 1), ("pool", POOL)] {
        let settings = ResourceSettings {
            capacity,
            ..ResourceSettings::default()
        };
        let create = CreateResourceRequest {
            name: name.to_owned(),
            settings: Some(settings),
        };
        client.create_resource(create).await?;
    }
    Ok(())
}

/// Tasks a second.
async fn drive(server: &Server, total: u64, with_resources: bool) -> Result<f64> {
    let task = |number: u64| {
        // As if drawn at random, and the same in every run.
        let key = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % KEYS;
        let statement = format!(
            "insert into bench_held select {key}, clock_timestamp(), pg_sleep(0.005)::text, \
             clock_timestamp()"
        );
        let used = |name: String, mode: ResourceMode| ResourceUse {
            name,
            mode: mode.into(),
            permits: 0,
        };
        let resources = match with_resources {
            true => vec![
                used(format!("key/{key}"), ResourceMode::Exclusive),
                used("pool".to_owned(), ResourceMode::Shared),
            ],
            false => Vec::new(),
        };
        Task {
            kind: Some(Kind::Sql(SqlTask {
                statement,
                ..SqlTask::default()
            })),
            options: Some(TaskOptions {
                resources,
                ..TaskOptions::default()
            }),
            ..Task::default()
        }
    };
    let calls = load::calls(total, PER_CALL, task);
    let took = load::drive_calls(&server.address, SchedulerSettings::default(), calls, 4).await?;
    Ok(total as f64 / took.as_secs_f64())
}

impl Noted {
    /// What was noted since the last time.
    async fn take(reader: &mut PgConnection, total: u64) -> Result<Self> {
        let rows: Vec<(i64, i64, i64)> = sqlx::query_as(
            "with noted as (
                 delete from bench_held
                 returning key, begun, ended
             )
             select key,
                 (extract(epoch from begun) * 1e6)::int8,
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
        Ok(Noted(rows))
    }

    /// No capacity was ever exceeded.
    fn check(&self) -> Result<()> {
        let mut by_key: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
        for (key, begun, ended) in &self.0 {
            by_key.entry(*key).or_default().push((*begun, *ended));
        }
        for (key, spans) in by_key {
            ensure!(most_at_once(&spans) == 1, "key {key} was held twice");
        }
        let all: Vec<_> = self.0.iter().map(|(_, from, to)| (*from, *to)).collect();
        ensure!(most_at_once(&all) <= i64::from(POOL), "the pool ran over");
        Ok(())
    }

    /// Texts that ran at a time, on average.
    fn busy(&self) -> f64 {
        let ran: i64 = self.0.iter().map(|(_, from, to)| to - from).sum();
        let first = self.0.iter().map(|(_, from, _)| *from).min().unwrap_or(0);
        let last = self.0.iter().map(|(.., to)| *to).max().unwrap_or(0);
        ran as f64 / (last - first).max(1) as f64
    }
}

/// What ends when another one begins does not overlap it.
fn most_at_once(spans: &[(i64, i64)]) -> i64 {
    let changes = spans.iter().flat_map(|(from, to)| [(*from, 1), (*to, -1)]);
    let mut changes: Vec<(i64, i64)> = changes.collect();
    changes.sort_unstable();
    let mut held = 0;
    let counts = changes.iter().map(|(_, change)| {
        held += change;
        held
    });
    counts.max().unwrap_or(0)
}
