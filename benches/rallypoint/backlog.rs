//! What a backlog costs other schedulers: the same load on an empty server and on one where another
//! scheduler has millions of queued tasks; and the memory the backlog takes.

use crate::{
    environment::Environment,
    fill, load,
    paired::{self, PairedRuns},
    report::{Report, median},
    series::{Measured, Point},
};
use anyhow::{Result, ensure};
use rallypoint_client::Scheduler;
use std::time::Instant;

/// Queued tasks at each step.
const STEPS: [u64; 4] = [0, 100_000, 1_000_000, 10_000_000];
const PER_CALL: u64 = 1_000;
/// Queued tasks that are explained at each step.
const EXPLAINED: u64 = 500;

pub(crate) async fn run(total: u64, most: u64, runs: usize) -> Result<Measured> {
    let environment = Environment::new().await?;
    let empty = environment
        .server(&environment.database("bench_empty").await?)
        .await?;
    let loaded = environment
        .server(&environment.database("bench_loaded").await?)
        .await?;
    for address in [&empty.address, &loaded.address] {
        load::drive(address, total / 4, 100, 64).await?;
    }
    let backlog = fill::paused(&loaded.address).await?;
    let (mut points, mut last, mut queued) = (Vec::new(), PairedRuns::default(), 0);
    for step in STEPS.into_iter().filter(|step| *step <= most) {
        fill::fill(&backlog, queued, step, PER_CALL, 8).await?;
        queued = step;
        let usage = loaded.usage()?;
        environment.checkpoint().await?;
        last = PairedRuns::measure(&empty.address, &loaded.address, 2 * runs + 1, total).await?;
        let mut point = last.point(step);
        point.values.extend([
            ("resident_mib", usage.mib()),
            ("peak_mib", usage.peak_mib()),
        ]);
        if queued > 0 {
            let explain_us = explain(&backlog, queued).await?;
            point.values.push(("explain_us", explain_us));
        }
        points.push(point);
    }
    drop((empty, loaded));
    let one_by_one = singly(&environment, most / 10).await?;
    Ok(Measured {
        report: report(last, &points, total, queued, one_by_one),
        by: "queued",
        points,
    })
}

/// The median time in microseconds that it takes to explain why a queued task does not run, of
/// tasks all over the backlog.
async fn explain(backlog: &Scheduler, queued: u64) -> Result<f64> {
    let mut took = Vec::new();
    for nth in 0..EXPLAINED {
        let seq = 1 + nth * (queued - 1) / (EXPLAINED - 1);
        let begun = Instant::now();
        let answer = backlog.explain(seq as i64).await?;
        took.push(begun.elapsed().as_secs_f64() * 1e6);
        ensure!(!answer.blockers.is_empty(), "task {seq} has no blocker");
    }
    Ok(median(&took))
}

/// Peak memory in MiB of a server whose backlog was submitted one task at a time.
async fn singly(environment: &Environment, total: u64) -> Result<f64> {
    let server = environment
        .server(&environment.database("bench_single").await?)
        .await?;
    fill::fill(&fill::paused(&server.address).await?, 0, total, 1, 64).await?;
    Ok(server.usage()?.peak_mib())
}

fn report(last: PairedRuns, points: &[Point], total: u64, queued: u64, one_by_one: f64) -> Report {
    let (figure, baseline) = (median(&last.loaded.rates), median(&last.empty.rates));
    let of = |point: Option<&Point>, name: &str| {
        let value = point.and_then(|point| point.values.iter().find(|(n, _)| *n == name));
        value.map_or(f64::NAN, |(_, value)| *value)
    };
    let of_last = |name: &str| of(points.last(), name);
    let explain_us_of_fewest = of(points.get(1), "explain_us");
    Report {
        name: "backlog",
        figure,
        unit: "tasks/s",
        baseline: (
            "the same load on an empty server beside it, turn by turn",
            baseline,
        ),
        ratio: paired::ratio(&last.loaded.rates, &last.empty.rates),
        runs: last.loaded.rates,
        also: ["p99_us", "empty_p99_us", "p99_ratio", "resident_mib"]
            .map(|name| (name, of_last(name)))
            .into_iter()
            .chain([
                ("peak_mib_one_by_one", one_by_one),
                ("explain_us", of_last("explain_us")),
                ("explain_us_of_100_000", explain_us_of_fewest),
            ])
            .collect(),
        ran: format!(
            "{total} no-op tasks, 100 a call, and 1500 one at a time, while another scheduler has \
             {queued} SQL tasks of 1 KiB queued ({PER_CALL} a call); \
             then {} submitted one by one on another server",
            queued / 10
        ),
    }
}
