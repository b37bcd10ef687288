//! Two servers side by side, one of them empty, and what the same load takes on both. They take
//! turns, and begin by turns, so that what else the machine does falls on both alike.

use crate::{latency, load, report::median, series::Point};
use anyhow::Result;

const PER_CALL: u64 = 100;
const CALLERS: u64 = 64;
/// Tasks of one turn whose time is taken one by one.
const ONE_BY_ONE: u64 = 1_500;

/// What came out.
#[derive(Debug, Default)]
pub(crate) struct Duel {
    pub empty: Side,
    pub loaded: Side,
}

/// One server's figures, turn by turn.
#[derive(Debug, Default)]
pub(crate) struct Side {
    /// Tasks per second, from the first call to the last AsyncDone.
    pub rates: Vec<f64>,
    /// Microseconds from a call to its AsyncDone.
    pub p50s: Vec<f64>,
    pub p99s: Vec<f64>,
}

impl Duel {
    /// New schedulers on both servers: `total` no-op tasks for the rate, then some one at a time
    /// for the latency.
    pub(crate) async fn fight(empty: &str, loaded: &str, turns: usize, total: u64) -> Result<Duel> {
        let mut duel = Duel::default();
        for turn in 0..turns {
            let mut sides = [(empty, &mut duel.empty), (loaded, &mut duel.loaded)];
            sides.rotate_left(turn % 2);
            for (address, side) in sides {
                let took = load::drive(address, total, PER_CALL, CALLERS).await?;
                side.add(
                    total as f64 / took.as_secs_f64(),
                    &latency::tasks(address, ONE_BY_ONE).await?,
                );
            }
        }
        Ok(duel)
    }

    /// Its medians, and the medians of the turns' ratios of the loaded server to the empty one.
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

/// The median of the turns' ratios: what slows a whole turn down slows both sides of it.
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
    /// Takes in a turn: its rate, and the latencies of its tasks.
    pub(crate) fn add(&mut self, rate: f64, latencies: &[f64]) {
        self.rates.push(rate);
        self.p50s.push(latency::at(latencies, 0.50));
        self.p99s.push(latency::at(latencies, 0.99));
    }
}
