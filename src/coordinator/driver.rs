//! Runs the machine on tokio: feeds it from the channels and carries out its effects. It decides
//! nothing.
//!
//! Everything happens in one task, which never waits while the machine has something to do; only
//! the append of the batch in flight runs beside it.

mod counting;
mod effects;
mod hub_commands;
mod intake;

use super::{
    body_cache::prefetch::Prefetch,
    commands::QueuedCommand,
    machine::{Effect, Event, Machine, Release},
    ownership::{OwnershipRequest, replica_state::ReplicaState},
    streams::event_buffer::EventBuffers,
};
use crate::{
    clock::Clock,
    core::{BatchNo, Command, Reply, Ticket},
    executor_protocol::ExecutorReport,
    hub::Hub,
    journal::{Commit, Journal, Writer},
    metrics::Metrics,
    traces::Traces,
};
use counting::Counting;
use rustc_hash::FxHashMap;
use std::{
    pin::Pin,
    time::{Duration, Instant},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Sleep,
};

/// The loop runs each second at least. After so long without it the process was suspended, or
/// starved: renewals of claims wait in the sockets.
const PAUSED: Duration = Duration::from_secs(2);

/// Everything the loop needs.
pub(super) struct Driver {
    pub machine: Machine,
    pub journal: Journal,
    pub clock: Clock,
    pub state: ReplicaState,
    pub buffers: EventBuffers,
    pub hub: Hub,
    pub bodies: Prefetch,
    pub commands: mpsc::Receiver<QueuedCommand>,
    pub closed_streams: mpsc::Receiver<Command>,
    /// What executors report.
    pub reports: mpsc::Receiver<ExecutorReport>,
    pub ownership_events: mpsc::Receiver<Event>,
    pub ownership_requests: mpsc::Sender<OwnershipRequest>,
    /// What must be left of the lease for replies that rest on it alone.
    pub lease_margin: Duration,
    pub metrics: Metrics,
    pub traces: Traces,
}

/// The running loop.
struct Loop {
    driver: Driver,
    /// The batch in flight: returns the writer with its outcome.
    in_flight: Option<InFlight>,
    /// `None` while a batch is in flight.
    writer: Option<Writer>,
    waiting: FxHashMap<Ticket, oneshot::Sender<Reply>>,
    /// Durable, and not published to streams yet.
    released: Vec<Release>,
    /// Durable, and not sent to callers yet.
    replies: Vec<(Ticket, Reply)>,
    /// Ends of streams that were opened for callers who have gone.
    abandoned_streams: Vec<Event>,
    next_ticket: u64,
    /// Wakes the loop for what time brings.
    alarm: Pin<Box<Sleep>>,
    counting: Counting,
    /// When the loop ran last.
    last_step: Instant,
}

type InFlight = Pin<Box<dyn Future<Output = (Writer, BatchNo, Commit)> + Send>>;

/// Ends the process when the loop panics. Such a server would serve nobody, but look alive; a new
/// one recovers from the journal.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("the coordinator has failed; the process ends");
            std::process::abort();
        }
    }
}

impl Driver {
    /// Runs until the queue of commands is closed, on the threads of the connections: who hands it
    /// a command, and whom it answers, is most often on the same one, so that nothing waits for
    /// another thread to wake.
    pub(super) fn start(self, first: Effect) {
        tokio::spawn(async move {
            let _guard = AbortOnPanic;
            self.run(first).await;
        });
    }

    async fn run(self, first: Effect) {
        let writer = Some(self.journal.writer());
        let mut this = Loop {
            counting: Counting::new(self.metrics.clone()),
            driver: self,
            in_flight: None,
            writer,
            waiting: FxHashMap::default(),
            released: Vec::new(),
            replies: Vec::new(),
            abandoned_streams: Vec::new(),
            next_ticket: 0,
            alarm: Box::pin(tokio::time::sleep(Duration::ZERO)),
            last_step: Instant::now(),
        };
        this.carry_out(vec![first]);
        while let Some(events) = this.gather().await {
            this.step(events);
            // Work without a session is done by now. Its outcome is sent before the last batch is
            // published, because waking others takes longer.
            let done = this.take_arrived();
            if !done.is_empty() {
                this.step(done);
            }
            this.publish();
            if this.driver.state.is_stalled() {
                this.refuse_all();
            }
        }
    }
}

impl Loop {
    fn step(&mut self, mut events: Vec<Event>) {
        // Events after the end of an ownership belong to the next one.
        if let Some(end) = events
            .iter()
            .position(|event| matches!(event, Event::Deposed))
            .filter(|end| end + 1 < events.len())
        {
            let next = events.split_off(end + 1);
            self.step(events);
            return self.step(next);
        }
        let driver = &mut self.driver;
        let begins = events.iter().rev().find_map(|event| match event {
            Event::Recovered { epoch, .. } => Some(*epoch),
            _ => None,
        });
        let epoch = begins.unwrap_or(driver.machine.epoch());
        let holds = driver.state.lease_holds(epoch, driver.lease_margin);
        driver.machine.set_lease(holds);
        let mut begun = None;
        for event in &events {
            if let Event::Recovered {
                schedulers,
                epoch,
                last_batch,
                window,
                ..
            } = event
            {
                self.notice_lost_batches(*last_batch);
                self.driver.bodies.lock().recovered(schedulers);
                begun = Some((
                    *epoch,
                    window
                        .as_ref()
                        .map(|window| window.keys().cloned().collect()),
                ));
            }
        }
        let more = begun.map(|(epoch, inherited)| self.begin(epoch, inherited));
        let events = events.into_iter().chain(more.into_iter().flatten());
        let (now, lead) = self.driver.clock.now_and_lead();
        self.driver.machine.set_lead(lead);
        if self.last_step.elapsed() >= PAUSED {
            self.driver.machine.was_paused(now);
        }
        self.last_step = Instant::now();
        let effects = self.driver.machine.step(now, events);
        self.carry_out(effects);
        if let Some(core) = self.driver.machine.core() {
            self.driver.bodies.look_ahead(core);
        }
    }
}
