//! How long the views of the page take in a browser, on a server with very many schedulers and
//! tasks, against a server with few.
//!
//! `benches/page.js` drives the browser. A view is whole when everything that it asked for on its
//! way in is drawn; a forecast, which is drawn when it is known, is not waited for.

mod filled;

use crate::{
    environment::{Environment, Server},
    report::{Report, median},
};
use anyhow::{Context, Result, ensure};
use filled::Filled;
use serde::Deserialize;
use serde_json::json;
use std::{collections::HashMap, path::Path, process::Stdio};
use tokio::{io::AsyncWriteExt, process::Command};

/// What a view may take, in milliseconds.
const LIMIT_MS: f64 = 300.0;
/// The overview in a browser that has never seen the page: with its files, so not one of the views.
const FIRST_LOAD: &str = "first_load_ms";
/// Repetitions of each view in a run.
const REPEAT: usize = 5;
/// Tasks and schedulers of the server with few.
const FEW: (u64, u64) = (1_000, 10);

/// The times of a view in milliseconds.
#[derive(Debug, Default, Deserialize)]
struct Times {
    /// Until its first figures are drawn.
    drawn: Vec<f64>,
    /// Until all of it is drawn.
    whole: Vec<f64>,
    /// Its slowest call.
    slowest: (String, f64),
}

type Found = HashMap<String, Times>;

/// `schedulers` open ones, and `total` tasks in them.
pub(crate) async fn run(total: u64, schedulers: u64, runs: usize) -> Result<Report> {
    let environment = Environment::new().await?;
    let few = measured(&environment, "bench_page_few", FEW, 1).await?;
    let many = measured(&environment, "bench_page", (total, schedulers), runs).await?;
    let views = || filled::VIEWS.iter().map(|(name, _)| *name);
    let mut medians = Vec::new();
    for name in views().chain([FIRST_LOAD]) {
        let times = many
            .get(name)
            .with_context(|| format!("{name} is missing"))?;
        tell(name, times);
        medians.push((name, median(&times.whole)));
    }
    let slowest = |found: &Found| {
        let whole = views().filter_map(|name| Some(median(&found.get(name)?.whole)));
        whole.fold(0.0, f64::max)
    };
    let (figure, baseline) = (slowest(&many), slowest(&few));
    Ok(Report {
        name: "page",
        figure,
        unit: "ms",
        runs: medians.iter().map(|(_, median)| *median).collect(),
        baseline: ("the slowest view of a server with few tasks", baseline),
        ratio: figure / baseline,
        also: medians,
        ran: format!(
            "every view of the page opened {} times in Chromium, at {schedulers} open schedulers \
             with {total} tasks; the figure is the median of the slowest view, from the click until \
             all of it is drawn",
            runs * REPEAT
        ),
    })
}

/// Says how long a view took, and whether that is soon enough.
fn tell(name: &str, times: &Times) {
    let (whole, most) = (
        median(&times.whole),
        times.whole.iter().copied().fold(0.0, f64::max),
    );
    let verdict = match whole <= LIMIT_MS {
        true => "within",
        false => "OVER",
    };
    let (call, took) = &times.slowest;
    eprintln!(
        "{name}: whole after {whole:.0} ms ({verdict} {LIMIT_MS} ms), at most {most:.0} ms; first \
         figures after {:.0} ms; slowest call {call} {took:.0} ms",
        median(&times.drawn)
    );
}

async fn measured(
    environment: &Environment,
    name: &str,
    (total, schedulers): (u64, u64),
    runs: usize,
) -> Result<Found> {
    let database = environment.database(name).await?;
    let server = environment.server(&database).await?;
    let filled = Filled::with(&server.address, total, schedulers).await?;
    environment.checkpoint().await?;
    browse(&server, &filled, runs * REPEAT).await
}

/// Opens every view in a browser.
async fn browse(server: &Server, filled: &Filled, repeat: usize) -> Result<Found> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let installed = Command::new(root.join(".ci/browser"))
        .stderr(Stdio::inherit())
        .output()
        .await?;
    ensure!(
        installed.status.success(),
        "there is no browser: see .ci/browser"
    );
    let installed = String::from_utf8(installed.stdout)?;
    let (chromium, modules) = installed.trim().split_once('\n').context("two lines")?;
    let mut script = Command::new("node")
        .arg(root.join("benches/page.js"))
        .args([server.address.as_str(), chromium])
        .env("NODE_PATH", modules)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .context("node does not run")?;
    let asked = json!({ "repeat": repeat, "views": filled.views() }).to_string();
    let mut stdin = script.stdin.take().context("it takes what is asked")?;
    stdin.write_all(asked.as_bytes()).await?;
    drop(stdin);
    let answer = script.wait_with_output().await?;
    ensure!(answer.status.success(), "the browser failed");
    serde_json::from_slice(&answer.stdout).context("times of the views")
}
