//! Runs every bench in a process of its own, one after the other, and writes `RESULTS.md` and the
//! charts.

use crate::{Name, machine::Machine, results};
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde_json::Value;
use std::{fs, path::Path, process::Stdio};
use tokio::process::Command;

/// Runs the benches in `only`, or all, and writes into the folder `into`. Returns those that
/// failed.
pub(crate) async fn run(
    into: &Path,
    only: &[Name],
    runs: u64,
    max_size: Option<u64>,
) -> Result<Vec<String>> {
    let machine = Machine::here().await?;
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    for name in Name::value_variants()
        .iter()
        .filter(|name| name.is_measured() && (only.is_empty() || only.contains(name)))
    {
        let name = name
            .to_possible_value()
            .context("every bench has a name")?
            .get_name()
            .to_owned();
        eprintln!("measuring {name} …");
        match measure(&name, runs, max_size).await {
            Ok(result) => found.push(result),
            Err(error) => {
                eprintln!("{name}: {error:#}");
                failed.push(name);
            }
        }
    }
    fs::create_dir_all(into).with_context(|| format!("cannot make {}", into.display()))?;
    fs::write(
        into.join("RESULTS.md"),
        results::page(&machine, runs, &found, &failed),
    )?;
    for (name, svg) in found.iter().filter_map(results::chart) {
        fs::write(into.join(name), svg)?;
    }
    Ok(failed)
}

async fn measure(name: &str, runs: u64, max_size: Option<u64>) -> Result<Value> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([name, "--runs", &runs.to_string(), "-o", "json"]);
    if let Some(max_size) = max_size {
        command.args(["--most", &max_size.to_string()]);
    }
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await?;
    ensure!(output.status.success(), "it ended with {}", output.status);
    serde_json::from_slice(&output.stdout).context("its output is not a result")
}
