//! Streams that are never read while millions of events are sent: what they cost the streams that
//! are read, and the server's memory.
//!
//! Two servers take turns under the same load; on one of them some streams are stalled from the
//! first turn to the last. A turn gives tasks to a busy scheduler, which all stalled streams watch,
//! and a few to calm ones; it ends when every reading stream has received all events.

use crate::{
    environment::{Environment, Server},
    fill,
    paired::ratio,
    report::{Report, median},
};
use anyhow::{Result, ensure};
use rallypoint_client::{
    Client, DoneStream, Scheduler,
    api::{
        NoopTask, SchedulerSettings, SynchronizationRequest, SynchronizationResponse, Task,
        TaskOptions, Until, scheduler_service_client::SchedulerServiceClient, task, until::Kind,
    },
};
use std::{collections::HashMap, sync::Arc, time::Instant};
use tokio::{sync::Semaphore, task::JoinSet};
use tonic::{Streaming, transport::Endpoint};

/// Streams of one connection.
const PER_CONNECTION: u64 = 20;
/// One stream in so many never reads.
const STALLED: u64 = 10;
/// One busy scheduler; the others are calm.
const SCHEDULERS: u64 = 10;
/// One reading stream in so many reads the busy scheduler.
const BUSY: u64 = 20;
/// A calm scheduler has so many times fewer tasks.
const CALM: u64 = 100;
const PER_CALL: u64 = 100;
const CALLERS: u64 = 16;
/// Events per turn. The tasks are queued before it starts, which takes memory as well.
const TURN: u64 = 50_000;
/// Limit for the memory of the server.
const LIMIT_MIB: f64 = 256.0;

/// A server and the streams of it.
struct Side {
    server: Server,
    /// The busy scheduler first.
    schedulers: Vec<Scheduler>,
    /// Reading streams, over all schedulers.
    readers: u64,
    /// Tasks of the busy scheduler so far.
    submitted: u64,
    /// Events received by the reading streams.
    received: Arc<Semaphore>,
    reading: JoinSet<Result<()>>,
    _stalled: Vec<Streaming<SynchronizationResponse>>,
}

pub(crate) async fn run(streams: u64, events: u64) -> Result<Report> {
    let environment = Environment::new().await?;
    let (stalled, turns) = (streams / STALLED, events.div_ceil(TURN).max(2));
    let each = events.div_ceil(turns);
    let mut alone = Side::open(&environment, "alone", streams - stalled, 0).await?;
    let mut beside = Side::open(&environment, "beside", streams - stalled, stalled).await?;
    let (mut free, mut burdened) = (Vec::new(), Vec::new());
    let (mut without, mut memory) = (Vec::new(), Vec::new());
    for turn in 0..turns {
        let mut sides = [
            (&mut alone, &mut free, &mut without),
            (&mut beside, &mut burdened, &mut memory),
        ];
        sides.rotate_left(turn as usize % 2);
        for (side, rates, memory) in sides {
            rates.push(side.turn(each).await?);
            memory.push(side.server.usage()?.mib());
        }
    }
    // The first turn warms up plans and the memory of the streams.
    let (free, burdened) = (free.split_off(1), burdened.split_off(1));
    let peak = beside.server.usage()?.peak_mib();
    let last = memory.len() - 1;
    Ok(Report {
        name: "streams",
        figure: median(&burdened),
        unit: "events/s",
        ratio: ratio(&burdened, &free),
        baseline: (
            "the reading streams of a server without stalled ones, turn by turn",
            median(&free),
        ),
        runs: burdened,
        also: vec![
            ("resident_mib_at_start", memory[0]),
            ("resident_mib_in_the_middle", memory[last / 2]),
            ("resident_mib_at_end", memory[last]),
            ("growth_mib", memory[last] - memory[0]),
            ("growth_mib_without_stalled", without[last] - without[0]),
            ("peak_mib", peak),
            ("peak_mib_without_stalled", alone.server.usage()?.peak_mib()),
            ("peak_of_256_mib", peak / LIMIT_MIB),
        ],
        ran: format!(
            "{streams} streams over {SCHEDULERS} schedulers, {stalled} of which are never read \
             and stay open while {} events of one scheduler pass them by, each of a task of its \
             own kind, in {turns} turns; the reading streams got {} million events",
            beside.submitted,
            beside.deliveries(beside.submitted) / 1_000_000
        ),
    })
}

impl Side {
    async fn open(
        environment: &Environment,
        name: &str,
        readers: u64,
        stalled: u64,
    ) -> Result<Side> {
        let server = environment
            .server(&environment.database(name).await?)
            .await?;
        let (received, mut reading) = (Arc::new(Semaphore::new(0)), JoinSet::new());
        let mut schedulers = Vec::new();
        for at in 0..SCHEDULERS {
            let readers = share(readers, at);
            let scheduler = Client::connect(&server.address)
                .await?
                .open(SchedulerSettings::default())
                .await?;
            for first in (0..readers).step_by(PER_CONNECTION as usize) {
                let own = Client::connect(&server.address)
                    .await?
                    .scheduler(scheduler.handle());
                for _ in first..(first + PER_CONNECTION).min(readers) {
                    reading.spawn(read(
                        own.synchronize(0, Some(forever())).await?,
                        received.clone(),
                    ));
                }
            }
            schedulers.push(scheduler);
        }
        let stalled_streams = stall(&server, &schedulers[0], stalled).await?;
        Ok(Side {
            server,
            schedulers,
            readers,
            submitted: 0,
            received,
            reading,
            _stalled: stalled_streams,
        })
    }

    /// Gives the busy scheduler `tasks` tasks. Returns the events per second over all reading
    /// streams.
    async fn turn(&mut self, tasks: u64) -> Result<f64> {
        let (from, to) = (self.submitted, self.submitted + tasks);
        for (at, scheduler) in self.schedulers.iter().enumerate() {
            let share = if at == 0 { 1 } else { CALM };
            scheduler.pause().await?;
            fill::fill_with(
                scheduler,
                from / share,
                to / share,
                PER_CALL,
                CALLERS,
                single,
            )
            .await?;
        }
        let expected = self.deliveries(to) - self.deliveries(from);
        let start = Instant::now();
        for scheduler in &self.schedulers {
            scheduler.resume(false).await?;
        }
        tokio::select! {
            permits = self.received.acquire_many(u32::try_from(expected)?) => permits?.forget(),
            Some(ended) = self.reading.join_next() => ended??,
        }
        self.submitted = to;
        Ok(expected as f64 / start.elapsed().as_secs_f64())
    }

    /// Events received by the reading streams once the first `tasks` tasks of the busy scheduler
    /// and their share of the others have ended.
    fn deliveries(&self, tasks: u64) -> u64 {
        let events = |at| share(self.readers, at) * if at == 0 { tasks } else { tasks / CALM };
        (0..SCHEDULERS).map(events).sum()
    }
}

/// How many of the reading streams read the scheduler `at`.
fn share(readers: u64, at: u64) -> u64 {
    let busy = readers / BUSY;
    if at == 0 {
        busy
    } else {
        (readers - busy) / (SCHEDULERS - 1)
    }
}

/// Reads a stream, checks the order of its events, and counts them.
async fn read(mut stream: DoneStream, received: Arc<Semaphore>) -> Result<()> {
    let mut next = 1;
    while let Some(events) = stream.next().await? {
        for event in &events {
            ensure!(
                event.done_no == next,
                "event {} where {next} was due",
                event.done_no
            );
            next += 1;
        }
        received.add_permits(events.len());
    }
    anyhow::bail!("the stream has ended")
}

/// Opens streams that are never read, with the flow-control windows of a client that sets none.
async fn stall(
    server: &Server,
    scheduler: &Scheduler,
    count: u64,
) -> Result<Vec<Streaming<SynchronizationResponse>>> {
    let mut stalled_streams = Vec::new();
    for _ in 0..count.div_ceil(PER_CONNECTION) {
        let mut calls = SchedulerServiceClient::new(
            Endpoint::from_shared(server.address.clone())?
                .connect()
                .await?,
        );
        for _ in 0..PER_CONNECTION.min(count - stalled_streams.len() as u64) {
            let until = Some(Until {
                kind: Some(forever()),
            });
            let request = SynchronizationRequest {
                handle: scheduler.handle().to_owned(),
                until,
                ..Default::default()
            };
            stalled_streams.push(calls.synchronization(request).await?.into_inner());
        }
    }
    Ok(stalled_streams)
}

fn forever() -> Kind {
    Kind::Forever(())
}

/// A task that differs from its neighbours, so that it is never merged into a run with them.
fn single(number: u64) -> Task {
    let labels = HashMap::from([("half".to_owned(), (number % 2).to_string())]);
    let options = Some(TaskOptions {
        labels,
        ..TaskOptions::default()
    });
    Task {
        kind: Some(task::Kind::Noop(NoopTask::default())),
        order: None,
        options,
    }
}
