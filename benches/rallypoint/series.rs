//! Figures at growing sizes, for benches that measure the cost of size. The report is that of the
//! largest size.

use crate::report::{Report, round};
use serde_json::{Map, Value, json};
use std::fmt;

/// A report and the figures at each size; no points for a bench of one size.
#[derive(Debug)]
pub(crate) struct Measured {
    pub report: Report,
    /// The name of the size.
    pub by: &'static str,
    pub points: Vec<Point>,
}

/// The figures at one size.
#[derive(Debug)]
pub(crate) struct Point {
    pub at: u64,
    pub values: Vec<(&'static str, f64)>,
}

impl Measured {
    /// The JSON of the report, with an object per size in `series`.
    pub(crate) fn json(&self) -> Value {
        let mut all = self.report.json();
        if !self.points.is_empty() {
            all["series"] = self
                .points
                .iter()
                .map(|point| point.json(self.by))
                .collect();
        }
        all
    }
}

impl Point {
    fn json(&self, by: &str) -> Value {
        let mut fields = Map::from_iter([(by.to_owned(), json!(self.at))]);
        fields.extend(
            self.values
                .iter()
                .map(|(name, value)| (name.to_string(), json!(round(*value)))),
        );
        Value::Object(fields)
    }
}

impl From<Report> for Measured {
    fn from(report: Report) -> Self {
        Measured {
            report,
            by: "",
            points: Vec::new(),
        }
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.report.fmt(f)?;
        for point in &self.points {
            let values: Vec<String> = point
                .values
                .iter()
                .map(|(name, value)| format!("{name} {}", round(*value)))
                .collect();
            writeln!(f, "{} {}: {}", point.at, self.by, values.join(", "))?;
        }
        Ok(())
    }
}
