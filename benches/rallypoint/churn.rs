//! Schedulers opened and released at full speed: whether memory stays level. The highest of the
//! last rounds is compared with the highest of as many before them, because one reading moves by a
//! tenth with what the allocator has just given back.

use crate::{
    environment::{Environment, Server},
    report::Report,
};
use anyhow::Result;
use rallypoint_client::{
    Client,
    api::{ReleaseMode, SchedulerSettings},
};
use std::time::Instant;
use tokio::task::JoinSet;

const CALLERS: u64 = 64;
/// Rounds of equal length; memory is read after each.
const ROUNDS: u64 = 18;
/// Rounds at the end that are judged.
const LAST: usize = 5;

pub(crate) async fn run(total: u64) -> Result<Report> {
    let environment = Environment::new().await?;
    let database = environment.database("bench_churn").await?;
    let server = environment.server(&database).await?;
    let (mut memory, start) = (Vec::new(), Instant::now());
    for _ in 0..ROUNDS {
        round(&server, total / ROUNDS / CALLERS).await?;
        memory.push(server.usage()?.mib());
    }
    let rate = total as f64 / start.elapsed().as_secs_f64();
    let highest = |rounds: &[f64]| rounds.iter().copied().fold(0.0, f64::max);
    let (earlier, last) = memory.split_at(memory.len() - LAST);
    let before = highest(&earlier[earlier.len() - LAST..]);
    let most = highest(last);
    Ok(Report {
        name: "churn",
        figure: most,
        unit: "MiB",
        runs: memory,
        baseline: ("the highest memory of the rounds before", before),
        ratio: most / before,
        also: vec![("opened_and_released_per_s", rate)],
        ran: format!(
            "{total} schedulers opened and released by {CALLERS} callers, in {ROUNDS} rounds; the \
             highest memory of the last {LAST}, and of the {LAST} before"
        ),
    })
}

async fn round(server: &Server, each: u64) -> Result<()> {
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let client = Client::connect(&server.address).await?;
        callers.spawn(async move {
            for _ in 0..each {
                let scheduler = client.open(SchedulerSettings::default()).await?;
                scheduler.release(ReleaseMode::Finish, false).await?;
            }
            Ok::<_, rallypoint_client::Error>(())
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    Ok(())
}
