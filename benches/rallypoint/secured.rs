//! What it costs to be safe and seen: the same load on a server with TLS, tokens, metrics that are
//! scraped every second and traces of every hundredth call, and on one with none of that. They take
//! turns, and alternate in who begins, so that other load on the machine affects both alike.

mod watched;

use crate::{
    environment::{Environment, Server},
    latency::{self, Tasks},
    load,
    paired::ratio,
    report::{Report, median},
};
use anyhow::Result;
use rallypoint_client::{Client, api::SchedulerSettings};
use std::time::Duration;
use watched::Watched;

const PER_CALL: u64 = 100;
const CALLERS: u64 = 64;
/// For each hundred tasks of the throughput, so many are made one a call, and one at a time.
const UNARY_PERCENT: u64 = 20;
const ONE_BY_ONE_PERCENT: u64 = 1;
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The figures of one server, turn by turn.
#[derive(Default)]
struct Side {
    /// Tasks per second, 100 a call.
    throughput: Vec<f64>,
    /// Tasks per second, one a call.
    unary: Vec<f64>,
    /// Tasks per second, one at a time: the median's, so that more is better here, too.
    one_by_one: Vec<f64>,
}

pub(crate) async fn run(total: u64, runs: usize) -> Result<Report> {
    let environment = Environment::new().await?;
    let plain = environment
        .server(&environment.database("bench").await?)
        .await?;
    let watched = Watched::start(&environment, &environment.database("secured").await?).await?;
    let clients = [connect(&plain).await?, watched.client().await?];
    let (mut without, mut with) = (Side::default(), Side::default());
    for client in &clients {
        // The first tasks warm up connections and plans.
        Side::default().add(client, total / 10).await?;
    }
    for run in 0..runs {
        let mut sides = [(&clients[0], &mut without), (&clients[1], &mut with)];
        sides.rotate_left(run % 2);
        for (client, side) in sides {
            side.add(client, total).await?;
        }
    }
    let seen = watched.seen().await?;
    let throughput = ratio(&with.throughput, &without.throughput);
    Ok(Report {
        name: "secured",
        figure: median(&with.throughput),
        unit: "tasks/s",
        baseline: (
            "the same load on a server without TLS, tokens, metrics and traces",
            median(&without.throughput),
        ),
        ratio: throughput,
        also: vec![
            ("unary_per_s", median(&with.unary)),
            ("unary_ratio", ratio(&with.unary, &without.unary)),
            ("latency_p50_us", 1e6 / median(&with.one_by_one)),
            (
                "latency_ratio",
                ratio(&with.one_by_one, &without.one_by_one),
            ),
            ("spans_received", seen.spans),
            ("scrapes", seen.scrapes),
        ],
        runs: with.throughput,
        ran: format!(
            "{total} no-op tasks with 200-byte bodies, {PER_CALL} a call, {CALLERS} callers; {UNARY_PERCENT} % \
             as many one a call, and {ONE_BY_ONE_PERCENT} % as many one at a time; latencies as \
             rates; a scrape a second and 1 % of the calls traced; medians of the ratios of each turn"
        ),
    })
}

impl Side {
    /// A turn of all three.
    async fn add(&mut self, client: &Client, total: u64) -> Result<()> {
        self.throughput.push(rate(client, total, PER_CALL).await?);
        let unary = (total * UNARY_PERCENT / 100).max(CALLERS);
        self.unary.push(rate(client, unary, 1).await?);
        let count = (total * ONE_BY_ONE_PERCENT / 100).max(1);
        let took = Tasks::by(client, load::task).await?.run(count).await?;
        self.one_by_one.push(1e6 / latency::at(&took, 0.50));
        Ok(())
    }
}

async fn rate(client: &Client, total: u64, per_call: u64) -> Result<f64> {
    let calls = load::calls(total, per_call, load::task);
    let took = load::drive_by(client, SchedulerSettings::default(), calls, CALLERS).await?;
    Ok(total as f64 / took.as_secs_f64())
}

async fn connect(server: &Server) -> Result<Client> {
    Ok(Client::connect(&server.address).await?)
}
