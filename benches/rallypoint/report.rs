//! The result of a bench: a figure, its baseline, and the ratio of the two.

use serde_json::{Map, Value, json};
use std::fmt;

/// The result of one bench.
#[derive(Debug)]
pub(crate) struct Report {
    pub name: &'static str,
    /// The median.
    pub figure: f64,
    pub unit: &'static str,
    /// Every run.
    pub runs: Vec<f64>,
    /// Description of the baseline, and its median in the same run.
    pub baseline: (&'static str, f64),
    /// figure / baseline.
    pub ratio: f64,
    /// Other figures of the run.
    pub also: Vec<(&'static str, f64)>,
    /// What was run.
    pub ran: String,
}

impl Report {
    /// As one JSON object.
    pub(crate) fn json(&self) -> Value {
        let mut also = Map::new();
        for (name, value) in &self.also {
            also.insert((*name).to_owned(), json!(round(*value)));
        }
        json!({
            "name": self.name,
            "figure": round(self.figure),
            "unit": self.unit,
            "runs": self.runs.iter().copied().map(round).collect::<Vec<_>>(),
            "yardstick": { "what": self.baseline.0, "figure": round(self.baseline.1) },
            "ratio": round(self.ratio),
            "also": also,
            "ran": self.ran,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs: Vec<String> = self
            .runs
            .iter()
            .map(|run| format!("{}", round(*run)))
            .collect();
        writeln!(
            f,
            "{}: {} {} (median of {})",
            self.name,
            round(self.figure),
            self.unit,
            runs.join(", ")
        )?;
        writeln!(
            f,
            "baseline: {} {} ({})",
            round(self.baseline.1),
            self.unit,
            self.baseline.0
        )?;
        writeln!(f, "ratio: {}", round(self.ratio))?;
        for (name, value) in &self.also {
            writeln!(f, "{name}: {}", round(*value))?;
        }
        writeln!(f, "ran: {}", self.ran)
    }
}

/// The middle one.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Three digits after the point are enough for a ratio; none for a rate.
pub(crate) fn round(value: f64) -> f64 {
    if value.abs() >= 1_000.0 {
        value.round()
    } else {
        (value * 1_000.0).round() / 1_000.0
    }
}
