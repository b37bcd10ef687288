//! How long calls of somebody else take while HTTP/2 is abused on the server, against the same
//! calls just before: each kind of abuse by itself, and all of them together.
//!
//! The abusers run on the same processors as the server, so the ratio holds what they take of these
//! themselves, too.

use crate::{
    abusers::{Abuse, Abusers},
    environment::{Environment, Server},
    latency::at,
    load,
    paired::ratio,
    report::{Report, median},
};
use anyhow::{Context, Result, ensure};
use rallypoint_client::{Client, api::SchedulerSettings};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    runtime,
    task::{JoinHandle, spawn_blocking},
    time::{Instant, sleep},
};

/// The server recovers between two kinds.
const REST: Duration = Duration::from_secs(1);
/// How long it may take until all silent sockets are there.
const OPENING: Duration = Duration::from_secs(60);
const TOGETHER: &str = "all together";
/// What is done at a time, and how its ratio is called.
const PARTS: [(&str, &[Abuse]); 7] = [
    ("rapid_reset_ratio", &[Abuse::RapidReset]),
    ("header_flood_ratio", &[Abuse::HeaderFlood]),
    ("zero_window_ratio", &[Abuse::ZeroWindow]),
    ("half_sent_ratio", &[Abuse::HalfSent]),
    ("unread_errors_ratio", &[Abuse::UnreadErrors]),
    ("silent_sockets_ratio", &[Abuse::SilentSockets]),
    (TOGETHER, &Abuse::ALL),
];

/// p99 in microseconds, run by run, without a kind of abuse and with it.
#[derive(Default)]
struct Sides {
    without: Vec<f64>,
    with: Vec<f64>,
}

/// `seconds`: how long others call without, and with each kind.
pub(crate) async fn run(seconds: u64, runs: usize) -> Result<Report> {
    let environment = Environment::new().await?;
    let database = environment.database("bench").await?;
    let server = environment.server(&database).await?;
    let turn = Duration::from_secs(seconds);
    // The first calls warm up connections and plans.
    Others::start(&server).p99(turn).await?;
    let before = server.usage()?.mib();
    let mut parts = PARTS.map(|(name, kinds)| (name, kinds, Sides::default()));
    let mut silent = 0;
    for _ in 0..runs {
        for (_, kinds, sides) in &mut parts {
            sides.without.push(Others::start(&server).p99(turn).await?);
            let others = Others::start(&server);
            let address = server.address.trim_start_matches("http://");
            let abusers = Abusers::begin(address.parse()?, kinds);
            let begun = Instant::now();
            while begun.elapsed() < turn || abusers.silent().0 < abusers.silent().1 {
                ensure!(
                    begun.elapsed() < OPENING,
                    "the silent sockets cannot connect"
                );
                sleep(Duration::from_millis(20)).await;
            }
            silent = silent.max(abusers.silent().0);
            sides.with.push(others.p99(Duration::ZERO).await?);
            drop(abusers);
            sleep(REST).await;
        }
    }
    let memory = [before, server.usage()?.peak_mib()];
    report(parts, memory, silent, seconds)
}

fn report(
    mut parts: [(&'static str, &[Abuse], Sides); PARTS.len()],
    [before, most]: [f64; 2],
    silent: usize,
    seconds: u64,
) -> Result<Report> {
    let [alone @ .., (_, _, together)] = &mut parts;
    let ratios = alone.iter();
    let ratios = ratios.map(|(name, _, sides)| (*name, ratio(&sides.with, &sides.without)));
    let mut also: Vec<(&'static str, f64)> = ratios.collect();
    also.extend([
        ("silent_sockets", silent as f64),
        ("memory_before_mib", before),
        ("memory_at_most_mib", most),
    ]);
    Ok(Report {
        name: "http2-abuse",
        figure: median(&together.with),
        unit: "us (p99 of others, all kinds of abuse together)",
        baseline: (
            "the same calls on the same server just before",
            median(&together.without),
        ),
        ratio: ratio(&together.with, &together.without),
        runs: std::mem::take(&mut together.with),
        also,
        ran: format!(
            "a caller submits one no-op task of 200 bytes after the other, durable, for {seconds} s \
             without and {seconds} s or more with each abuse, by turns; 4 connections of each kind, \
             which come back when they are hung up on; medians of the ratios of each turn"
        ),
    })
}

/// Somebody who calls, on a thread of its own: no abuser is before it in a queue of this process.
struct Others {
    calls: JoinHandle<Result<Vec<f64>>>,
    stopping: Arc<AtomicBool>,
}

impl Others {
    fn start(server: &Server) -> Others {
        let stopping = Arc::new(AtomicBool::new(false));
        let (address, until) = (server.address.clone(), stopping.clone());
        let calls = spawn_blocking(move || {
            let runtime = runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(call(&address, &until))
        });
        Others { calls, stopping }
    }

    /// The p99 of its calls, in microseconds, after this time.
    async fn p99(self, after: Duration) -> Result<f64> {
        sleep(after).await;
        self.stopping.store(true, Ordering::Relaxed);
        Ok(at(&self.calls.await.context("a caller has died")??, 0.99))
    }
}

/// How long each call took, in microseconds.
async fn call(address: &str, until: &AtomicBool) -> Result<Vec<f64>> {
    let scheduler = Client::connect(address)
        .await?
        .open(SchedulerSettings::default())
        .await?;
    let mut took = Vec::new();
    while !until.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let number = took.len() as u64;
        scheduler.exec(vec![load::task(number)]).await?;
        took.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    Ok(took)
}
