//! How long somebody who runs nothing waits while others flood the slots, whatever everybody did
//! before: random histories of five callers in two namespaces, then a flood, then one of them comes
//! back with a single task.

use crate::{
    environment::Environment,
    latency::at,
    report::{Report, median},
};
use anyhow::Result;
use rallypoint_client::{
    Client, DoneStream, Scheduler,
    api::{ReleaseMode, SchedulerSettings, SqlTask, Task, task::Kind, until},
};
use std::time::{Duration, Instant};
use tokio::time::sleep;

const SLOTS: u64 = 8;
/// Length of a task of the flood.
const LENGTH: Duration = Duration::from_millis(500);
/// What a caller does before the flood, in all.
const PAST: u64 = 5;
const CALLERS: usize = 5;

pub(crate) async fn run(histories: u64) -> Result<Report> {
    let environment = Environment::new().await?;
    let database = environment.database("bench_fairness").await?;
    let slots = SLOTS.to_string();
    let options = ["--slots", &slots, "--trusted-namespace-metadata"];
    let server = environment.server_with(&database, &options).await?;
    let client = Client::connect(&server.address).await?;
    let mut waits = Vec::new();
    for number in 0..histories {
        waits.push(History::begin(&client, number).await?.wait().await? * 1e3);
    }
    let (figure, length) = (
        waits.iter().copied().fold(0.0, f64::max),
        LENGTH.as_secs_f64() * 1e3,
    );
    let (middle, most) = (median(&waits), at(&waits, 0.9));
    Ok(Report {
        name: "fairness",
        figure,
        unit: "ms (slowest)",
        runs: waits,
        baseline: ("the length of a task of the flood", length),
        ratio: figure / length,
        also: vec![("median_ms", middle), ("p90_ms", most)],
        ran: format!(
            "{histories} random histories of {CALLERS} callers in two namespaces on {SLOTS} slots, \
             then a flood, then one task of a caller that runs nothing: from its call to its AsyncDone"
        ),
    })
}

/// The callers of one history, and the state of its random numbers.
struct History {
    callers: Vec<Scheduler>,
    random: u64,
}

impl History {
    async fn begin(client: &Client, number: u64) -> Result<History> {
        let mut callers = Vec::new();
        for at in 0..CALLERS {
            let namespace = ["one", "other"][at % 2];
            let client = client.clone().with_namespace(namespace)?;
            callers.push(client.open(SchedulerSettings::default()).await?);
        }
        let random = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Ok(History { callers, random })
    }

    /// Lives through the past and the flood; seconds that the returning caller waits.
    async fn wait(mut self) -> Result<f64> {
        for _ in 0..PAST {
            self.happen().await?;
        }
        let (back, flood) = (self.below(4) as usize, self.callers[4].clone());
        for caller in &self.callers {
            until_end(caller.synchronize(0, None).await?).await?;
        }
        flood.exec(vec![sleeping(LENGTH); 200]).await?;
        sleep(Duration::from_millis(self.below(1_500))).await;
        let start = Instant::now();
        let done = self.callers[back]
            .exec(vec![sleeping(Duration::ZERO)])
            .await?;
        let until = Some(until::Kind::Count(1));
        until_end(self.callers[back].synchronize(done.done_no, until).await?).await?;
        let waited = start.elapsed().as_secs_f64();
        for caller in &self.callers {
            caller.release(ReleaseMode::Cancel, true).await?;
        }
        Ok(waited)
    }

    /// Somebody works, alone or beside others, wide or one task at a time.
    async fn happen(&mut self) -> Result<()> {
        let who = self.below(4) as usize;
        let settings = SchedulerSettings {
            max_parallelism: (self.below(3) == 0).then_some(1),
            ..Default::default()
        };
        self.callers[who]
            .update(settings, &["max_parallelism"])
            .await?;
        let (count, length) = (1 + self.below(40), 10 + self.below(200));
        let tasks = vec![sleeping(Duration::from_millis(length)); count as usize];
        self.callers[who].exec(tasks).await?;
        sleep(Duration::from_millis(self.below(1_000))).await;
        Ok(())
    }

    /// A number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % limit
    }
}

async fn until_end(mut stream: DoneStream) -> Result<()> {
    while stream.next().await?.is_some() {}
    Ok(())
}

/// A task that takes so long.
fn sleeping(length: Duration) -> Task {
    Task {
        kind: Some(Kind::Sql(SqlTask {
            statement: format!("select pg_sleep({})", length.as_secs_f64()),
            ..Default::default()
        })),
        order: None,
        options: None,
    }
}
