//! `RESULTS.md`: the figure of every bench beside its baseline, with the machine and the versions
//! on which they were measured. It reads the JSON that the benches print and knows nothing of what
//! they measure.

use crate::{
    chart::Chart,
    machine::Machine,
    report::{median, round},
};
use serde_json::{Value, json};
use std::fmt::Write;

/// The whole page. `failed`: benches without a result.
pub(crate) fn page(machine: &Machine, runs: u64, results: &[Value], failed: &[String]) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_page(machine, runs, results, failed, &mut out);
    out
}

/// File name and text of the chart of a bench with a series; `None` for other benches.
pub(crate) fn chart(result: &Value) -> Option<(String, String)> {
    let (name, series) = (result["name"].as_str()?, result["series"].as_array()?);
    let by = by(series.first()?)?;
    let values = |name: &str| {
        series
            .iter()
            .filter_map(|point| point[name].as_f64())
            .collect::<Vec<_>>()
    };
    let (loaded, empty) = (values("tasks_per_s"), values("empty_tasks_per_s"));
    let x_label = by.replace('_', " ");
    let title = format!("Throughput against {x_label}");
    let lines = vec![
        ("with it", "#1f6feb", loaded),
        ("empty server, same run", "#999999", empty),
    ];
    let chart = Chart {
        title: &title,
        x_label: &x_label,
        y_label: "tasks/s",
        positions: values(by),
        lines,
    };
    Some((format!("{name}.svg"), chart.svg()))
}

fn write_page(
    machine: &Machine,
    runs: u64,
    results: &[Value],
    failed: &[String],
    out: &mut String,
) -> std::fmt::Result {
    writeln!(
        out,
        "# Results\n\nWritten by `make bench`. Machines differ and ratios travel: \
         every figure stands beside a baseline"
    )?;
    writeln!(
        out,
        "measured in the same run on the same machine, \
         which runs client, server and Postgres together.\n"
    )?;
    writeln!(
        out,
        "{machine}\nruns of each bench: {runs}; median, and lowest to highest of them\n"
    )?;
    writeln!(
        out,
        "| bench | figure | lowest – highest | baseline | ratio |\n|---|---|---|---|---|"
    )?;
    for result in results {
        let all: Vec<f64> = result["runs"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_f64)
            .collect();
        let least = all.iter().copied().fold(median(&all), f64::min);
        let most = all.iter().copied().fold(median(&all), f64::max);
        let (name, unit) = (text(&result["name"]), text(&result["unit"]));
        let spread = format!("{} – {}", number(&json!(least)), number(&json!(most)));
        let (figure, baseline) = (
            number(&result["figure"]),
            number(&result["yardstick"]["figure"]),
        );
        writeln!(
            out,
            "| {name} | {figure} {unit} | {spread} | {baseline} | {} |",
            number(&result["ratio"])
        )?;
    }
    for name in failed {
        writeln!(out, "| {name} | failed | | | |")?;
    }
    results.iter().try_for_each(|result| detail(result, out))
}

fn detail(result: &Value, out: &mut String) -> std::fmt::Result {
    let name = text(&result["name"]);
    writeln!(
        out,
        "\n## {name}\n\n{}.\n\nBaseline: {}.\n",
        text(&result["ran"]),
        text(&result["yardstick"]["what"])
    )?;
    for (name, value) in result["also"].as_object().into_iter().flatten() {
        writeln!(out, "- {name}: {}", number(value))?;
    }
    let Some(series) = result["series"].as_array() else {
        return Ok(());
    };
    let Some(by) = series.first().and_then(by) else {
        return Ok(());
    };
    let columns: Vec<&String> = series[0]
        .as_object()
        .into_iter()
        .flat_map(|point| point.keys())
        .filter(|key| *key != by)
        .collect();
    let heads: Vec<String> = columns
        .iter()
        .map(|column| column.replace('_', " "))
        .collect();
    writeln!(
        out,
        "\n| {} | {} |",
        by.replace('_', " "),
        heads.join(" | ")
    )?;
    writeln!(out, "|---{}|", "|---".repeat(columns.len()))?;
    for point in series {
        let values: Vec<String> = columns
            .iter()
            .map(|column| number(&point[column.as_str()]))
            .collect();
        writeln!(out, "| {} | {} |", number(&point[by]), values.join(" | "))?;
    }
    writeln!(out, "\n![throughput]({name}.svg)")
}

/// The column of a series that holds the sizes.
fn by(point: &Value) -> Option<&'static str> {
    ["queued", "open_schedulers"]
        .into_iter()
        .find(|name| point.get(name).is_some())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The number with its digits in groups of three.
pub(crate) fn number(value: &Value) -> String {
    let Some(value) = value.as_f64() else {
        return "–".to_owned();
    };
    let value = round(value);
    if value.abs() < 10_000.0 {
        return value.to_string();
    }
    let digits = format!("{value:.0}");
    let cut = digits.len() % 3;
    let (head, tail) = digits.split_at(cut);
    let groups = tail
        .as_bytes()
        .chunks(3)
        .map(|group| String::from_utf8_lossy(group).into_owned());
    std::iter::once(head.to_owned())
        .filter(|head| !head.is_empty())
        .chain(groups)
        .collect::<Vec<_>>()
        .join(" ")
}
