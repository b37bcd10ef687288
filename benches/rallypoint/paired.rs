//! The same load on two servers, one of them empty. They take turns, and alternate in who begins,
//! so that other load on the machine affects both alike.

use crate::{latency, load, report::median, series::Point};
use anyhow::Result;

const PER_CALL: u64 = 100;
const CALLERS: u64 = 64;
/// Tasks per turn that are timed one at a time.
const ONE_BY_ONE: u64 = 1_500;

/// The figures of both servers.
#[derive(Debug, Default)]
pub(crate) struct PairedRuns {
    pub empty: Side,
    pub loaded: Side,
}

/// The figures of one server, turn by turn.
#[derive(Debug, Default)]
pub(crate) struct Side {
    /// Tasks per second, from the first call to the last AsyncDone.
    pub rates: Vec<f64>,
    /// Microseconds from a call to its AsyncDone.
    pub p50s: Vec<f64>,
    pub p99s: Vec<f64>,
}

impl PairedRuns {
    /// Measures new schedulers on both servers: `total` no-op tasks for the rate, then some one at
    /// a time for the latency.
    pub(crate) async fn measure(
        empty: &str,
        loaded: &str,
        turns: usize,
        total: u64,
    ) -> Result<PairedRuns> {
        let mut paired_runs = PairedRuns::default();
        for turn in 0..turns {
            let mut sides = [
                (empty, &mut paired_runs.empty),
                (loaded, &mut paired_runs.loaded),
            ];
            sides.rotate_left(turn % 2);
            for (address, side) in sides {
                let took = load::drive(address, total, PER_CALL, CALLERS).await?;
                side.add(
                    total as f64 / took.as_secs_f64(),
                    &latency::tasks(address, ONE_BY_ONE).await?,
                );
            }
        }
        Ok(paired_runs)
    }

    /// Medians of both servers, and medians of the ratios of each turn (loaded / empty).
    pub(crate) fn point(&self, at: u64) -> Point {
        let [rate, empty_rate] = [median(&self.loaded.rates), median(&self.empty.rates)];
        let [p99, empty_p99] = [median(&self.loaded.p99s), median(&self.empty.p99s)];
        let [p50, empty_p50] = [median(&self.loaded.p50s), median(&self.empty.p50s)];
        let values = vec![
            ("tasks_per_s", rate),
            ("empty_tasks_per_s", empty_rate),
            (
                "throughput_ratio",
                ratio(&self.loaded.rates, &self.empty.rates),
            ),
            ("p50_us", p50),
            ("empty_p50_us", empty_p50),
            ("p50_ratio", ratio(&self.loaded.p50s, &self.empty.p50s)),
            ("p99_us", p99),
            ("empty_p99_us", empty_p99),
            ("p99_ratio", ratio(&self.loaded.p99s, &self.empty.p99s)),
        ];
        Point { at, values }
    }
}

/// The median of the ratios of each turn: whatever slows a turn down slows both sides of it.
pub(crate) fn ratio(loaded: &[f64], empty: &[f64]) -> f64 {
    median(
        &loaded
            .iter()
            .zip(empty)
            .map(|(loaded, empty)| loaded / empty)
            .collect::<Vec<_>>(),
    )
}

impl Side {
    /// Adds a turn: its rate, and the latencies of its tasks.
    pub(crate) fn add(&mut self, rate: f64, latencies: &[f64]) {
        self.rates.push(rate);
        self.p50s.push(latency::at(latencies, 0.50));
        self.p99s.push(latency::at(latencies, 0.99));
    }
}
