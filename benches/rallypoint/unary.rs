//! No-op tasks end to end over gRPC, durable, one task a call, against bare unary gRPC calls in the
//! same run.

use crate::{
    environment::{Environment, Server},
    null_server,
    report::{Report, median},
};
use anyhow::{Result, ensure};
use rallypoint_client::{
    Client, DoneStream, Scheduler,
    api::{ExecAsyncRequest, SchedulerSettings, Unit, until},
};
use std::time::{Duration, Instant};
use tonic::transport::Channel;

const CALLERS: u64 = 64;
/// The service and the bare process take turns of so many calls, so that what else the machine does
/// falls on both.
const TURN: u64 = 10_000;

pub(crate) async fn run(total: u64, runs: usize) -> Result<Report> {
    let environment = Environment::new().await?;
    let database = environment.database("bench").await?;
    let (server, nothing) = (environment.server(&database).await?, Server::bare().await?);
    let mut service = Service::open(&server.address).await?;
    let bare = null_server::channel(&nothing.address).await?;
    service.call(total / 20).await?;
    let (mut rates, mut bare_rates) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let (mut took, mut bare_took, mut made) = (Duration::ZERO, Duration::ZERO, 0);
        while made < total {
            let turn = TURN.min(total - made);
            took += service.call(turn).await?;
            bare_took += call_bare(&bare, service.requests(turn)).await?;
            made += turn;
        }
        rates.push(total as f64 / took.as_secs_f64());
        bare_rates.push(total as f64 / bare_took.as_secs_f64());
    }
    let (figure, yardstick) = (median(&rates), median(&bare_rates));
    Ok(Report {
        name: "unary",
        figure,
        unit: "calls/s",
        runs: rates,
        yardstick: (
            "the same calls answered at once by a process that does nothing with them",
            yardstick,
        ),
        ratio: figure / yardstick,
        also: Vec::new(),
        ran: format!(
            "{total} calls with one no-op task of 200 bytes each, {CALLERS} callers, one scheduler, durable; by turns of {TURN}"
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
            .synchronize(0, Some(until::Kind::Forever(Unit {})))
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

    /// How long so many calls take, until the last AsyncDone has come. The calls are those of the
    /// yardstick.
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

async fn call_bare(channel: &Channel, requests: Vec<ExecAsyncRequest>) -> Result<Duration> {
    let start = Instant::now();
    null_server::call_all(channel.clone(), requests, CALLERS).await?;
    Ok(start.elapsed())
}
