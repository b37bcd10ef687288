//! No-op tasks end to end over gRPC, durable, one task a call, against the same calls to the null
//! server.

use crate::{
    environment::{Environment, Server},
    null_server,
    report::{Report, median},
};
use anyhow::{Result, ensure};
use rallypoint_client::{
    Client, DoneStream, Scheduler,
    api::{ExecAsyncRequest, SchedulerSettings, until},
};
use std::time::{Duration, Instant};
use tonic::transport::Channel;

const CALLERS: u64 = 64;
/// The service and the null server alternate in turns of this many calls, so that other load on the
/// machine affects both.
const TURN: u64 = 10_000;

pub(crate) async fn run(total: u64, runs: usize) -> Result<Report> {
    let environment = Environment::new().await?;
    let database = environment.database("bench").await?;
    let (server, null_server) = (environment.server(&database).await?, Server::null().await?);
    let mut service = Service::open(&server.address).await?;
    let null = null_server::channel(&null_server.address).await?;
    service.call(total / 20).await?;
    let (mut rates, mut null_rates) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let (mut took, mut null_took, mut made) = (Duration::ZERO, Duration::ZERO, 0);
        while made < total {
            let turn = TURN.min(total - made);
            took += service.call(turn).await?;
            null_took += call_null(&null, service.requests(turn)).await?;
            made += turn;
        }
        rates.push(total as f64 / took.as_secs_f64());
        null_rates.push(total as f64 / null_took.as_secs_f64());
    }
    let (figure, baseline) = (median(&rates), median(&null_rates));
    Ok(Report {
        name: "unary",
        figure,
        unit: "calls/s",
        runs: rates,
        baseline: (
            "the same calls answered at once by a process that does nothing with them",
            baseline,
        ),
        ratio: figure / baseline,
        also: Vec::new(),
        ran: format!(
            "{total} calls with one no-op task of 200 bytes each, {CALLERS} callers, one \
             scheduler, durable; by turns of {TURN}"
        ),
    })
}

/// A scheduler and its stream.
struct Service {
    channel: Channel,
    scheduler: Scheduler,
    stream: DoneStream,
}

impl Service {
    async fn open(address: &str) -> Result<Self> {
        let scheduler = Client::connect(address)
            .await?
            .open(SchedulerSettings::default())
            .await?;
        let stream = scheduler
            .synchronize(0, Some(until::Kind::Forever(())))
            .await?;
        Ok(Service {
            channel: null_server::channel(address).await?,
            scheduler,
            stream,
        })
    }

    fn requests(&self, count: u64) -> Vec<ExecAsyncRequest> {
        null_server::requests(self.scheduler.handle(), count)
    }

    /// Time of `count` calls, until the last AsyncDone. The calls are those of the baseline.
    async fn call(&mut self, count: u64) -> Result<Duration> {
        let last = self.stream.cursor() + count as i64;
        let requests = self.requests(count);
        let start = Instant::now();
        let calling = tokio::spawn(null_server::call_all(
            self.channel.clone(),
            requests,
            CALLERS,
        ));
        while self.stream.cursor() < last && self.stream.next().await?.is_some() {}
        let took = start.elapsed();
        calling.await??;
        ensure!(
            self.stream.cursor() == last,
            "{} of {last} tasks are done",
            self.stream.cursor()
        );
        Ok(took)
    }
}

async fn call_null(channel: &Channel, requests: Vec<ExecAsyncRequest>) -> Result<Duration> {
    let start = Instant::now();
    null_server::call_all(channel.clone(), requests, CALLERS).await?;
    Ok(start.elapsed())
}
